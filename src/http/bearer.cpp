#include "http/bearer.hpp"

#include <algorithm>

#include "base/constant_time.hpp"

namespace tidegate::http {

bool bears_token(std::string_view authorization, std::string_view token) {
    static constexpr std::string_view kScheme = "Bearer ";
    if (token.empty() || authorization.size() <= kScheme.size()) return false;
    if (!equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return false;
    authorization.remove_prefix(kScheme.size());
    authorization.remove_prefix(
        std::min(authorization.find_first_not_of(' '), authorization.size()));
    return equal_in_constant_time(authorization, token);
}

bool bears_token(const Fields& fields, std::string_view token) {
    return bears_token(single_value(fields, "authorization"), token);
}

}  // namespace tidegate::http
