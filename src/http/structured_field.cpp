#include "http/structured_field.hpp"

#include <algorithm>

#include "base/numbers.hpp"

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
    append_number(std::clamp(number, -kStructuredIntegerMax, kStructuredIntegerMax), out);
}

}  // namespace tidegate::http
