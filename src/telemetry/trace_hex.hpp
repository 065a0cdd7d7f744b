// Hexadecimal digits of identifiers, eight at a time: every request that is forwarded with tracing
// carries 48 of them. Pure.
#pragma once

#include <endian.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tidegate::telemetry {

// The eight digits, in lower case, of four bytes as they stand in memory.
inline std::uint64_t hex_of(std::uint32_t bytes) {
    std::uint64_t spread = le32toh(bytes);
    spread = (spread | spread << 16) & 0x0000ffff0000ffff;
    spread = (spread | spread << 8) & 0x00ff00ff00ff00ff;
    // The high half of each byte, which comes first, and the low one: a byte each.
    const std::uint64_t halves = (spread >> 4 & 0x000f000f000f000f) | (spread & 0x000f000f000f000f)
                                                                          << 8;
    const std::uint64_t are_letters = (halves + 0x0606060606060606) >> 4 & 0x0101010101010101;
    return htole64(halves + 0x3030303030303030 + are_letters * ('a' - '0' - 10));
}

// Writes two digits in lower case for each of `bytes` to `to`.
template <std::size_t kBytes>
inline void write_hex(const std::array<unsigned char, kBytes>& bytes, char* to) {
    static_assert(kBytes % 4 == 0);
    for (std::size_t i = 0; i < kBytes; i += 4) {
        std::uint32_t four = 0;
        std::memcpy(&four, bytes.data() + i, 4);
        const std::uint64_t digits = hex_of(four);
        std::memcpy(to + 2 * i, &digits, 8);
    }
}

}  // namespace tidegate::telemetry
