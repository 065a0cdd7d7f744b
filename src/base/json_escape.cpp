#include "base/json_escape.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/hex.hpp"
#include "base/quote.hpp"
#include "base/utf8.hpp"

namespace tidegate {

namespace {

// Characters that go as they are: printable ASCII from kLowest on but `"`, `\` and kSeparator.
template <char kLowest, char kSeparator>
constexpr std::array<bool, 256> make_plain() {
    std::array<bool, 256> plain{};
    for (auto c = static_cast<unsigned char>(kLowest); c < 0x7f; ++c) {
        plain[c] = c != '"' && c != '\\';
    }
    plain[static_cast<unsigned char>(kSeparator)] = false;
    return plain;
}

// kSeparator is `"` where there is none.
template <char kLowest, char kSeparator = '"'>
struct PlainText {
    static constexpr std::array<bool, 256> kTable = make_plain<kLowest, kSeparator>();

    // Not zero if any character of `text` is not plain. The high bit of each byte says so: up to
    // the first such character nothing is borrowed or carried from byte to byte, and behind it no
    // matter.
    template <class Word>
    static Word find_special(Word text) {
        constexpr auto kOnes = static_cast<Word>(0x0101010101010101);
        const Word control = text - kOnes * kLowest;  // 0xff, too
        const Word quote = (text ^ (kOnes * '"')) - kOnes;
        const Word backslash = (text ^ (kOnes * '\\')) - kOnes;
        const Word separator = (text ^ (kOnes * kSeparator)) - kOnes;
        const Word del_and_above = text + kOnes;
        return (control | quote | backslash | separator | del_and_above) & (kOnes * 0x80);
    }
};
using InString = PlainText<' '>;
using InWord = PlainText<'!'>;
using InList = PlainText<'!', ','>;
using InLogfmt = PlainText<'!', '='>;

// Copies `text` a word at a time; the last one may overlap the one before. Whether all is plain.
// Requires at least a word.
template <class Word, class Plain>
bool copy_plain_words(std::string_view text, char* out) {
    Word special = 0;
    const auto copy_word = [&](std::size_t at) {
        Word word;
        std::memcpy(&word, text.data() + at, sizeof word);
        std::memcpy(out + at, &word, sizeof word);
        special |= Plain::find_special(word);
    };
    const std::size_t last = text.size() - sizeof(Word);
    for (std::size_t at = 0; at < last; at += sizeof(Word)) copy_word(at);
    copy_word(last);
    return special == 0;
}

// The common case. If false, the bytes that were written mean nothing.
template <class Plain>
bool copy_plain(std::string_view text, char* out) {
    if (text.size() >= 8) return copy_plain_words<std::uint64_t, Plain>(text, out);
    if (text.size() >= 4) return copy_plain_words<std::uint32_t, Plain>(text, out);
    for (const char c : text) {
        if (!Plain::kTable[static_cast<unsigned char>(c)]) return false;
        *out++ = c;
    }
    return true;
}

char* copy(std::string_view text, char* out) {
    std::memcpy(out, text.data(), text.size());
    return out + text.size();
}

// As one `\u` escape, or as two (a surrogate pair) above U+FFFF.
char* write_code_point(char32_t point, char* out) {
    if (point > 0xffff) {
        out = write_code_point(0xd800 + ((point - 0x10000) >> 10), out);
        return write_code_point(0xdc00 + (point & 0x3ff), out);
    }
    out = copy("\\u", out);
    for (int shift = 12; shift >= 0; shift -= 4) *out++ = kHexDigits[(point >> shift) & 15];
    return out;
}

// One character that is not plain, removed from the front of `text`.
char* write_special(std::string_view& text, char* out) {
    const auto c = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
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
                return write_code_point(c, out);
        }
    }
    if (misleading_bytes(sequence) != 0) return write_code_point(code_point(sequence), out);
    return copy(sequence, out);
}

template <class Plain>
char* write_escaped(std::string_view text, char* out) {
    if (copy_plain<Plain>(text, out)) return out + text.size();
    while (!text.empty()) {
        std::size_t plain = 0;
        while (plain < text.size() && Plain::kTable[static_cast<unsigned char>(text[plain])]) {
            ++plain;
        }
        out = copy(text.substr(0, plain), out);
        text.remove_prefix(plain);
        if (!text.empty()) out = write_special(text, out);
    }
    return out;
}

}  // namespace

char* write_json_escaped(std::string_view text, char* out) {
    return write_escaped<InString>(text, out);
}

char* write_json_escaped_word(std::string_view text, char* out) {
    return write_escaped<InWord>(text, out);
}

char* write_if_plain_item(std::string_view text, char* out) {
    return !text.empty() && copy_plain<InList>(text, out) ? out + text.size() : nullptr;
}

char* write_if_plain_value(std::string_view text, char* out) {
    return !text.empty() && copy_plain<InLogfmt>(text, out) ? out + text.size() : nullptr;
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

void append_json_string(std::string_view text, std::string& out) {
    out += '"';
    append_json_escaped(text, out);
    out += '"';
}

}  // namespace tidegate
