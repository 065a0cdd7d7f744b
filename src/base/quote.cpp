#include "base/quote.hpp"

#include <algorithm>

#include "base/hex.hpp"
#include "base/utf8.hpp"

namespace tidegate {

namespace {

constexpr std::size_t kShownBytes = 60;

}  // namespace

std::size_t misleading_bytes(std::string_view text) {
    const std::size_t length = utf8_length(text);
    return length != 0 && is_hidden(code_point(text.substr(0, length))) ? length : 0;
}

std::string displayable(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t size = utf8_length(text);
        const std::size_t hidden = size == 0 ? 1 : misleading_bytes(text);
        if (hidden == 0) out += text.substr(0, size);
        for (const char c : text.substr(0, hidden)) {
            out += "\\x";
            append_hex(static_cast<unsigned char>(c), out);
        }
        text.remove_prefix(std::max(size, hidden));
    }
    return out;
}

std::string quote(std::string_view text) {
    const std::string_view shown = utf8_prefix(text, kShownBytes);
    const std::string_view mark = shown.size() < text.size() ? "..." : "";
    return "`" + displayable(shown).append(mark) + "`";
}

}  // namespace tidegate
