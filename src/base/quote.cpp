#include "base/quote.hpp"

#include <algorithm>

namespace tidegate {

namespace {

constexpr std::size_t kShownBytes = 60;

bool continues_utf8(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

bool is_between(unsigned char byte, unsigned char low, unsigned char high) {
    return byte >= low && byte <= high;
}

// Of the first character in UTF-8, judged by its first byte and how many continue it; 0: none.
std::size_t character_bytes(std::string_view text) {
    const auto first = static_cast<unsigned char>(text.front());
    std::size_t size = 0;
    if (first < 0x80) size = 1;
    if (is_between(first, 0xC2, 0xDF)) size = 2;
    if (is_between(first, 0xE0, 0xEF)) size = 3;
    if (is_between(first, 0xF0, 0xF4)) size = 4;
    if (size == 0 || size > text.size()) return 0;
    const std::string_view rest = text.substr(1, size - 1);
    return std::all_of(rest.begin(), rest.end(), continues_utf8) ? size : 0;
}

}  // namespace

std::size_t misleading_bytes(std::string_view text) {
    const auto byte = [text](std::size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i])
                               : static_cast<unsigned char>(0);
    };
    if (byte(0) < 0x20 || byte(0) == 0x7F) return 1;
    if (byte(0) == 0xC2 && is_between(byte(1), 0x80, 0x9F)) return 2;
    const bool is_hidden =
        (byte(0) == 0xE2 && byte(1) == 0x80 &&
         (is_between(byte(2), 0x8B, 0x8F) || is_between(byte(2), 0xA8, 0xAE))) ||
        (byte(0) == 0xE2 && byte(1) == 0x81 && is_between(byte(2), 0xA6, 0xA9)) ||
        (byte(0) == 0xEF && byte(1) == 0xBB && byte(2) == 0xBF);
    return is_hidden ? 3 : 0;
}

std::string displayable(std::string_view text) {
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string out;
    while (!text.empty()) {
        const std::size_t size = character_bytes(text);
        const std::size_t hidden = size == 0 ? 1 : misleading_bytes(text);
        if (hidden == 0) out += text.substr(0, size);
        for (const char c : text.substr(0, hidden)) {
            const auto byte = static_cast<unsigned char>(c);
            out += "\\x";
            out += kHex[byte >> 4U];
            out += kHex[byte & 0x0FU];
        }
        text.remove_prefix(std::max(size, hidden));
    }
    return out;
}

std::string quote(std::string_view text) {
    std::size_t shown = text.size();
    if (shown > kShownBytes) {
        shown = kShownBytes;
        while (shown > 0 && continues_utf8(text[shown])) --shown;
    }
    const std::string_view mark = shown < text.size() ? "..." : "";
    return "`" + displayable(text.substr(0, shown)).append(mark) + "`";
}

}  // namespace tidegate
