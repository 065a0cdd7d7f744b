// "Did you mean ...": the nearest of the words that would have been right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tidegate::config {

// The word of `known` nearest to `word`, if it is near enough to be what was meant; else empty.
// Near: few letters changed, added, left out or swapped with their neighbour; else one of the two
// is the beginning of the other (`warning`, `warn`).
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known);

// `a`, `b` or `c`; each in backquotes.
std::string one_of(const std::vector<std::string_view>& words);

}  // namespace tidegate::config
