// A bearer token (RFC 6750 section 2.1). Pure.
#pragma once

#include <string_view>

#include "http/field.hpp"

namespace tidegate::http {

// Whether the value of an Authorization field is this token; schemes are compared without case (RFC
// 9110 section 11.1). The time it takes does not tell how much of the token is right.
bool bears_token(std::string_view authorization, std::string_view token);
// Whether the only Authorization field is.
bool bears_token(const Fields& fields, std::string_view token);

}  // namespace tidegate::http
