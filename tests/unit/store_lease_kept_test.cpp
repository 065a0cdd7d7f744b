// Units of leases that are kept: of brief windows, what is left of a batch expires by itself.
#include <chrono>
#include <cstdint>
#include <memory>

#include <doctest/doctest.h>

#include "store/leases.hpp"
#include "unit/store_asking.hpp"
#include "unit/store_lease_rig.hpp"

namespace tidegate::store::lease_kept_test {
namespace {

using namespace std::chrono_literals;
using limit::Micros;
using test::kBegin;
using test::leased;
using Rig = test::LeaseRig;

// A table whose key has brief windows, and leaves units of its batches.
struct KeepingRig : Rig {
    const limit::Policy policy = leased({test::window(100'000, 1s)});
    const Micros width = policy.limits[0].precision;
    SteadyTime now = kBegin;
    std::shared_ptr<const void> owner;

    // `units` are left of a batch that was charged at `at` when its sub-bucket ends.
    Lease& leave(const limit::ChargeItem& item, std::int64_t units, Micros at,
                 std::int64_t threads = 1) {
        Lease& lease = hot(item, now, width);
        REQUIRE(table.wanted(lease, 1, threads, now) > 0);
        table.asked(lease, units, owner, now);
        REQUIRE(table.answered(lease, verdict(at, 90'000, 1s), now));
        now += width;
        table.end_batches(now);
        return lease;
    }
    std::int64_t given_units() const {
        std::int64_t sum = 0;
        for (const Given& one : given) sum += one.units;
        return sum;
    }
};

}  // namespace

TEST_CASE("lease_table: kept units go back to the sub-buckets that count them, at a drop") {
    KeepingRig rig;
    const limit::ChargeItem item{&rig.policy, "constant:all"};
    const limit::ChargeItem other{&rig.policy, "constant:other"};
    rig.owner = std::make_shared<int>(1);
    rig.leave(item, 100, 0 * rig.width);
    rig.leave(other, 50, 1 * rig.width);
    rig.leave(item, 200, 2 * rig.width);
    CHECK(rig.given.empty());
    CHECK(rig.owner.use_count() == 3);
    SUBCASE("of all") {
        rig.table.drop_all();
        CHECK(rig.given_units() == 350);
        CHECK(rig.owner.use_count() == 1);
        rig.table.drop_all();
        CHECK(rig.given.size() == 3);
    }
    SUBCASE("of the identifier") {
        rig.table.drop(item.identifier);
        REQUIRE(rig.given.size() == 2);
        CHECK(rig.given[0].units == 200);
        CHECK(rig.given[0].receipt.at == 2 * rig.width);
        CHECK(rig.given[0].receipt.generations.at(0) == 7);
        CHECK(rig.given[1].units == 100);
        CHECK(rig.given[1].receipt.at == 0us);
        CHECK(rig.owner.use_count() == 2);
    }
    SUBCASE("not where they have expired") {
        rig.table.end_batches(rig.now + 1s);
        CHECK(rig.table.take_expired() == 350);
        CHECK(rig.owner.use_count() == 1);
        rig.table.drop_all();
        CHECK(rig.given.empty());
    }
}

TEST_CASE("lease_table: a key whose place another takes gives back what it keeps") {
    KeepingRig rig;
    limit::Policy policy = leased({test::window(100'000, 1s)});
    policy.tiers = {{"pro", {test::window(100'000, 1s)}, {}},
                    {"free", {test::window(100'000, 1s)}, {}}};
    const limit::ChargeItem plain{&policy, "user:alice"};
    const limit::ChargeItem pro{&policy, "user:alice", &policy.tiers[0]};
    const limit::ChargeItem free{&policy, "user:alice", &policy.tiers[1]};
    rig.owner = std::make_shared<int>(1);
    rig.leave(plain, 300, 0us);
    rig.leave(pro, 200, 0us);
    CHECK(rig.given.empty());
    // Both are cold by then, and their units still count.
    rig.now += 500ms;
    Lease& lease = rig.hot(free, rig.now, rig.width, 10'000);
    CHECK(rig.given_units() == 300);
    CHECK(rig.owner.use_count() == 2);
    // All tiers together hold the slack and no more.
    CHECK(rig.table.wanted(lease, 1, 1, rig.now) == 800);
}

TEST_CASE("lease_table: where more threads share the slack, what is kept beyond a part goes back") {
    KeepingRig rig;
    const limit::ChargeItem item{&rig.policy, "constant:all"};
    rig.leave(item, 200, 0 * rig.width);
    rig.leave(item, 250, 1 * rig.width);
    CHECK(rig.given.empty());
    SUBCASE("by the time that all know it") {
        rig.table.use_threads(2, rig.now);
        CHECK(rig.given.empty());
        rig.table.use_threads(4, rig.now);
        REQUIRE(rig.given.size() == 1);
        CHECK(rig.given[0].units == 200);
        // The newest first, as they count for longest.
        CHECK(rig.given[0].receipt.at == rig.width);
        rig.table.use_threads(0, rig.now);
        CHECK(rig.given.size() == 1);
    }
    SUBCASE("by the next batch") {
        Lease& lease = rig.hot(item, rig.now, rig.width);
        CHECK(rig.table.wanted(lease, 1, 4, rig.now) == 0);
        CHECK(rig.given_units() == 200);
        CHECK(rig.table.wanted(lease, 1, 2, rig.now) > 0);
    }
    SUBCASE("with a batch that has begun before") {
        Lease& lease = rig.hot(item, rig.now, rig.width);
        REQUIRE(rig.table.wanted(lease, 1, 1, rig.now) > 0);
        rig.table.asked(lease, 100, nullptr, rig.now);
        REQUIRE(rig.table.answered(lease, Rig::verdict(2 * rig.width, 90'000, 1s), rig.now));
        rig.table.use_threads(2, rig.now);
        CHECK(rig.given_units() == 50);
        // It goes on, and what is left of it is kept by the part of now.
        CHECK(lease.spend(40, rig.now));
        rig.now += rig.width;
        rig.table.end_batches(rig.now);
        CHECK(rig.given_units() == 110);
    }
}

TEST_CASE("lease_table: units of so many batches of a key are kept, and no more") {
    limit::LimitSpec spec = test::spec_of(limit::Algorithm::sliding_window, 100'000, 1s);
    spec.precision = 1ms;
    const limit::Policy policy = leased({test::made(spec)});
    const limit::ChargeItem item{&policy, "constant:all"};
    Rig rig;
    SteadyTime now = kBegin;
    for (std::size_t i = 0; i < LeaseTable::kKeptMax + 3; ++i) {
        Lease& lease = rig.hot(item, now, 1ms);
        REQUIRE(rig.table.wanted(lease, 1, 1, now) > 0);
        rig.table.asked(lease, 2, nullptr, now);
        REQUIRE(rig.table.answered(lease, Rig::verdict(0us, 90'000, 1s), now));
        now += 1ms;
        rig.table.end_batches(now);
    }
    CHECK(rig.given.size() == 3);
}

}  // namespace tidegate::store::lease_kept_test
