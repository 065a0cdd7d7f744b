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

// The high bit of each byte that is `first` to `last`, which are ASCII; no other bits.
constexpr std::uint64_t bytes_in(std::uint64_t word, char first, char last) {
    // The high bit of a byte of these tells whether it is at least `first`, and above `last`.
    const std::uint64_t rest = word & each_byte(0x7f);
    const std::uint64_t from_first = rest + each_byte(static_cast<std::uint8_t>(0x80 - first));
    const std::uint64_t above_last = rest + each_byte(static_cast<std::uint8_t>(0x7f - last));
    return (from_first ^ above_last) & ~word & each_byte(0x80);
}

// With the letters A to Z in lower case.
constexpr std::uint64_t to_lower(std::uint64_t word) {
    return word | bytes_in(word, 'A', 'Z') >> 2;
}

// With `other` in place of each byte that is neither a digit nor a letter in lower case.
constexpr std::uint64_t replace_others(std::uint64_t word, char other) {
    const std::uint64_t kept = bytes_in(word, 'a', 'z') | bytes_in(word, '0', '9');
    const std::uint64_t whole = (kept << 1) - (kept >> 7);  // all bits of those bytes
    return (word & whole) | (each_byte(static_cast<std::uint8_t>(other)) & ~whole);
}

// How many bytes at the beginning of the text are printable ASCII, 0x20 to 0x7e; the last ones, if
// they fill no word, are not looked at.
constexpr std::size_t printable_size(std::string_view text) {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    constexpr bool kFirstIsLow = std::endian::native == std::endian::little;
    std::size_t size = 0;
    for (; text.size() - size >= kWord; size += kWord) {
        const auto word = load_word<std::uint64_t>(text.data() + size);
        const std::uint64_t others = ~bytes_in(word, ' ', '~') & each_byte(0x80);
        if (others == 0) continue;
        const int bits = kFirstIsLow ? std::countr_zero(others) : std::countl_zero(others);
        return size + static_cast<std::size_t>(bits) / 8;
    }
    return size;
}

}  // namespace tidegate
