#include "base/utf8.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace tidegate {

namespace {

struct CodePointRange {
    char32_t first;
    char32_t last;
};

constexpr auto kHidden = std::to_array<CodePointRange>({
    {0x00, 0x1f},        // C0
    {0x7f, 0x9f},        // DEL, C1
    {0xad, 0xad},        // soft hyphen
    {0x34f, 0x34f},      // combining grapheme joiner
    {0x61c, 0x61c},      // Arabic letter mark: it turns the direction
    {0x115f, 0x1160},    // Hangul fillers
    {0x17b4, 0x17b5},    // Khmer vowels that are not written
    {0x180b, 0x180f},    // Mongolian variation selectors and vowel separator
    {0x200b, 0x200f},    // zero width space, joiners, marks of direction
    {0x2028, 0x202e},    // separators of lines and paragraphs, embeddings and overrides
    {0x2060, 0x206f},    // word joiner, invisible operators, isolates
    {0x3164, 0x3164},    // Hangul filler
    {0xfe00, 0xfe0f},    // variation selectors
    {0xfeff, 0xfeff},    // byte order mark
    {0xffa0, 0xffa0},    // halfwidth Hangul filler
    {0xfff0, 0xfffb},    // unassigned, interlinear annotation
    {0x1bca0, 0x1bca3},  // controls of shorthand
    {0x1d173, 0x1d17a},  // controls of music
    {0xe0000, 0xe0fff},  // tags, more variation selectors
});

constexpr auto kBlank = std::to_array<CodePointRange>({
    {0x20, 0x20},
    {0xa0, 0xa0},
    {0x1680, 0x1680},
    {0x2000, 0x200a},
    {0x202f, 0x202f},
    {0x205f, 0x205f},
    {0x2800, 0x2800},  // Braille without a dot
    {0x3000, 0x3000},
});

template <std::size_t kSize>
bool is_in(const std::array<CodePointRange, kSize>& ranges, char32_t character) {
    const auto range = std::find_if(ranges.begin(), ranges.end(), [&](const CodePointRange& one) {
        return character <= one.last;
    });
    return range != ranges.end() && character >= range->first;
}

constexpr bool is_visible_ascii(char c) {
    return c > ' ' && c <= '~';
}

// Whether `character`, some bytes of a text, is one that without_outer_blanks() cuts off.
bool is_cut_off(std::string_view character) {
    if (utf8_length(character) == character.size()) {
        const char32_t point = code_point(character);
        return is_blank(point) || is_hidden(point);
    }
    // Latin-1: the next line and the no-break space.
    return character == "\x85" || character == "\xa0";
}

// The last character of `text`, or its last byte where that ends none.
std::string_view last_character(std::string_view text) {
    constexpr std::size_t kLengthMax = 4;
    for (std::size_t length = 1; length <= std::min(kLengthMax, text.size()); ++length) {
        const std::string_view last = text.substr(text.size() - length);
        if (utf8_length(last) == length) return last;
    }
    return text.substr(text.size() - 1);
}

constexpr std::size_t kShownBytes = 60;

}  // namespace

std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0U) != 0x80U) return 0;
    }
    // The second byte distinguishes overlong forms, surrogates and numbers above U+10FFFF.
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;
    if (lead == 0xED && byte(1) > 0x9F) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;
    return length;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string_view utf8_prefix(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) return text;
    // A character that reaches over the end began at most three bytes before it.
    for (std::size_t back = 1; back <= 3 && back <= bytes_max; ++back) {
        if (utf8_length(text.substr(bytes_max - back)) > back) {
            return text.substr(0, bytes_max - back);
        }
    }
    return text.substr(0, bytes_max);
}

char32_t code_point(std::string_view text) {
    constexpr std::array<unsigned, 5> kLeadBits{0, 0x7f, 0x1f, 0x0f, 0x07};
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    char32_t character = byte(0) & kLeadBits[text.size()];
    for (std::size_t i = 1; i < text.size(); ++i) character = character << 6 | (byte(i) & 0x3fU);
    return character;
}

bool is_hidden(char32_t character) {
    return is_in(kHidden, character);
}

bool is_blank(char32_t character) {
    return is_in(kBlank, character);
}

std::string_view without_outer_blanks(std::string_view text) {
    while (!text.empty() && !is_visible_ascii(text.front())) {
        const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
        if (!is_cut_off(text.substr(0, length))) break;
        text.remove_prefix(length);
    }
    while (!text.empty() && !is_visible_ascii(text.back())) {
        const std::string_view last = last_character(text);
        if (!is_cut_off(last)) break;
        text.remove_suffix(last.size());
    }
    return text;
}

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
