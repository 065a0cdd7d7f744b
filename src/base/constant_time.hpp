// Comparison of secrets. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidegate {

// The time it takes depends on the size of `given` alone: it does not tell where the two differ, or
// how long `expected` is. Reads as volatile, so that no compiler makes it stop early.
inline bool equal_in_constant_time(std::string_view given, std::string_view expected) {
    if (expected.empty()) return given.empty();
    const volatile char* const ours = expected.data();
    const volatile char* const theirs = given.data();
    int difference = given.size() == expected.size() ? 0 : 1;
    for (std::size_t i = 0; i < given.size(); ++i) {
        const std::size_t at = i < expected.size() ? i : 0;
        difference |= theirs[i] ^ ours[at];
    }
    return difference == 0;
}

}  // namespace tidegate
