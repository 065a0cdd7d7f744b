// The in-process store while the wall clock is set: what follows it, and what does not.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/local_report.hpp"
#include "store/memory_store.hpp"
#include "store/process_clock.hpp"

namespace tidegate::store::memory_store_clocks_test {
namespace {

using namespace std::chrono_literals;
using limit::Anchor;
using limit::Limit;
using limit::LimitSpec;
using limit::Micros;
using limit::Now;

const Micros kNoon =
    std::chrono::sys_days(std::chrono::year(2024) / 5 / 15).time_since_epoch() + 12h;

Limit calendar(std::int64_t quota, Anchor anchor) {
    LimitSpec spec;
    spec.algorithm = limit::Algorithm::fixed_window;
    spec.quota = quota;
    spec.anchor = anchor;
    return *limit::make_limit(spec);
}

Limit sliding(std::int64_t quota, Micros duration) {
    LimitSpec spec;
    spec.quota = quota;
    spec.duration = duration;
    return *limit::make_limit(spec);
}

Limit schedule(std::int64_t quota, Micros duration, bool utc_day) {
    LimitSpec spec;
    spec.algorithm = limit::Algorithm::schedule;
    spec.quota = quota;
    spec.duration = duration;
    spec.utc_day = utc_day;
    return *limit::make_limit(spec);
}

limit::Policy policy(std::vector<Limit> limits) {
    limit::Policy policy;
    policy.name = "p";
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    policy.limits = std::move(limits);
    return policy;
}

struct Client {
    MemoryStore& store;
    const limit::Policy& counted;
    limit::Verdict verdict{};

    bool passes(std::string_view identifier, const Now& now, Micros moment = Micros{0}) {
        const limit::ChargeItem item{&counted, identifier};
        const limit::Charge charge{{&item, 1}, 1, {}, moment};
        return store.charge(charge, now, verdict) == MemoryStore::Outcome::decided &&
               verdict.admitted;
    }
    int admitted(std::string_view identifier, const Now& now, int requests = 9) {
        int admitted = 0;
        for (int i = 0; i < requests; ++i) admitted += passes(identifier, now) ? 1 : 0;
        return admitted;
    }
};

std::string saved(const MemoryStore& store) {
    std::string bytes;
    store.save([&](std::string_view piece) { bytes += piece; });
    return bytes;
}

}  // namespace

TEST_CASE("memory_store clocks: calendar limits follow a clock that is set, durations do not") {
    MemoryStore store{MemoryStore::Options{}};
    const auto some = policy({calendar(3, Anchor::utc_day), sliding(5, 1h)});
    Client client{store, some};
    CHECK(client.admitted("a", kNoon) == 3);
    // Two hours forward: midnight is nearer, the hour is not over.
    const Now forward{kNoon + 1min, kNoon + 2h + 1min};
    CHECK_FALSE(client.passes("a", forward));
    CHECK(client.verdict.limits[0].next_unit == 10h - 1min);
    CHECK(client.verdict.retry_after == 10h - 1min);
    CHECK(client.verdict.limits[1].remaining == 2);
    CHECK(client.verdict.limits[1].next_unit == 59min);
    // A day forward: the hourly limit has two left.
    CHECK(client.admitted("a", {kNoon + 2min, kNoon + 24h}) == 2);
    CHECK(client.verdict.retry_after == 58min);
    CHECK(client.admitted("a", {kNoon + 1h, kNoon + 25h}) == 1);
}

TEST_CASE("memory_store clocks: weeks and months follow the wall clock, too") {
    for (const Anchor anchor : {Anchor::utc_week, Anchor::utc_month}) {
        MemoryStore store{MemoryStore::Options{}};
        const auto some = policy({calendar(3, anchor)});
        Client client{store, some};
        CHECK(client.admitted("a", kNoon) == 3);
        CHECK(client.admitted("a", {kNoon + 1s, kNoon - 24h}) == 0);
        CHECK(client.admitted("a", {kNoon + 2s, kNoon + 20 * 24h}) == 3);
        CHECK(client.admitted("a", {kNoon + 3s, kNoon}) == 0);
    }
}

TEST_CASE("memory_store clocks: a quota that is used up is not forgotten while its day goes on") {
    MemoryStore::Options options;
    options.max_keys = 4'000;
    MemoryStore store(options);
    const auto some = policy({calendar(1, Anchor::utc_day)});
    const auto booked = policy({schedule(1, 24h, true)});
    Client client{store, some};
    Client books{store, booked};
    REQUIRE(client.passes("a", kNoon));
    REQUIRE(books.passes("b", kNoon, kNoon + 11h));
    // By the steady clock the day is over. It is not, as the wall clock was set back by six hours;
    // other names sweep what has expired.
    const Now later{kNoon + 14h, kNoon + 8h};
    for (int i = 0; i < 3'000; ++i) REQUIRE(client.passes("n" + std::to_string(i), later));
    CHECK_FALSE(client.passes("a", later));
    CHECK_FALSE(books.passes("b", later, kNoon + 11h));
    // And what is over goes, though the steady clock says otherwise.
    const std::size_t before = store.keys();
    const Now next_day{kNoon + 14h + 1s, kNoon + 30h};
    for (int i = 0; i < 6'000; ++i) REQUIRE(client.passes("m" + std::to_string(i), next_day));
    CHECK(store.evictions() < 6'000);
    // Names are not spread evenly: a shard may have been full before.
    CHECK(before > 2'900);
}

TEST_CASE("memory_store clocks: the moments of a schedule are those of the wall clock") {
    MemoryStore store{MemoryStore::Options{}};
    const auto some = policy({schedule(1, 1h, false), schedule(2, 24h, true)});
    Client client{store, some};
    // The process began with a clock that was a day behind.
    const Now now{kNoon - 24h, kNoon};
    REQUIRE(client.passes("a", now, kNoon + 2h));
    CHECK_FALSE(client.passes("a", now, kNoon + 2h + 30min));
    CHECK(client.verdict.earliest == kNoon + 3h);
    CHECK(client.passes("a", now, kNoon - 5h));  // counts as now
    CHECK_FALSE(client.passes("a", now, kNoon + 30min));
    CHECK(client.verdict.earliest == kNoon + 12h);  // two a day
}

TEST_CASE("memory_store clocks: a schedule does not wait for a time that was years ahead") {
    MemoryStore store{MemoryStore::Options{}};
    const auto some = policy({schedule(2, 1h, false)});
    Client client{store, some};
    REQUIRE(client.passes("a", {kNoon, kNoon + 87600h}, kNoon + 87600h));
    const Now back{kNoon + 1min, kNoon + 1min};
    CHECK(client.passes("a", back, kNoon + 5min));
    CHECK(client.passes("a", back, kNoon + 5min));
    CHECK_FALSE(client.passes("a", back, kNoon + 5min));
    CHECK(client.verdict.earliest == kNoon + 65min);
    // Less than a window back, time stands still: two are in the hour behind 12:05.
    CHECK_FALSE(client.passes("a", {kNoon + 2min, kNoon - 30min}, kNoon - 20min));
}

TEST_CASE(
    "memory_store clocks: counts are handed over between processes whose clocks began apart") {
    MemoryStore old{MemoryStore::Options{}};
    const auto some =
        policy({calendar(3, Anchor::utc_day), schedule(3, 24h, true), sliding(9, 1h)});
    Client before{old, some};
    // The first process began with a clock in 1970; both count steady time as it does.
    const Micros steady = 1h;
    for (int i = 0; i < 3; ++i) REQUIRE(before.passes("a", {steady, kNoon}, kNoon + 1h));
    MemoryStore store{MemoryStore::Options{}};
    REQUIRE(store.load(saved(old), {steady + 1s, kNoon + 1s}) == 1);
    Client after{store, some};
    CHECK_FALSE(after.passes("a", {steady + 2s, kNoon + 2s}, kNoon + 1h));
    CHECK(after.verdict.limits[0].next_unit == 12h - 2s);
    CHECK(after.verdict.limits[2].remaining == 6);
    // The next day has all of the quota.
    MemoryStore late{MemoryStore::Options{}};
    REQUIRE(late.load(saved(old), {steady + 2h, kNoon + 14h}) == 0);
}

TEST_CASE("memory_store clocks: what was admitted without Redis is noted by the day it was then") {
    MemoryStore store{MemoryStore::Options{}};
    LocalLedger ledger{LocalLedger::Options{}};
    const auto some = policy({calendar(9, Anchor::utc_day), calendar(9, Anchor::utc_month)});
    const limit::ChargeItem item{&some, "a"};
    const limit::Charge charge{{&item, 1}, 1};
    limit::Verdict verdict;
    const Micros steady = 5h;  // the process began in 1970
    for (const Micros wall : {kNoon - 24h, kNoon, kNoon + 11h}) {
        REQUIRE(store.charge(charge, {steady, wall}, verdict) == MemoryStore::Outcome::decided);
        ledger.take(charge, verdict, wall - steady);
    }
    const auto taken = ledger.hand_out(9, [](const auto&) { return true; });
    REQUIRE(taken.size() == 1);
    // Of days the newest is noted, as only one counts.
    const auto portions = [&](std::size_t limit) {
        return std::get<limit::UnreportedPortions>(taken[0].limits[limit]).all;
    };
    REQUIRE(portions(0).size() == 1);
    CHECK(portions(0)[0].began == kNoon - 12h);
    CHECK(portions(0)[0].units == 2);
    REQUIRE(portions(1).size() == 1);
    CHECK(portions(1)[0].units == 3);
    CHECK(taken[0].ends > steady + 14 * 24h);
    CHECK(taken[0].ends < steady + 31 * 24h);
}

TEST_CASE("process_now: both clocks are the time of day, and only the wall clock steps") {
    const auto wall = std::chrono::system_clock::now();
    const Micros time = std::chrono::duration_cast<Micros>(wall.time_since_epoch());
    Now last = process_now();
    CHECK(std::chrono::abs(time - last.steady) < 1min);
    CHECK(std::chrono::abs(time - last.wall) < 1min);
    const std::uint64_t steps = wall_clock_steps();
    follow_wall_clock(wall + 2h);
    CHECK(wall_clock_steps() == steps + 1);
    const Now forward = process_now();
    CHECK(forward.steady >= last.steady);
    CHECK(forward.steady - last.steady < 1min);
    CHECK(forward.wall - last.wall > 119min);
    follow_wall_clock(std::chrono::system_clock::now());
    CHECK(wall_clock_steps() == steps + 2);
    for (int i = 0; i < 1'000; ++i) {
        const Now next = process_now();
        REQUIRE(next.steady >= last.steady);
        last = next;
    }
    follow_wall_clock(std::chrono::system_clock::now());  // no step
    CHECK(wall_clock_steps() == steps + 2);
}

}  // namespace tidegate::store::memory_store_clocks_test
