// base64 of RFC 4648: that of section 4, as Basic credentials and Amazon's events write it, and
// that of section 5, with `-` and `_`, as JOSE writes it. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.hpp"

namespace tidegate {

inline constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
inline constexpr std::string_view kBase64UrlDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// The six bits that each byte stands for as a digit; 64 and more: it is none.
using Base64Bits = std::array<std::uint8_t, 256>;

constexpr Base64Bits base64_bits_of(std::string_view digits) {
    Base64Bits bits{};
    bits.fill(0xff);
    for (std::size_t i = 0; i < digits.size(); ++i) {
        bits[static_cast<unsigned char>(digits[i])] = static_cast<std::uint8_t>(i);
    }
    return bits;
}

// Writes the bytes that `text` stands for, without padding. Returns their number; nothing if the
// text has another character, as many that no bytes have them, or bits left over that are not zero.
// Requires room for three bytes for four digits.
inline std::optional<std::size_t> decode_unpadded_base64(std::string_view text,
                                                         const Base64Bits& bits_of, char* out) {
    if (text.size() % 4 == 1) return std::nullopt;
    std::uint32_t held = 0;
    unsigned held_bits = 0;
    std::size_t written = 0;
    for (const char c : text) {
        const std::uint32_t bits = bits_of[static_cast<unsigned char>(c)];
        if (bits >= 64) return std::nullopt;
        held = held << 6 | bits;
        held_bits += 6;
        if (held_bits < 8) continue;
        held_bits -= 8;
        out[written++] = static_cast<char>(held >> held_bits & 0xff);
        held &= (1U << held_bits) - 1;
    }
    if (held != 0) return std::nullopt;
    return written;
}

// The same of section 4, and nothing if the text is not padded.
inline std::optional<std::size_t> decode_base64(std::string_view text, char* out) {
    static constexpr Base64Bits kBits = base64_bits_of(kBase64Digits);
    if (text.size() % 4 != 0) return std::nullopt;
    text.remove_suffix(text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0);
    return decode_unpadded_base64(text, kBits, out);
}

// base64url as JOSE writes it (RFC 7515 section 2): the bytes that `text` stands for, or nothing
// when it is not the one way to write them: the URL alphabet only, no padding, no white space, the
// bits left over zero (RFC 4648 section 3.5).
inline std::optional<std::string> decode_base64url(std::string_view text) {
    static constexpr Base64Bits kBits = base64_bits_of(kBase64UrlDigits);
    std::string bytes(text.size() / 4 * 3 + 2, '\0');
    const auto size = decode_unpadded_base64(text, kBits, bytes.data());
    if (!size) return std::nullopt;
    bytes.resize(*size);
    return bytes;
}

// Appends `bytes` in these digits, without padding.
inline void append_base64(std::string_view bytes, std::string_view digits, std::string& out) {
    TextTail tail(out, (4 * bytes.size() + 2) / 3);
    std::uint32_t held = 0;
    unsigned held_bits = 0;
    for (const char byte : bytes) {
        held = held << 8 | static_cast<unsigned char>(byte);
        held_bits += 8;
        for (; held_bits >= 6; held_bits -= 6) tail.put(digits[held >> (held_bits - 6) & 0x3f]);
    }
    if (held_bits > 0) tail.put(digits[held << (6 - held_bits) & 0x3f]);
}

inline std::string base64url_of(std::string_view bytes) {
    std::string text;
    append_base64(bytes, kBase64UrlDigits, text);
    return text;
}

}  // namespace tidegate
