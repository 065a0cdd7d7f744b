// Hexadecimal digits of identifiers, two at a time from a table: every request that is forwarded
// with tracing carries 48 of them. Pure.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/text.hpp"

namespace tidegate::telemetry {

inline constexpr auto kHexPairs = [] {
    std::array<std::uint16_t, 256> pairs{};
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        pairs[i] = std::bit_cast<std::uint16_t>(std::array{kHexDigits[i >> 4], kHexDigits[i & 15]});
    }
    return pairs;
}();

// Writes two digits in lower case for each of `bytes` to `to`.
template <std::size_t kBytes>
inline void write_hex(const std::array<unsigned char, kBytes>& bytes, char* to) {
    for (std::size_t i = 0; i < kBytes; ++i) {
        std::memcpy(to + 2 * i, &kHexPairs[bytes[i]], 2);
    }
}

}  // namespace tidegate::telemetry
