// base64 of RFC 4648 section 4: as Basic credentials and Amazon's events write it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tidegate {

// The six bits of a digit of base64; -1: it is none.
constexpr int base64_bits_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

// Writes the bytes that `text` stands for. Returns their number; nothing if the text is not padded,
// has another character, or has bits left over that are not zero. Requires room for three bytes for
// four digits.
inline std::optional<std::size_t> decode_base64(std::string_view text, char* out) {
    if (text.size() % 4 != 0) return std::nullopt;
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    text.remove_suffix(padding);
    std::uint32_t held = 0;
    int held_bits = 0;
    std::size_t written = 0;
    for (const char c : text) {
        const int bits = base64_bits_of(c);
        if (bits < 0) return std::nullopt;
        held = held << 6 | static_cast<std::uint32_t>(bits);
        held_bits += 6;
        if (held_bits < 8) continue;
        held_bits -= 8;
        out[written++] = static_cast<char>(held >> held_bits & 0xff);
        held &= (1U << held_bits) - 1;
    }
    if (held != 0) return std::nullopt;
    return written;
}

}  // namespace tidegate
