// These functions read the method, its overrides (X-HTTP-Method-Override), and values of fields and
// query parameters, as the servers behind Tidegate may read them. Pure; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/field.hpp"

namespace tidegate::http {

// Methods have a case (RFC 9110 section 9.1), but many servers ignore it.

// Whether `method` has a lower-case letter, as no registered method has.
inline bool has_lower_case(std::string_view method) {
    return std::any_of(method.begin(), method.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

// The method of IANA's registry that `method` is if case is ignored; empty when it is none.
std::string_view registered_method(std::string_view method);

// Fields by which a client can have some servers take a request for one of another method or
// target than its request line has. No standard has them; many frameworks obey them.
enum class RequestOverride : std::uint8_t { none, method, target };
inline constexpr auto kMethodOverrides = std::to_array<std::string_view>(
    {"x-http-method-override", "x-http-method", "x-method-override"});
inline constexpr auto kTargetOverrides =
    std::to_array<std::string_view>({"x-original-url", "x-rewrite-url"});

// Returns what a field of this name overrides for a server that turns fields into variables, and so
// takes `X_HTTP_Method` for one of these, too. Requires a name that override_of() passes on.
RequestOverride find_override(std::string_view name);
// The same for any name.
inline RequestOverride override_of(std::string_view name) {
    // Nearly all fields end here: the shortest name has 13 bytes.
    const bool may_be_one = name.size() >= 13 && (name.front() | 0x20) == 'x';
    return may_be_one ? find_override(name) : RequestOverride::none;
}

// The value of a field or a query parameter of a request, taken only if every server would read the
// same value.
//
// A limit must count by the value that the upstream acts upon. So a value is unclear if its name is
// there twice or in another spelling that some servers take for the same, or if servers decode it
// in different ways: neither the first nor the last of two may choose.
struct RequestValue {
    enum class How : std::uint8_t {
        absent,  // not there, or empty
        once,
        unclear,
    };
    How how = How::absent;
    std::string value;  // of `once`
};

// The field `name` (lower case) of a head whose framing has been read. One that Connection names
// goes no further than here and is absent. Unclear: twice, or with `_` or `.` for `-`.
RequestValue value_in_fields(const Fields& fields, std::string_view name);

// Whether a server could read other fields of this name (lower case) than the one that is compared
// here: it is there twice, with `_` or `.` for `-`, or named by Connection.
bool is_unclear_in_fields(const Fields& fields, std::string_view name);

// PHP and qs (Express) read no parameter beyond this many.
inline constexpr std::size_t kParametersMax = 1'000;

// The parameter `name` of `query`, with or without its `?`; percent-decoded, `+` is a space.
//
// Unclear is a query of which PHP, qs (Express), Rack, WSGI or servlet frameworks would read
// another value, several, or none:
// - any parameter's name has a malformed `%`, a control character, or is not UTF-8;
// - one is the name in another case, behind spaces, brackets or `?`, before `[` or `]`, or with
//   `.`, a space or `[` for `_`;
// - the name is there twice, or `;` would split it or its value, as it does for some servers;
// - its value has a malformed `%`, a `%00`, `]=` (qs takes what is before for the name), or is not
//   UTF-8;
// - there are more than kParametersMax parameters.
RequestValue value_in_query(std::string_view query, std::string_view name);

// Whether some server could take `written`, a parameter's or a cookie's name as it was sent, for
// `name`: it is decoded, and cut where it cannot be.
bool could_be_read_as(std::string_view written, std::string_view name);

// Whether some server could find a parameter `name` in `query`, with or without its `?`.
bool could_have_parameter(std::string_view query, std::string_view name);

}  // namespace tidegate::http
