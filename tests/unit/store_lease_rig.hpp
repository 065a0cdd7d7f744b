// What the tests of leases share: a policy, and a table whose give-backs are listed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "store/leases.hpp"
#include "unit/store_asking.hpp"

namespace tidegate::test {

inline const SteadyTime kBegin{std::chrono::hours{1'000}};

inline limit::Policy leased(std::vector<limit::Limit> limits, std::int64_t slack = 10'000) {
    limit::Policy leased = policy("everybody", std::move(limits));
    leased.lease_slack = slack;
    return leased;
}

struct LeaseRig {
    struct Given {
        std::string identifier;
        std::int64_t units;
        limit::Receipt receipt;
    };

    std::vector<Given> given;
    store::LeaseTable table{
        [this](const limit::ChargeItem& item, std::int64_t units, const limit::Receipt& receipt) {
            given.push_back({std::string(item.identifier), units, receipt});
        }};

    // Meets the item `times` in the interval before `now`, and once at `now`.
    store::Lease& hot(const limit::ChargeItem& item, SteadyTime now, limit::Micros interval,
                      int times = 8) {
        for (int i = 0; i < times; ++i) table.meet(item, 1, nullptr, now - interval);
        store::Lease* const lease = table.meet(item, 1, nullptr, now);
        REQUIRE(lease != nullptr);
        return *lease;
    }
    // As the store answers at `at` where `remaining` are left after the batch.
    static limit::Verdict verdict(limit::Micros at, std::int64_t remaining,
                                  limit::Micros next_unit) {
        limit::Verdict verdict;
        verdict.limits = {{.remaining = remaining, .next_unit = next_unit}};
        verdict.receipt = {at, {7}};
        return verdict;
    }
};

}  // namespace tidegate::test
