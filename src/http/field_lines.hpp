// Lines of fields as they are written to clients and upstreams alike.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/numbers.hpp"

namespace tidegate::http {

// Appends `name: value` and the end of the line.
inline void append_field(std::string_view name, std::string_view value, std::string& out) {
    // One growth for the four pieces: a message has some ten of these lines.
    const std::size_t begin = out.size();
    out.resize(begin + name.size() + value.size() + 4);
    char* to = std::copy(name.begin(), name.end(), out.data() + begin);
    *to++ = ':';
    *to++ = ' ';
    to = std::copy(value.begin(), value.end(), to);
    *to++ = '\r';
    *to = '\n';
}

inline void append_field(std::string_view name, std::uint64_t value, std::string& out) {
    out.append(name).append(": ");
    append_number(value, out);
    out.append("\r\n");
}

}  // namespace tidegate::http
