#include "telemetry/json_escape.hpp"

#include <array>
#include <cstring>
#include <string>

#include "telemetry/access_log.hpp"
#include "telemetry/utf8.hpp"

namespace tidegate::telemetry {

namespace {

// Printable ASCII but `"` and `\`: goes as it is.
constexpr std::array<bool, 256> make_plain() {
    std::array<bool, 256> plain{};
    for (std::size_t c = 0x20; c < 0x7f; ++c) plain[c] = c != '"' && c != '\\';
    return plain;
}
constexpr auto kPlain = make_plain();

char* copy(std::string_view text, char* out) {
    std::memcpy(out, text.data(), text.size());
    return out + text.size();
}

char* write_control(unsigned char c, char* out) {
    static constexpr std::string_view kHex = "0123456789abcdef";
    out = copy("\\u00", out);
    *out++ = kHex[c >> 4];
    *out++ = kHex[c & 15];
    return out;
}

// One character that is not plain, removed from the front of `text`.
char* write_special(std::string_view& text, char* out) {
    const auto c = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_sequence_bytes(text);
    const std::string_view sequence = text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
    if (length == 0) return copy("\\ufffd", out);
    if (length == 1) {
        switch (c) {
            case '"':
                return copy("\\\"", out);
            case '\\':
                return copy("\\\\", out);
            case '\n':
                return copy("\\n", out);
            case '\r':
                return copy("\\r", out);
            case '\t':
                return copy("\\t", out);
            default:
                return write_control(c, out);
        }
    }
    const auto second = static_cast<unsigned char>(sequence[1]);
    if (c == 0xc2 && second < 0xa0) return write_control(second, out);  // C1
    return copy(sequence, out);
}

}  // namespace

char* write_json_escaped(std::string_view text, char* out) {
    while (!text.empty()) {
        std::size_t plain = 0;
        while (plain < text.size() && kPlain[static_cast<unsigned char>(text[plain])]) ++plain;
        out = copy(text.substr(0, plain), out);
        text.remove_prefix(plain);
        if (!text.empty()) out = write_special(text, out);
    }
    return out;
}

void append_json_escaped(std::string_view text, std::string& out) {
    // In pieces, so that a long text does not ask for six times its size at once.
    static constexpr std::size_t kPiece = 256;
    std::array<char, kPiece * kEscapedBytesMax> buffer;
    while (!text.empty()) {
        const std::string_view piece = utf8_prefix(text, kPiece);
        const char* const end = write_json_escaped(piece, buffer.data());
        out.append(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
        text.remove_prefix(piece.size());
    }
}

}  // namespace tidegate::telemetry
