// Lines of fields as they are written to clients and upstreams alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/numbers.hpp"

namespace tidegate::proxy {

inline void append_field(std::string_view name, std::string_view value, std::string& out) {
    out.append(name).append(": ").append(value).append("\r\n");
}

inline void append_field(std::string_view name, std::uint64_t value, std::string& out) {
    out.append(name).append(": ");
    append_number(value, out);
    out.append("\r\n");
}

}  // namespace tidegate::proxy
