// Makes straight lines of the script's short way: what is written once for every limit becomes code
// for each; or lines in a loop, of the same text. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidegate::store {

// Expands a template for `limits` limits:
//   {{...}}             a list: one item for each limit, with `$` as its number from 1; without `$`
//                       as often as there are limits, unseparated (a format)
//   --each limit ...    up to the line `--end`: the lines for each limit, the last one first
//   LIMITS, HEAD        their number; the bytes of a state's head and records (lua/state.lua)
std::string unroll(std::string_view text, std::size_t limits);

// Puts `lines` where the text says `mark` ("--window"), in place of that line.
std::string with_lines(std::string_view text, std::string_view mark, std::string_view lines);

// Lines for each limit as they are in a loop over the limits: nothing stands for `$`.
std::string in_loop(std::string_view lines);

}  // namespace tidegate::store
