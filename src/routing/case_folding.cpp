#include "routing/case_folding.hpp"

#include <algorithm>
#include <cstdint>

#include "base/ascii.hpp"
#include "base/utf8.hpp"
#include "routing/case_folding_table.hpp"

namespace tidegate::routing {
namespace {

bool is_ascii(char c) {
    return static_cast<unsigned char>(c) < 0x80;
}

std::uint32_t folded(std::uint32_t character) {
    const auto* after =
        std::upper_bound(kRuns.begin(), kRuns.end(), character,
                         [](std::uint32_t wanted, const Run& run) { return wanted < run.first; });
    if (after == kRuns.begin()) return character;
    const Run& run = *(after - 1);
    if (character > run.last || (character - run.first) % run.step != 0) return character;
    return run.folded + (character - run.first);
}

// The character of a UTF-8 sequence of 2 to 4 bytes.
std::uint32_t decoded(std::string_view sequence) {
    const auto lead = static_cast<unsigned char>(sequence[0]);
    std::uint32_t character = lead & (0x7FU >> sequence.size());
    for (const char c : sequence.substr(1))
        character = character << 6 | (static_cast<unsigned char>(c) & 0x3FU);
    return character;
}

char* put(std::uint32_t character, char* out) {
    if (character < 0x80) {
        *out++ = static_cast<char>(character);
        return out;
    }
    const int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    const std::uint32_t lead = more == 1 ? 0xC0 : more == 2 ? 0xE0 : 0xF0;
    *out++ = static_cast<char>(lead | character >> (6 * more));
    for (int i = more - 1; i >= 0; --i)
        *out++ = static_cast<char>(0x80 | (character >> (6 * i) & 0x3F));
    return out;
}

// Takes one character that is not ASCII off `text`.
char* fold_one(std::string_view& text, char* out) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
        const auto byte = static_cast<unsigned char>(text.front());
        const bool latin_capital = byte >= 0xC0 && byte <= 0xDE && byte != 0xD7;
        *out++ = static_cast<char>(latin_capital ? byte + 0x20 : byte);
        text.remove_prefix(1);
        return out;
    }
    const std::uint32_t character = decoded(text.substr(0, length));
    text.remove_prefix(length);
    for (const LettersFolded& letters : kLetters)
        if (letters.character == character)
            return std::copy(letters.folded.begin(), letters.folded.end(), out);
    return put(folded(character), out);
}

char* fold(std::string_view text, bool ascii, char* out) {
    while (!text.empty()) {
        const char c = text.front();
        if (!is_ascii(c)) {
            out = fold_one(text, out);
            continue;
        }
        *out++ = ascii ? to_lower(c) : c;
        text.remove_prefix(1);
    }
    return out;
}

std::string fold(std::string_view text, bool ascii) {
    std::string out(text.size(), '\0');
    out.resize(static_cast<std::size_t>(fold(text, ascii, out.data()) - out.data()));
    return out;
}

}  // namespace

bool may_fold(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return is_upper(c) || !is_ascii(c); });
}

std::size_t fold_case(std::string_view text, char* out) {
    return static_cast<std::size_t>(fold(text, true, out) - out);
}

std::string fold_case(std::string_view text) {
    return fold(text, true);
}

std::string fold_beyond_ascii(std::string_view text) {
    return fold(text, false);
}

}  // namespace tidegate::routing
