// What is asked of a store and what it answers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "limit/policy.hpp"

namespace tidegate::limit {

// One identifier under one policy: one state in the store.
struct ChargeItem {
    const Policy* policy;         // never null
    std::string_view identifier;  // canonical and safe to print: `ip:203.0.113.7`, `user:alice`
};

// "May this request take `cost` units from every limit of every item?" All or none.
// No two items name the same policy and identifier.
struct Charge {
    std::span<const ChargeItem> items;
    std::int64_t cost = 1;  // >= 0; 0 asks without taking
};

struct LimitVerdict {
    std::int64_t remaining = 0;  // units left after this request, >= 0
    Micros next_unit{0};         // until the next unit is free; 0 when nothing is taken
    bool denied = false;         // this limit refused
};

inline constexpr Micros kNever = Micros::max();

struct Verdict {
    bool admitted = true;
    // For a denial: from the decision's `now` until the same request would pass if nothing else
    // came; kNever when it never would (its cost is above a quota).
    Micros retry_after{0};
    // One entry a limit: items in the order of the charge, limits in the order of their policy.
    std::vector<LimitVerdict> limits;
};

}  // namespace tidegate::limit
