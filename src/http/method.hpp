// Names of methods, and fields that name another one. Methods have a case (RFC 9110 section 9.1),
// but many servers ignore it. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace tidegate::http {

// Whether `method` has a lower-case letter, as no registered method has.
inline bool has_lower_case(std::string_view method) {
    return std::any_of(method.begin(), method.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

// The method of IANA's registry that `method` is if case is ignored; empty when it is none.
std::string_view registered_method(std::string_view method);

// Fields by which a client can have some servers take a request for one of another method or
// target than its request line has. No standard has them; many frameworks obey them.
enum class Override : std::uint8_t { none, method, target };
inline constexpr auto kMethodOverrides = std::to_array<std::string_view>(
    {"x-http-method-override", "x-http-method", "x-method-override"});
inline constexpr auto kTargetOverrides =
    std::to_array<std::string_view>({"x-original-url", "x-rewrite-url"});

// What a field of this name overrides for a server that turns fields into variables, and so takes
// `X_HTTP_Method` for one of these, too.
Override find_override(std::string_view name);  // of a name that may be one: use override_of()
inline Override override_of(std::string_view name) {
    // Nearly all fields end here: the shortest name has 13 bytes.
    const bool may_be_one = name.size() >= 13 && (name.front() | 0x20) == 'x';
    return may_be_one ? find_override(name) : Override::none;
}

}  // namespace tidegate::http
