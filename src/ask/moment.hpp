// The moment a request is meant for, which limits of `schedule` count. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "ask/facts.hpp"
#include "config/config.hpp"
#include "limit/limit.hpp"

namespace tidegate::ask {

struct Moment {
    std::optional<limit::Micros> at;
    std::string_view fault;  // why there is none, for the client
};

// Reads the moment where the route's limits look for it. Requires route.moment.
Moment moment_of(const config::Route& route, const Facts& facts);

}  // namespace tidegate::ask
