// Parameters of the query of an admin request. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "admin/answer.hpp"
#include "base/result.hpp"

namespace tidegate::admin {

// The value of the parameter `name` in the query of `target`; nothing if it is not there. An answer
// says what is wrong with a query that can be read in more than one way.
Result<std::optional<std::string>, AdminAnswer> asked_in_query(std::string_view target,
                                                               std::string_view name);

}  // namespace tidegate::admin
