// Units that were taken before their true cost was known: what was taken where, in a form that
// outlives the decision, the connection and the process, and that any of those who share a Redis
// can settle. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "limit/charge.hpp"
#include "store/limit_decision.hpp"

namespace tidegate::store {

struct Reservation {
    struct Item {
        std::string policy;
        std::string tier;  // empty: the policy's own limits
        std::string identifier;
        std::uint64_t generation = 0;
    };
    // What was taken at one moment in one place.
    struct Part {
        bool in_redis = false;
        limit::Micros at{0};
        std::vector<Item> items;
    };
    std::vector<Part> parts;
    std::int64_t cost = 0;
    limit::Micros moment{0};  // for limits of schedule
};

// What an admitted decision has taken. Requires decision.is_alone.
Reservation reservation_of(const LimitDecision& decision);

// The items of `part` as the configuration of today has them, which may have other policies: those
// that are gone are left out. Views and pointers go into both.
struct ReservedItems {
    std::vector<limit::ChargeItem> items;
    limit::Receipt receipt;
};
ReservedItems items_of(const Reservation::Part& part, const config::Config& config);

// Copies of the policies of `items` of which each limit counts whatever is asked, also above its
// quota, and the items that mean these copies.
struct UnconditionalItems {
    std::vector<std::unique_ptr<const limit::Policy>> policies;
    std::vector<limit::ChargeItem> items;
};
UnconditionalItems unconditional(std::span<const limit::ChargeItem> items);

}  // namespace tidegate::store
