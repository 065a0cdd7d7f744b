#include "telemetry/utf8.hpp"

namespace tidegate::telemetry {

namespace {

unsigned char byte_at(std::string_view text, std::size_t index) {
    return index < text.size() ? static_cast<unsigned char>(text[index]) : 0;
}

bool is_between(unsigned char byte, unsigned char low, unsigned char high) {
    return byte >= low && byte <= high;
}

bool is_continuation(unsigned char byte) {
    return is_between(byte, 0x80, 0xbf);
}

}  // namespace

std::size_t utf8_sequence_bytes(std::string_view text) {
    if (text.empty()) return 0;
    const unsigned char first = byte_at(text, 0);
    if (first < 0x80) return 1;
    const unsigned char second = byte_at(text, 1);
    if (is_between(first, 0xc2, 0xdf)) return is_continuation(second) ? 2 : 0;
    if (is_between(first, 0xe0, 0xef)) {
        const unsigned char low = first == 0xe0 ? 0xa0 : 0x80;   // overlong below
        const unsigned char high = first == 0xed ? 0x9f : 0xbf;  // surrogates above
        return is_between(second, low, high) && is_continuation(byte_at(text, 2)) ? 3 : 0;
    }
    if (is_between(first, 0xf0, 0xf4)) {
        const unsigned char low = first == 0xf0 ? 0x90 : 0x80;   // overlong below
        const unsigned char high = first == 0xf4 ? 0x8f : 0xbf;  // beyond U+10FFFF above
        return is_between(second, low, high) && is_continuation(byte_at(text, 2)) &&
                       is_continuation(byte_at(text, 3))
                   ? 4
                   : 0;
    }
    return 0;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = utf8_sequence_bytes(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string_view utf8_prefix(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) return text;
    // A sequence that reaches over the end began at most three bytes before it.
    for (std::size_t back = 1; back <= 3 && back <= bytes_max; ++back) {
        if (utf8_sequence_bytes(text.substr(bytes_max - back)) > back) {
            return text.substr(0, bytes_max - back);
        }
    }
    return text.substr(0, bytes_max);
}

}  // namespace tidegate::telemetry
