#include "http/structured_field.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace tidegate::http {

void append_quoted_string(std::string_view text, std::string& out) {
    out += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c >= ' ' && c <= '~' ? c : '?';
    }
    out += '"';
}

void append_integer(std::int64_t number, std::string& out) {
    std::array<char, 24> digits;
    const auto result =
        std::to_chars(digits.data(), digits.data() + digits.size(),
                      std::clamp(number, -kStructuredIntegerMax, kStructuredIntegerMax));
    out.append(digits.data(), result.ptr);
}

}  // namespace tidegate::http
