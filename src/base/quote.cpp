#include "base/quote.hpp"

namespace tidegate {

namespace {

constexpr std::size_t kShownBytes = 60;

bool continues_utf8(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
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
    for (const char c : text.substr(0, shown)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte != 0x7F) {
            out += c;
        } else {
            out += "\\x";
            out += kHex[byte >> 4U];
            out += kHex[byte & 0x0FU];
        }
    }
    if (shown < text.size()) out += "...";
    out += '`';
    return out;
}

}  // namespace tidegate
