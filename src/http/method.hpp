// Names of methods. They have a case (RFC 9110 section 9.1), but many servers ignore it. Pure.
#pragma once

#include <algorithm>
#include <string_view>

namespace tidegate::http {

// Whether `method` has a lower-case letter, as no registered method has.
inline bool has_lower_case(std::string_view method) {
    return std::any_of(method.begin(), method.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

// The method of IANA's registry that `method` is if case is ignored; empty when it is none.
std::string_view registered_method(std::string_view method);

}  // namespace tidegate::http
