// Comparison with a secret, and a hash with a secret for tables of what clients choose: clients
// must not be able to choose names that collide. Pure. Inline, as every charge in process hashes
// its identifiers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tidegate {

// Takes a time that depends on the size of `given` alone: it does not reveal where the two differ,
// or how long `expected` is. It reads as volatile, so that no compiler makes it stop early.
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

// Folds a 128-bit product: every bit of the result depends on every bit of both.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// The first `size` bytes from `at` on as a number, the first byte the lowest; requires a size from
// 1 to 7. It reads two words that overlap, as a copy of so many bytes is made byte by byte.
inline std::uint64_t read_short(const char* at, std::size_t size) {
    const auto byte_at = [at](std::size_t i) {
        return std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
    };
    if (size < sizeof(std::uint32_t)) return byte_at(0) | byte_at(size / 2) | byte_at(size - 1);
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::memcpy(&low, at, sizeof(low));
    std::memcpy(&high, at + size - sizeof(high), sizeof(high));
    return low | std::uint64_t{high} << (8 * (size - sizeof(high)));
}

// `hash` is what came before; `secret` is odd.
inline std::uint64_t hash_text(std::string_view text, std::uint64_t hash, std::uint64_t secret) {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
    hash ^= text.size() * kOdd;
    const char* at = text.data();
    std::size_t left = text.size();
    std::uint64_t word = 0;
    for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
        std::memcpy(&word, at, sizeof(word));
        hash = mix(hash ^ word, secret);
    }
    if (left > 0) hash = mix(hash ^ read_short(at, left), secret);
    return mix(hash ^ secret, kOdd);
}

}  // namespace tidegate
