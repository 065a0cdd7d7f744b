// Text, eight bytes at a time. Pure.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace tidegate {

// A number of as many bytes as it has. In the machine's own order: two are equal if their bytes
// are.
template <class Word>
constexpr Word load_word(const char* bytes) {
    Word word = 0;
    if (std::is_constant_evaluated()) {
        for (std::size_t i = 0; i < sizeof(Word); ++i) {
            const std::size_t shift =
                8 * (std::endian::native == std::endian::little ? i : sizeof(Word) - 1 - i);
            word |= static_cast<Word>(Word{static_cast<std::uint8_t>(bytes[i])} << shift);
        }
    } else {
        std::memcpy(&word, bytes, sizeof(Word));
    }
    return word;
}

constexpr std::uint64_t each_byte(std::uint8_t byte) {
    return byte * std::uint64_t{0x0101010101010101};
}

// With the letters A to Z in lower case.
constexpr std::uint64_t to_lower(std::uint64_t word) {
    // Where a byte is ASCII, its high bit tells whether it is at least 'A', and above 'Z'.
    const std::uint64_t rest = word & each_byte(0x7f);
    const std::uint64_t from_a = rest + each_byte(0x80 - 'A');
    const std::uint64_t above_z = rest + each_byte(0x7f - 'Z');
    const std::uint64_t upper = (from_a ^ above_z) & ~word & each_byte(0x80);
    return word | upper >> 2;
}

// Whether every byte is printable ASCII: 0x20 to 0x7e.
constexpr bool is_printable(std::uint64_t word) {
    constexpr std::uint64_t kHigh = each_byte(0x80);
    // Without a high bit nothing carries into the next byte.
    const bool none_above = ((word | (word + each_byte(1))) & kHigh) == 0;
    return none_above && ((word + each_byte(0x80 - 0x20)) & kHigh) == kHigh;
}

// The same of a text. What is shorter than a word is not looked at, and not printable.
constexpr bool is_printable(std::string_view text) {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    if (text.size() < kWord) return false;
    const char* const last = text.data() + text.size() - kWord;
    for (const char* at = text.data(); at < last; at += kWord) {
        if (!is_printable(load_word<std::uint64_t>(at))) return false;
    }
    return is_printable(load_word<std::uint64_t>(last));
}

}  // namespace tidegate
