#include "base/quote.hpp"

#include "base/utf8.hpp"

namespace tidegate {

namespace {

constexpr std::size_t kShownBytes = 60;

bool continues_utf8(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// How many bytes at the beginning are a character that a terminal obeys or leaves out instead of
// showing it.
std::size_t hidden_bytes(std::string_view text) {
    const std::size_t length = utf8_length(text);
    return length > 0 && is_hidden(code_point(text.substr(0, length))) ? length : 0;
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
        const std::size_t size = hidden_bytes(text.substr(i, shown - i));
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
