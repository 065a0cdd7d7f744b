// What a request costs: the route's cost, or the number that a header field states, where the route
// lets it. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "ask/facts.hpp"
#include "ask/metrics.hpp"
#include "config/config.hpp"

namespace tidegate::ask {

struct Cost {
    std::int64_t units;
    bool stated = false;                 // the request has the field
    std::optional<CostFault> ignored{};  // why it does not count
};

Cost cost_of(const config::Route& route, const Facts& facts);

}  // namespace tidegate::ask
