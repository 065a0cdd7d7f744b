// Numbers that look random, for choices that every process makes alike.
#pragma once

#include <cstdint>

namespace tidegate::balance {

// 2^64 over the golden ratio, odd: multiples of it are spread evenly.
inline constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15ULL;

// Every bit of the result depends on every bit of `value`.
inline std::uint64_t scrambled(std::uint64_t value) {
    value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdULL;
    value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return value ^ (value >> 33);
}

}  // namespace tidegate::balance
