#include "telemetry/json_escape.hpp"

#include <array>
#include <cstdint>
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

// Not zero if any character of `text` is not plain. The high bit of each byte says so: up to the
// first such character nothing is borrowed or carried from byte to byte, and behind it no matter.
template <class Word>
Word find_special(Word text) {
    constexpr auto kOnes = static_cast<Word>(0x0101010101010101);
    const Word control = text - kOnes * 0x20;  // 0xff, too
    const Word quote = (text ^ (kOnes * '"')) - kOnes;
    const Word backslash = (text ^ (kOnes * '\\')) - kOnes;
    const Word del_and_above = text + kOnes;
    return (control | quote | backslash | del_and_above) & (kOnes * 0x80);
}

// Copies `text` a word at a time; the last one may overlap the one before. Whether all is plain.
// Requires at least a word.
template <class Word>
bool copy_plain_words(std::string_view text, char* out) {
    Word special = 0;
    const auto copy_word = [&](std::size_t at) {
        Word word;
        std::memcpy(&word, text.data() + at, sizeof word);
        std::memcpy(out + at, &word, sizeof word);
        special |= find_special(word);
    };
    const std::size_t last = text.size() - sizeof(Word);
    for (std::size_t at = 0; at < last; at += sizeof(Word)) copy_word(at);
    copy_word(last);
    return special == 0;
}

// What nearly all texts are. If false, what was written means nothing.
bool copy_plain(std::string_view text, char* out) {
    if (text.size() >= 8) return copy_plain_words<std::uint64_t>(text, out);
    if (text.size() >= 4) return copy_plain_words<std::uint32_t>(text, out);
    for (const char c : text) {
        if (!kPlain[static_cast<unsigned char>(c)]) return false;
        *out++ = c;
    }
    return true;
}

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
    if (copy_plain(text, out)) return out + text.size();
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
