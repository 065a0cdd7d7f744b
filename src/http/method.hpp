// Names of methods. They have a case (RFC 9110 section 9.1), but many servers ignore it. Pure.
#pragma once

#include <string_view>

namespace tidegate::http {

// Whether `method` has a lower-case letter, as no registered method has.
bool has_lower_case(std::string_view method);

// The method of IANA's registry that `method` is if case is ignored; empty when it is none.
std::string_view registered_method(std::string_view method);

}  // namespace tidegate::http
