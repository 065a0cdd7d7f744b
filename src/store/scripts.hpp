// The scripts that run in Redis, put together from the files of lua/. Made once; any thread.
#pragma once

#include <vector>

#include "limit/charge.hpp"
#include "redis/script.hpp"

namespace tidegate::store {

// What charges requests with these items. Windows alone under one policy have a script of their own
// for each number of limits: the same, with a short way in front. No
// items: the one that can do all.
const redis::Script& charge_script(const limit::Charge& charge);

const redis::Script& give_back_script();
const redis::Script& renew_script();
const redis::Script& report_script();
const redis::Script& inspect_script();
const redis::Script& forget_script();

// All of them.
std::vector<const redis::Script*> all_scripts();

}  // namespace tidegate::store
