// The scripts that run in Redis, put together from the files of lua/. Made once; any thread.
#pragma once

#include <vector>

#include "limit/charge.hpp"
#include "redis/script.hpp"

namespace tidegate::store {

// What charges requests with these items. For windows alone it has a shorter way in front: a script
// for each number of limits, and one for many limits, or policies with different numbers of them.
// No items: the one that can do all, and nothing else.
const redis::Script& charge_script(const limit::Charge& charge);

const redis::Script& give_back_script();
const redis::Script& renew_script();
const redis::Script& hold_script();
const redis::Script& report_script();
const redis::Script& inspect_script();
const redis::Script& forget_script();

// All that a Redis may come to hold.
std::vector<const redis::Script*> all_scripts();

}  // namespace tidegate::store
