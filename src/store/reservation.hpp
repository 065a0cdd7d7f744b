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
    // A limit that units were taken from.
    struct Taken {
        std::uint32_t limit = 0;  // Limit::id
        std::uint32_t quota = 0;  // of then: what a bucket took is so many parts of its duration
    };
    struct Item {
        std::string policy;
        std::string tier;  // empty: the policy's own limits
        std::string identifier;
        std::uint64_t generation = 0;
        std::vector<Taken> limits;
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

// Items with policies of their own, which hold the limits that a correction is about and no other.
struct ReservedItems {
    std::vector<std::unique_ptr<const limit::Policy>> policies;
    std::vector<limit::ChargeItem> items;  // their identifiers are those of the part
    limit::Receipt receipt;
};

// What `part` took from, as far as the configuration of today still has it. Limits that came since
// took nothing, and those that are gone count nothing any more: both are left out. A quota that has
// changed names the same limit.
//
// To give units back: a bucket gets as much time back as it took under the quota of then. The
// reservation is of `cost` units.
ReservedItems items_to_give_back(const Reservation::Part& part, std::int64_t cost,
                                 const config::Config& config);
// To take more: each limit counts whatever is asked, also above its quota.
ReservedItems items_to_take(const Reservation::Part& part, const config::Config& config);

}  // namespace tidegate::store
