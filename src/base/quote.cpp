#include "base/quote.hpp"

#include <algorithm>

#include "base/utf8.hpp"

namespace tidegate {

namespace {

constexpr std::size_t kShownBytes = 60;

bool continues_utf8(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

}  // namespace

std::size_t misleading_bytes(std::string_view text) {
    const std::size_t length = utf8_length(text);
    return length != 0 && is_hidden(code_point(text.substr(0, length))) ? length : 0;
}

std::string displayable(std::string_view text) {
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string out;
    while (!text.empty()) {
        const std::size_t size = utf8_length(text);
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
