#include "base/quote.hpp"

#include <algorithm>
#include <initializer_list>

namespace tidegate {

namespace {

constexpr std::size_t kShownBytes = 60;

bool continues_utf8(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> beginnings) {
    return std::any_of(beginnings.begin(), beginnings.end(),
                       [&](std::string_view begin) { return text.starts_with(begin); });
}

// How many bytes at the beginning are a character that a terminal obeys instead of showing it: C0,
// DEL, C1, and those that turn the direction of writing (U+200E, F; U+202A to E; U+2066 to 9).
std::size_t misleading_bytes(std::string_view text) {
    const auto byte = static_cast<unsigned char>(text.front());
    if (byte < 0x20 || byte == 0x7F) return 1;
    if (byte == 0xC2 && text.size() > 1 && static_cast<unsigned char>(text[1]) < 0xA0) return 2;
    const bool turns = is_one_of(text, {"\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d",
                                        "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"});
    return turns ? 3 : 0;
}

}  // namespace

std::string quote(std::string_view text) {
    constexpr std::string_view kHex = "0123456789abcdef";
    std::size_t shown = text.size();
    if (shown > kShownBytes) {
        shown = kShownBytes;
        while (shown > 0 && continues_utf8(text[shown])) --shown;
    }
    std::string out = "`";
    for (std::size_t i = 0; i < shown; ++i) {
        const std::size_t size = misleading_bytes(text.substr(i, shown - i));
        if (size == 0) {
            out += text[i];
            continue;
        }
        for (const char c : text.substr(i, size)) {
            const auto hidden = static_cast<unsigned char>(c);
            out += "\\x";
            out += kHex[hidden >> 4U];
            out += kHex[hidden & 0x0FU];
        }
        i += size - 1;
    }
    if (shown < text.size()) out += "...";
    out += '`';
    return out;
}

}  // namespace tidegate
