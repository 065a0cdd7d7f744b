// Hexadecimal digits. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tidegate {

inline constexpr std::string_view kHexDigits = "0123456789abcdef";
inline constexpr std::string_view kUpperHexDigits = "0123456789ABCDEF";

// The value of a digit in either case, or -1.
constexpr int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// The byte that the digits `high` and `low` write, or -1.
constexpr int hex_byte(char high, char low) {
    const int upper = hex_value(high);
    const int lower = hex_value(low);
    return upper < 0 || lower < 0 ? -1 : upper << 4 | lower;
}

inline void append_hex(std::uint8_t byte, std::string& out, std::string_view digits = kHexDigits) {
    out += digits[byte >> 4];
    out += digits[byte & 15];
}

// Sixteen digits.
inline void append_hex64(std::uint64_t number, std::string& out) {
    static constexpr auto kPairs = [] {
        std::array<std::array<char, 2>, 256> pairs{};
        for (std::size_t i = 0; i < pairs.size(); ++i) {
            pairs[i] = {kHexDigits[i >> 4], kHexDigits[i & 15]};
        }
        return pairs;
    }();
    std::array<char, 16> text;
    for (std::size_t i = text.size(); i > 0; number >>= 8) {
        const auto& pair = kPairs[number & 255];
        text[--i] = pair[1];
        text[--i] = pair[0];
    }
    out.append(text.data(), text.size());
}

template <std::size_t kBytes>
constexpr std::array<char, 2 * kBytes> hex_of(const std::array<unsigned char, kBytes>& bytes) {
    std::array<char, 2 * kBytes> text{};
    for (std::size_t i = 0; i < kBytes; ++i) {
        text[2 * i] = kHexDigits[bytes[i] >> 4];
        text[2 * i + 1] = kHexDigits[bytes[i] & 15];
    }
    return text;
}

inline void append_hex(std::span<const unsigned char> bytes, std::string& out) {
    for (const unsigned char byte : bytes) append_hex(byte, out);
}

// `%2F`: with capitals, as RFC 3986 section 2.1 wants.
inline void append_percent_encoded(char c, std::string& out) {
    out += '%';
    append_hex(static_cast<std::uint8_t>(c), out, kUpperHexDigits);
}

}  // namespace tidegate
