// `cors`: which pages of other origins may read the answers that Tidegate makes itself, and how
// many preflights an address may send (Fetch standard, section "HTTP extensions"). Immutable once
// loaded.
#pragma once

#include <chrono>

#include "http/request_value.hpp"

namespace tidegate::config {

struct Policy;

struct Cors {
    http::OriginList origins;
    bool credentials = false;         // pages may send cookies and the like; never with `*`
    std::chrono::seconds max_age{0};  // how long a browser may remember a preflight; 0: not said
    // What a preflight is charged to in place of the route's policies. One of Config::policies;
    // null only while a configuration is read.
    const Policy* preflight = nullptr;
};

// What the policy of `preflight` is named; that of a route is `ROUTE/preflight`. No other may be.
inline constexpr const char* kPreflight = "preflight";

}  // namespace tidegate::config
