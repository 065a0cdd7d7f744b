// What this process admitted for one identifier under one policy while Redis was away: of windows
// the units of each sub-bucket of time, of buckets one as if nothing had been before. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "limit/charge.hpp"
#include "limit/gcra.hpp"

namespace tidegate::store {

struct LocalTaken {
    // Of a window: a sub-bucket by its beginning; where the first request opens it, by that. The
    // beginning of a day, week or month is by the wall clock, all else by the steady one.
    struct Portion {
        limit::Micros began{0};
        std::int64_t units = 0;
    };
    struct OfLimit {
        std::vector<Portion> portions;  // of a window or log, in order of time
        // Of gcra and leaky_bucket, with the whole quota.
        limit::Bucket bucket;
        std::int64_t units = 0;
        limit::Micros first{0};
    };

    // A copy of the limits that held, for a reload may change the configuration.
    std::shared_ptr<const limit::Policy> policy;
    std::string identifier;
    std::vector<OfLimit> limits;  // as policy->limits
    limit::Micros ends{0};        // from then on none of it makes a difference; by the steady clock
    limit::Micros wall_ahead{0};  // by so much the wall clock was ahead at the latest request
    int refusals = 0;             // by Redis, of the report

    limit::ChargeItem item() const { return {policy.get(), identifier}; }
    // Notes what limit number `k` took at `at`.
    void take(std::size_t k, std::int64_t units, const limit::Now& at);
    // Takes out what is still here of units that were taken at `at`, by the steady clock. Where the
    // wall clock was set meanwhile, a day, week or month may keep them.
    void give_back(std::size_t k, std::int64_t units, limit::Micros at, const limit::Now& now);
    // Adds what was taken later, of the same identifier and policy.
    void add_later(const LocalTaken& later);
    // Of the limit where it is largest: the share of the quota that it is, times the duration.
    double weight() const;
    std::size_t portions() const;
};

}  // namespace tidegate::store
