#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "store/leases.hpp"
#include "store/memory_store.hpp"
#include "unit/store_asking.hpp"
#include "unit/store_lease_rig.hpp"

namespace tidegate::store::lease_table_test {
namespace {

using namespace std::chrono_literals;
using limit::Micros;
using test::kBegin;
using test::leased;
using Rig = test::LeaseRig;

// 60 sub-buckets of 1 s.
const limit::Policy kPolicy = leased({test::window(100'000, 1min)});
const limit::ChargeItem kItem{&kPolicy, "constant:all"};

}  // namespace

TEST_CASE("lease_table: a key takes a batch once it was met four times in its last interval") {
    Rig rig;
    CHECK(rig.table.wanted(rig.hot(kItem, kBegin, 1s, 3), 1, 1, kBegin) == 0);
    Rig other;
    // Half as much again as the eight of the last second.
    CHECK(other.table.wanted(other.hot(kItem, kBegin, 1s), 1, 1, kBegin) == 12);
    // A quarter of the meetings is forgotten with each interval since then, and no batch is smaller
    // than for eight units.
    Rig later;
    CHECK(later.table.wanted(later.hot(kItem, kBegin, 3s), 1, 1, kBegin) == 12);
    Rig late;
    CHECK(late.table.wanted(late.hot(kItem, kBegin, 4s), 1, 1, kBegin) == 0);
}

TEST_CASE("lease_table: a key takes a batch once it is met more than eight times in an interval") {
    Rig rig;
    const auto wanted = [&](SteadyTime now) {
        return rig.table.wanted(*rig.table.meet(kItem, 1, nullptr, now), 1, 1, now);
    };
    for (int i = 0; i < 8; ++i) CHECK(wanted(kBegin) == 0);
    CHECK(wanted(kBegin) == 13);
    Rig slow;
    for (int i = 0; i < 9; ++i) {
        const SteadyTime then = kBegin + i * 400ms;
        CHECK(slow.table.wanted(*slow.table.meet(kItem, 1, nullptr, then), 1, 1, then) == 0);
    }
}

TEST_CASE("lease_table: of brief windows a batch exceeds what is expected by a few units only") {
    const limit::Policy policy = leased({test::window(100'000, 1s)});
    const limit::ChargeItem item{&policy, "constant:all"};
    const Micros width = policy.limits[0].precision;
    Rig rig;
    Lease& lease = rig.hot(item, kBegin, width, 100);
    // Of 1,000 units 20 may stay unused in each of 50 sub-buckets.
    CHECK(rig.table.wanted(lease, 1, 1, kBegin) == 100 + 2 * 20);
    // The spread of a hundred.
    CHECK(rig.table.wanted(lease, 1, 3, kBegin) == 114);
}

TEST_CASE(
    "lease_table: where a batch is spent before its end, the next one is for the rest of that") {
    const limit::Policy policy = leased({test::window(100'000, 1s)});
    const limit::ChargeItem item{&policy, "constant:all"};
    const Micros width = policy.limits[0].precision;
    // `units` were spent `after` the first command has left; then a request of `cost` comes.
    const auto next = [&](std::int64_t units, Micros after, std::int64_t cost) {
        Rig rig;
        Lease& lease = rig.hot(item, kBegin, width, 100);
        rig.table.asked(lease, units, nullptr, kBegin);
        REQUIRE(rig.table.answered(lease, Rig::verdict(Micros{0}, 90'000, 1s), kBegin));
        REQUIRE(lease.spend(units, kBegin));
        return rig.table.wanted(lease, cost, 1, kBegin + after);
    };
    // Half of what a sub-bucket has usually, or as much as half of the speed until then makes.
    CHECK(next(90, width / 2, 1) == 49 + 24);
    CHECK(next(200, width / 2, 1) == 99 + 40);
    CHECK(next(116, width - 100us, 1) == 8 + 4);
    CHECK(next(116, width - 100us, 60) == 60);
    CHECK(next(116, 0us, 1) == 116 + 40);
}

TEST_CASE("lease_table: a batch is at most the slack, shared by the threads, and at least two") {
    Rig rig;
    Lease& lease = rig.hot(kItem, kBegin, 1s, 10'000);
    CHECK(rig.table.wanted(lease, 1, 1, kBegin) == 1'000);
    CHECK(rig.table.wanted(lease, 1, 3, kBegin) == 333);
    CHECK(rig.table.wanted(lease, 1, 500, kBegin) == 2);
    CHECK(rig.table.wanted(lease, 1, 501, kBegin) == 0);
    CHECK(rig.table.wanted(lease, 1, 0, kBegin) == 0);
    // It would not serve such a request.
    CHECK(rig.table.wanted(lease, 334, 3, kBegin) == 0);
    const auto two = leased({test::window(100'000, 1min), test::window(20'000, 1h)});
    CHECK(most_leased({&two, "x"}, 2) == 100);
    const auto large = leased({test::window(limit::kQuotaMax, 1min)}, 1'000'000);
    CHECK(most_leased({&large, "x"}, 1) == limit::kQuotaMax);
}

TEST_CASE("lease_table: a batch ends with its sub-bucket, counted from the sending on") {
    Rig rig;
    Lease& lease = rig.hot(kItem, kBegin, 1s);
    rig.table.asked(lease, 12, nullptr, kBegin);
    // 300 ms of the sub-bucket are left, of which 100 ms are gone when the answer is there.
    CHECK(rig.table.answered(lease, Rig::verdict(7'700ms, 50'000, 10s), kBegin + 100ms));
    CHECK(lease.spend(1, kBegin + 100ms));
    CHECK(lease.spend(5, kBegin + 299ms));
    CHECK_FALSE(lease.spend(1, kBegin + 300ms));
    CHECK(rig.given.empty());
    rig.table.end_batches(kBegin + 299ms);
    CHECK(rig.given.empty());
    rig.table.end_batches(kBegin + 300ms);
    REQUIRE(rig.given.size() == 1);
    CHECK(rig.given[0].units == 6);
    CHECK(rig.given[0].receipt.at == 7'700ms);
    CHECK(rig.given[0].receipt.generations.at(0) == 7);
    rig.table.end_batches(kBegin + 1h);
    CHECK(rig.given.size() == 1);
}

TEST_CASE("lease_table: no batch lasts longer than a second, nor than the window that opened it") {
    const auto lasts = [](const limit::Limit& limit, Micros next_unit) {
        const limit::Policy policy = leased({limit});
        const limit::ChargeItem item{&policy, "constant:all"};
        Rig rig;
        Lease& lease = rig.hot(item, kBegin, 1s);
        rig.table.asked(lease, 12, nullptr, kBegin);
        REQUIRE(rig.table.answered(lease, Rig::verdict(7'700ms, 50'000, next_unit), kBegin));
        Micros last{0};
        while (lease.spend(0, kBegin + last)) last += 1ms;
        return last;
    };
    CHECK(lasts(test::window(100'000, 24h), 1h) == 999ms);
    limit::LimitSpec spec = test::spec_of(limit::Algorithm::fixed_window, 100'000, 1h);
    spec.anchor = limit::Anchor::first_request;
    CHECK(lasts(test::made(spec), 400ms) == 400ms);
    CHECK(lasts(test::made(spec), 1h) == 999ms);
    spec.anchor = limit::Anchor::utc_month;
    spec.duration = 0s;
    CHECK(lasts(test::made(spec), 250ms) == 250ms);
}

TEST_CASE("lease_table: of brief windows a few units expire, unless others need them") {
    const limit::Policy policy = leased({test::window(100'000, 1s)});
    const limit::ChargeItem item{&policy, "constant:all"};
    Rig rig;
    const Micros width = policy.limits[0].precision;
    SteadyTime now = kBegin;
    // A batch of which `units` are left when its sub-bucket ends.
    const auto leave = [&](std::int64_t units, std::int64_t remaining) {
        Lease& lease = rig.hot(item, now, width);
        REQUIRE(rig.table.wanted(lease, 1, 1, now) > 0);
        rig.table.asked(lease, 400, nullptr, now);
        REQUIRE(rig.table.answered(lease, Rig::verdict(limit::Micros{0}, remaining, 1s), now));
        REQUIRE(lease.spend(400 - units, now));
        now += width;
        rig.table.end_batches(now);
        return rig.given.empty() ? 0 : rig.given.back().units;
    };
    // The slack, which is 1,000 units, less another such batch.
    CHECK(leave(350, 90'000) == 0);
    CHECK(leave(250, 50'000) == 0);
    CHECK(rig.table.take_expired() == 0);
    CHECK(leave(1, 90'000) == 1);
    rig.given.clear();
    // The batch is smaller by as many.
    Lease& lease = rig.hot(item, now, width, 10'000);
    CHECK(rig.table.wanted(lease, 1, 1, now) == 400);
    // A window and a quarter later they count no more; but now less than half of the quota is free.
    now += 1'250ms;
    CHECK(leave(5, 49'999) == 5);
    CHECK(leave(6, 50'000) == 5);
    CHECK(rig.table.take_expired() == 600);
    CHECK(rig.table.take_expired() == 0);
    rig.given.clear();
    // A drop gives back all, also what was kept.
    Lease& dropped = rig.hot(item, now, width);
    rig.table.asked(dropped, 3, nullptr, now);
    REQUIRE(rig.table.answered(dropped, Rig::verdict(limit::Micros{0}, 90'000, 1s), now));
    rig.table.drop_all();
    REQUIRE(rig.given.size() == 2);
    CHECK(rig.given[0].units == 6);
    CHECK(rig.given[1].units == 3);
}

TEST_CASE("lease_table: an answer after the sub-bucket gives the whole batch back") {
    Rig rig;
    Lease& lease = rig.hot(kItem, kBegin, 1s);
    rig.table.asked(lease, 12, nullptr, kBegin);
    CHECK_FALSE(rig.table.answered(lease, Rig::verdict(7'700ms, 50'000, 10s), kBegin + 301ms));
    REQUIRE(rig.given.size() == 1);
    CHECK(rig.given[0].units == 12);
    CHECK_FALSE(lease.spend(1, kBegin));
}

TEST_CASE(
    "lease_table: where trips take half of a sub-bucket, a batch in vain is followed by a pause") {
    const limit::Policy policy = leased({test::window(100'000, 1s)});
    const limit::ChargeItem item{&policy, "constant:all"};
    const Micros width = policy.limits[0].precision;
    const auto asks_after = [&](Micros trip, bool is_dropped, Micros pause) {
        Rig rig;
        Lease& lease = rig.hot(item, kBegin, width);
        rig.table.asked(lease, 12, nullptr, kBegin);
        if (is_dropped) rig.table.drop_all();
        // The store carried it out just before a sub-bucket ended.
        CHECK_FALSE(
            rig.table.answered(lease, Rig::verdict(width - 1us, 40'000, 1s), kBegin + trip));
        CHECK(rig.given.size() == 1);
        const SteadyTime then = kBegin + trip + pause;
        return rig.table.wanted(rig.hot(item, then, width), 1, 1, then) > 0;
    };
    CHECK(asks_after(width / 2 - 1us, false, 0us));
    CHECK_FALSE(asks_after(width / 2 + 1us, false, 0us));
    CHECK_FALSE(asks_after(width / 2 + 1us, false, width - 1us));
    CHECK(asks_after(width / 2 + 1us, false, width));
    CHECK(asks_after(width / 2 + 1us, true, 0us));
}

TEST_CASE("lease_table: batches that are in vain in a row are asked for less and less often") {
    const limit::Policy policy = leased({test::window(100'000, 1s)});
    const limit::ChargeItem item{&policy, "constant:all"};
    const Micros width = policy.limits[0].precision;
    Rig rig;
    SteadyTime now = kBegin;
    for (const Micros pause :
         {width, 2 * width, 4 * width, 8 * width, 16 * width, 32 * width, Micros{1s}, Micros{1s}}) {
        Lease& lease = rig.hot(item, now, width);
        rig.table.asked(lease, 12, nullptr, now);
        now += width;
        CHECK_FALSE(rig.table.answered(lease, Rig::verdict(width - 1us, 50'000, 1s), now));
        now += pause;
        CHECK(rig.table.wanted(rig.hot(item, now - 1us, width), 1, 1, now - 1us) == 0);
        CHECK(rig.table.wanted(rig.hot(item, now, width), 1, 1, now) > 0);
    }
    // One that arrives in time ends the row.
    Lease& lease = rig.hot(item, now, width);
    rig.table.asked(lease, 12, nullptr, now);
    CHECK(rig.table.answered(lease, Rig::verdict(0us, 50'000, 1s), now));
    now += width;
    rig.table.asked(lease, 12, nullptr, now);
    CHECK_FALSE(rig.table.answered(lease, Rig::verdict(width - 1us, 50'000, 1s), now + width));
    now += 2 * width;
    CHECK(rig.table.wanted(rig.hot(item, now, width), 1, 1, now) > 0);
}

TEST_CASE("lease_table: of brief windows a batch in vain expires, unless others need it") {
    const limit::Policy policy = leased({test::window(100'000, 1s)});
    const limit::ChargeItem item{&policy, "constant:all"};
    const Micros width = policy.limits[0].precision;
    const auto given_of = [&](std::int64_t remaining) {
        Rig rig;
        Lease& lease = rig.hot(item, kBegin, width);
        rig.table.asked(lease, rig.table.wanted(lease, 1, 1, kBegin), nullptr, kBegin);
        CHECK_FALSE(
            rig.table.answered(lease, Rig::verdict(width - 1us, remaining, 1s), kBegin + 1ms));
        rig.table.end_batches(kBegin + 2s);
        CHECK((rig.table.take_expired() > 0) == rig.given.empty());
        return rig.given.size();
    };
    CHECK(given_of(50'000) == 0);
    CHECK(given_of(49'999) == 1);
}

TEST_CASE("lease_table: all tiers of an identifier together hold no more than the slack") {
    limit::Policy policy = leased({test::window(100'000, 1min)});
    policy.tiers = {{"pro", {test::window(100'000, 1min)}, {}},
                    {"free", {test::window(50'000, 1min)}, {}}};
    const limit::ChargeItem pro{&policy, "user:alice", &policy.tiers[0]};
    const limit::ChargeItem free{&policy, "user:alice", &policy.tiers[1]};
    Rig rig;
    Lease& of_pro = rig.hot(pro, kBegin, 1s, 600);
    Lease& of_free = rig.hot(free, kBegin, 1s, 600);
    REQUIRE(&of_pro != &of_free);
    CHECK(rig.table.wanted(of_pro, 1, 1, kBegin) == 900);
    CHECK(rig.table.wanted(of_free, 1, 1, kBegin) == 500);
    rig.table.asked(of_free, 400, nullptr, kBegin);
    CHECK(rig.table.wanted(of_pro, 1, 1, kBegin) == 600);
    REQUIRE(rig.table.answered(of_free, Rig::verdict(7'000ms, 40'000, 10s), kBegin));
    REQUIRE(of_free.spend(100, kBegin));
    CHECK(rig.table.wanted(of_pro, 1, 1, kBegin) == 700);
    rig.table.end_batches(kBegin + 999'999us);
    CHECK(rig.table.wanted(of_pro, 1, 1, kBegin) == 900);
    // Nor does the table have a third place for it.
    CHECK(rig.table.meet({&policy, "user:alice"}, 1, nullptr, kBegin) == nullptr);
}

TEST_CASE("lease_table: units that one tier keeps are fewer for the others") {
    limit::Policy policy = leased({test::window(100'000, 1s)});
    policy.tiers = {{"pro", {test::window(100'000, 1s)}, {}}};
    const limit::ChargeItem plain{&policy, "user:alice"};
    const limit::ChargeItem pro{&policy, "user:alice", &policy.tiers[0]};
    const Micros width = policy.limits[0].precision;
    Rig rig;
    SteadyTime now = kBegin;
    const auto leave = [&](const limit::ChargeItem& item, std::int64_t units) {
        Lease& lease = rig.hot(item, now, width);
        REQUIRE(rig.table.wanted(lease, 1, 1, now) > 0);
        rig.table.asked(lease, units, nullptr, now);
        REQUIRE(rig.table.answered(lease, Rig::verdict(limit::Micros{0}, 90'000, 1s), now));
        now += width;
        rig.table.end_batches(now);
    };
    leave(plain, 300);
    CHECK(rig.given.empty());
    leave(pro, 351);
    CHECK(rig.given.size() == 1);
    leave(pro, 350);
    CHECK(rig.given.size() == 1);
    CHECK(rig.table.wanted(rig.hot(pro, now, width, 10'000), 1, 1, now) == 350);
    rig.table.end_batches(now + 1s);
    CHECK(rig.table.take_expired() == 650);
}

TEST_CASE("lease_table: a policy of a later configuration at the same address begins anew") {
    Rig rig;
    const auto old = std::make_shared<const config::Config>();
    const auto reread = std::make_shared<const config::Config>();
    for (int i = 0; i < 8; ++i) rig.table.meet(kItem, 1, old, kBegin - 1s);
    CHECK(rig.table.wanted(*rig.table.meet(kItem, 1, reread, kBegin), 1, 1, kBegin) == 0);
    CHECK(rig.table.wanted(*rig.table.meet(kItem, 1, old, kBegin), 1, 1, kBegin) == 12);
    CHECK(rig.table.find(kItem, old) != rig.table.find(kItem, reread));
    CHECK(rig.table.find(kItem, nullptr) == nullptr);
}

TEST_CASE("lease_table: a batch that does not fit is not asked for again in that sub-bucket") {
    Rig rig;
    Lease& lease = rig.hot(kItem, kBegin, 1s);
    rig.table.asked(lease, 12, nullptr, kBegin);
    CHECK(rig.table.wanted(lease, 1, 1, kBegin) == 0);
    limit::Verdict denied = Rig::verdict(7'500ms, 3, 10s);
    denied.admitted = false;
    CHECK_FALSE(rig.table.answered(lease, denied, kBegin + 1ms));
    CHECK(rig.given.empty());
    CHECK_FALSE(lease.spend(1, kBegin + 1ms));
    CHECK(rig.table.wanted(lease, 1, 1, kBegin + 999ms) == 0);
    rig.hot(kItem, kBegin + 1s, 1s);
    CHECK(rig.table.wanted(lease, 1, 1, kBegin + 1s) > 0);
}

TEST_CASE("lease_table: a command without an answer is followed by a pause, and brings nothing") {
    Rig rig;
    Lease& lease = rig.hot(kItem, kBegin, 1s);
    rig.table.asked(lease, 12, nullptr, kBegin);
    rig.table.failed(lease, kBegin + 100ms);
    CHECK(rig.given.empty());
    CHECK_FALSE(lease.spend(1, kBegin + 100ms));
    rig.hot(kItem, kBegin + 1s, 1s);
    CHECK(rig.table.wanted(lease, 1, 1, kBegin + 1s) == 0);
    rig.hot(kItem, kBegin + 1'100ms, 1s);
    CHECK(rig.table.wanted(lease, 1, 1, kBegin + 1'100ms) > 0);
}

TEST_CASE("lease_table: what another limit denied goes to its batch, or back if that has ended") {
    Rig rig;
    Lease& lease = rig.hot(kItem, kBegin, 1s);
    rig.table.asked(lease, 12, nullptr, kBegin);
    REQUIRE(rig.table.answered(lease, Rig::verdict(7'000ms, 50'000, 10s), kBegin));
    const Lease::Number batch = lease.batch();
    const limit::Receipt receipt = lease.receipt();
    REQUIRE(lease.spend(3, kBegin));
    rig.table.unspend(lease, batch, 2, kItem, receipt, kBegin + 1ms);
    CHECK(lease.left() == 11);
    CHECK(rig.given.empty());
    rig.table.unspend(lease, batch, 1, kItem, receipt, kBegin + 2s);
    REQUIRE(rig.given.size() == 1);
    CHECK(rig.given[0].units == 1);
    CHECK(lease.left() == 11);
    // Nor does it go to the next batch.
    rig.table.asked(lease, 5, nullptr, kBegin + 2s);
    REQUIRE(rig.table.answered(lease, Rig::verdict(9'000ms, 50'000, 10s), kBegin + 2s));
    CHECK(rig.given.size() == 2);
    rig.table.unspend(lease, batch, 1, kItem, receipt, kBegin + 2s);
    CHECK(rig.given.size() == 3);
    CHECK(lease.left() == 5);
}

TEST_CASE("lease_table: a drop gives back what is left, and what its command still brings") {
    Rig rig;
    Lease& lease = rig.hot(kItem, kBegin, 1s);
    rig.table.asked(lease, 12, nullptr, kBegin);
    REQUIRE(rig.table.answered(lease, Rig::verdict(7'000ms, 50'000, 10s), kBegin));
    REQUIRE(lease.spend(12, kBegin));
    rig.table.asked(lease, 9, nullptr, kBegin + 1ms);
    SUBCASE("of all") {
        rig.table.drop_all();
    }
    SUBCASE("of the identifier") {
        rig.table.drop("constant:other");
        CHECK(rig.table.units() == 0);
        rig.table.drop(kItem.identifier);
    }
    CHECK(rig.given.empty());
    CHECK_FALSE(rig.table.answered(lease, Rig::verdict(7'002ms, 50'000, 10s), kBegin + 2ms));
    REQUIRE(rig.given.size() == 1);
    CHECK(rig.given[0].units == 9);
    // It is a new key afterwards.
    CHECK(rig.table.wanted(*rig.table.meet(kItem, 1, nullptr, kBegin + 3ms), 1, 1, kBegin + 3ms) ==
          0);
}

TEST_CASE("lease_table: the owner of a policy lives as long as a batch of it") {
    Rig rig;
    const auto owner = std::make_shared<const limit::Policy>(kPolicy);
    const limit::ChargeItem item{owner.get(), "constant:all"};
    Lease& lease = rig.hot(item, kBegin, 1s);
    rig.table.asked(lease, 12, owner, kBegin);
    REQUIRE(rig.table.answered(lease, Rig::verdict(7'000ms, 50'000, 10s), kBegin));
    CHECK(owner.use_count() == 2);
    rig.table.end_batches(kBegin + 2s);
    CHECK(owner.use_count() == 1);
    rig.table.asked(lease, 12, owner, kBegin + 2s);
    rig.table.drop_all();
    CHECK(owner.use_count() == 2);
    rig.table.failed(lease, kBegin + 3s);
    CHECK(owner.use_count() == 1);
}

TEST_CASE("lease_table: clients see what the store said, with what is left of the batch") {
    Rig rig;
    Lease& lease = rig.hot(kItem, kBegin, 1s);
    rig.table.asked(lease, 12, nullptr, kBegin);
    REQUIRE(rig.table.answered(lease, Rig::verdict(7'000ms, 500, 400ms), kBegin + 1ms));
    REQUIRE(lease.spend(2, kBegin + 100ms));
    std::vector<limit::LimitVerdict> seen;
    lease.append_verdict(kBegin + 100ms, seen);
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].remaining == 510);
    CHECK(seen[0].next_unit == 300ms);
    CHECK_FALSE(seen[0].denied);
    seen.clear();
    lease.append_verdict(kBegin + 900ms, seen);
    CHECK(seen[0].next_unit == 1us);
}

TEST_CASE("lease_table: a flood of other names pushes no key out that is met often") {
    Rig rig;
    Lease& lease = rig.hot(kItem, kBegin, 1s);
    for (int i = 0; i < 100'000; ++i) {
        rig.table.meet({&kPolicy, "ip:" + std::to_string(i)}, 1, nullptr, kBegin);
    }
    CHECK(rig.table.wanted(lease, 1, 1, kBegin) > 0);
    CHECK(lease.item().identifier == kItem.identifier);
    // Once it is not met any more, it goes.
    for (int i = 0; i < 100'000; ++i) {
        rig.table.meet({&kPolicy, "ip:" + std::to_string(i)}, 1, nullptr, kBegin + 10s);
    }
    CHECK(lease.item().identifier != kItem.identifier);
}

// Random traces: threads with tables of their own, one store, and commands that take their time,
// arrive in another order than they were sent in, or get lost. The store's clock has another zero.

namespace {

struct Sent {
    SteadyTime at;  // when it happens next
    enum class Kind : std::uint8_t { charge, answer, give_back } kind = Kind::charge;
    std::size_t thread = 0;
    Lease* lease = nullptr;
    std::int64_t units = 0;
    limit::Verdict verdict{};
    limit::Receipt receipt{};
    bool answer_is_lost = false;
};

class World {
  public:
    World(limit::Policy policy, std::uint64_t seed, std::size_t threads)
        : policy_(std::move(policy)), random_(seed), offset_{Micros{random_() % 100'000'000}} {
        for (std::size_t i = 0; i < threads; ++i) {
            tables_.push_back(
                std::make_unique<LeaseTable>([this, i](const limit::ChargeItem&, std::int64_t units,
                                                       const limit::Receipt& receipt) {
                    if (random_() % 8 == 0) return;  // lost
                    under_way_.push_back(
                        {now_ + latency(), Sent::Kind::give_back, i, nullptr, units, {}, receipt});
                }));
        }
    }

    void run(int requests, Micros mean_gap) {
        for (int i = 0; i < requests; ++i) {
            now_ += Micros{random_() % (2 * mean_gap.count() + 1)};
            if (random_() % 64 == 0) now_ += 20 * mean_gap;
            deliver();
            request(random_() % tables_.size());
            if (random_() % 16 == 0) {
                tables_[random_() % tables_.size()]->end_batches(now_);
            }
            if (random_() % 512 == 0) tables_[random_() % tables_.size()]->drop_all();
            if (random_() % 2'048 == 0) store_.forget({&item_, 1});
        }
    }

    std::int64_t from_batches() const { return from_batches_; }
    std::int64_t admitted() const { return static_cast<std::int64_t>(taken_.size()); }

  private:
    Micros store_now() const {
        return std::chrono::duration_cast<Micros>(now_ - kBegin) + 1'000s + offset_;
    }
    Micros latency() { return Micros{random_() % 16 == 0 ? random_() % 50'000 : random_() % 500}; }

    void deliver() {
        for (;;) {
            const auto next =
                std::min_element(under_way_.begin(), under_way_.end(),
                                 [](const Sent& a, const Sent& b) { return a.at < b.at; });
            if (next == under_way_.end() || next->at > now_) return;
            Sent sent = std::move(*next);
            under_way_.erase(next);
            const SteadyTime until = std::exchange(now_, std::max(sent.at, last_));
            last_ = now_;
            happen(std::move(sent));
            now_ = until;
        }
    }

    void happen(Sent sent) {
        LeaseTable& table = *tables_[sent.thread];
        if (sent.kind == Sent::Kind::answer) {
            if (sent.answer_is_lost) {
                table.failed(*sent.lease, now_);
            } else {
                table.answered(*sent.lease, sent.verdict, now_);
            }
        } else if (sent.kind == Sent::Kind::charge) {
            store_.charge({{&item_, 1}, sent.units}, store_now(), sent.verdict);
            sent.kind = Sent::Kind::answer;
            sent.at = now_ + latency();
            under_way_.push_back(std::move(sent));
        } else {
            store_.give_back({{{&item_, 1}, sent.units}, &sent.receipt}, store_now());
        }
    }

    void request(std::size_t thread) {
        LeaseTable& table = *tables_[thread];
        const std::int64_t cost = random_() % 4 == 0 ? 3 : 1;
        Lease* const lease = table.meet(item_, cost, nullptr, now_);
        REQUIRE(lease != nullptr);
        if (lease->spend(cost, now_)) {
            const Lease::Number batch = lease->batch();
            const limit::Receipt receipt = lease->receipt();
            if (random_() % 8 == 0) {
                table.unspend(*lease, batch, cost, item_, receipt, now_);
            } else {
                from_batches_ += cost;
                admit(cost, receipt.generations.at(0));
            }
            return;
        }
        limit::Verdict verdict;
        store_.charge({{&item_, 1}, cost}, store_now(), verdict);
        if (verdict.admitted) admit(cost, verdict.receipt.generations.at(0));
        // Proxies come and go.
        const auto threads =
            static_cast<std::int64_t>(random_() % 32 == 0 ? 3 * tables_.size() : tables_.size());
        const std::int64_t units = table.wanted(*lease, cost, threads, now_);
        if (units == 0) return;
        table.asked(*lease, units, nullptr, now_);
        under_way_.push_back({.at = now_ + latency(),
                              .thread = thread,
                              .lease = lease,
                              .units = units,
                              .answer_is_lost = random_() % 16 == 0});
    }

    // By the plainest rule: all that was admitted in the sub-buckets that count at this moment.
    void admit(std::int64_t cost, std::uint64_t generation) {
        const Micros at = store_now();
        for (std::int64_t i = 0; i < cost; ++i) taken_.push_back({at, generation});
        for (const limit::Limit& limit : policy_.limits) {
            std::int64_t counted = 0;
            for (auto one = taken_.rbegin(); one != taken_.rend(); ++one) {
                const Micros ends =
                    one->first - one->first % limit.precision + limit.blocks * limit.precision;
                if (ends > at && one->second == generation) ++counted;
                if (at - one->first > 2 * limit.duration) break;
            }
            REQUIRE(counted <= limit.quota);
        }
    }

    limit::Policy policy_;
    limit::ChargeItem item_{&policy_, "constant:all"};
    std::mt19937_64 random_;
    Micros offset_;
    MemoryStore store_{MemoryStore::Options{}};
    std::vector<std::unique_ptr<LeaseTable>> tables_;
    std::vector<Sent> under_way_;
    SteadyTime now_ = kBegin;
    SteadyTime last_ = kBegin;
    std::vector<std::pair<Micros, std::uint64_t>> taken_;
    std::int64_t from_batches_ = 0;
};

}  // namespace

TEST_CASE("lease_table: in no random trace is a window above its quota") {
    std::int64_t admitted = 0;
    std::int64_t from_batches = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        std::vector<limit::Limit> limits;
        limit::LimitSpec spec = test::spec_of(limit::Algorithm::sliding_window,
                                              200 + 150 * static_cast<int>(seed % 5), 1s);
        spec.precision = 100ms;
        spec.strict = seed % 2 == 0;
        if (seed % 3 != 1) limits.push_back(test::made(spec));
        spec = test::spec_of(limit::Algorithm::fixed_window, 400, 700ms);
        if (seed % 3 != 0) limits.push_back(test::made(spec));
        World world(leased(limits, 50'000 + 100'000 * static_cast<int>(seed % 4)), seed,
                    1 + seed % 5);
        world.run(2'000, seed % 2 == 0 ? 500us : 2'000us);
        admitted += world.admitted();
        from_batches += world.from_batches();
    }
    MESSAGE(from_batches, " of ", admitted, " units from batches");
    CHECK(from_batches > admitted / 4);
}

}  // namespace tidegate::store::lease_table_test
