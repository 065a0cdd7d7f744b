// What a request says under a name, in a field or a query parameter, taken only if everybody who
// reads the request must read the same. Pure; any thread.
//
// What a limit counts by must be what the upstream acts upon. So a name that is there twice, in
// another spelling that some servers take for the same, or with a value that is decoded in several
// ways, states nothing clear: neither the first nor the last of two may choose.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/field.hpp"

namespace tidegate::http {

struct Stated {
    enum class How : std::uint8_t {
        absent,  // not there, or empty
        once,
        unclear,
    };
    How how = How::absent;
    std::string value;  // of `once`
};

// The field `name` (lower case). One that Connection names goes no further than here and is absent;
// `names_fields` says whether Connection has to be asked. Unclear: twice, or with `_` for `-`.
Stated stated_in_fields(const Fields& fields, std::string_view name, bool names_fields);

// The parameter `name` of `query`, with or without its `?`; percent-decoded, `+` is a space.
// Unclear: twice, in another case, as the member of a list (`name[]`), with `.` or a space for `_`,
// split by `;` as some servers do, or with a value that has a malformed `%` or a `%00`.
Stated stated_in_query(std::string_view query, std::string_view name);

}  // namespace tidegate::http
