// Expands lua/fast_path.lua, which says how its template is written. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidegate::store {

// Writes the branch of `text` once for each number of limits from 1 to `most`, and `window` once
// for each limit of a branch. Drops lines that are comments.
std::string unroll(std::string_view text, std::string_view window, std::size_t most);

}  // namespace tidegate::store
