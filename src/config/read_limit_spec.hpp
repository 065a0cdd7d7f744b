// One limit as it is written, in each of its three spellings.
#pragma once

#include <optional>

#include "config/config.hpp"
#include "config/section.hpp"
#include "limit/limit.hpp"

namespace tidegate::config {

// A rate, a list `[seconds, quota, precision]` or a map. `moment` becomes what its `at` says, if it
// has one. Nothing: it has a fault, which is reported; limit::make_limit() may find more.
std::optional<limit::LimitSpec> read_limit_spec(const Value& value,
                                                std::optional<MomentSource>& moment);

}  // namespace tidegate::config
