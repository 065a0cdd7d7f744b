// The scripts that run in Redis, made of the files of lua/ when they are first needed. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "limit/charge.hpp"
#include "redis/resp.hpp"

namespace tidegate::store {

// The script that decides this charge: for plain windows the one with the fast path in front, else
// the one without it. Without items: the latter, which decides every charge.
const redis::Script& charge_script(const limit::Charge& charge);

const redis::Script& give_back_script();
// Correct what was taken of a reservation, once.
const redis::Script& settle_less_script();
const redis::Script& settle_more_script();
const redis::Script& renew_script();
const redis::Script& hold_script();
const redis::Script& report_script();
// The same, of which Redis remembers that it was done: lua/claim.lua.
const redis::Script& report_once_script();
const redis::Script& inspect_script();
const redis::Script& forget_script();

// All scripts that the program may load into a Redis.
std::vector<const redis::Script*> all_scripts();

// The text of lua/NAME.lua, which is built into the program.
std::string_view lua_file(std::string_view name);

// The lines of an algorithm's file that are for `script`, without comments (lua/algorithms.lua).
std::string lines_for(std::string_view text, std::string_view script);

// Expands lua/fast_path.lua, which says how its template is written: writes the branch of `text`
// once for each number of limits from 1 to `most`, and `window` once for each limit of a branch.
// Drops lines that are comments.
std::string unroll(std::string_view text, std::string_view window, std::size_t most);

}  // namespace tidegate::store
