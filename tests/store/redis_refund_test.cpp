// Giving back in Redis: never below zero, never to a state that was made anew.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/redis_asking.hpp"

namespace tidegate::test::redis_refund_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Limit;
using limit::LimitSpec;
using limit::Refund;
using limit::Verdict;

// Each algorithm that is given back to: 4 in 20 s.
std::vector<Limit> refunded() {
    LimitSpec opens = spec_of(Algorithm::fixed_window, 4, 20s);
    opens.anchor = limit::Anchor::first_request;
    return {sliding(4, 20s, {.precision = 1s}),
            fixed(4, 20s),
            made(opens),
            made(spec_of(Algorithm::sliding_log, 4, 20s)),
            made(spec_of(Algorithm::gcra, 4, 20s)),
            made(spec_of(Algorithm::leaky_bucket, 4, 20s))};
}

// How many single units would pass at `now`.
std::int64_t room(RedisSubject& redis, const limit::Policy& some, Micros now) {
    return redis.charge(Ask(some, {"user:a"}, 0), now).limits[0].remaining;
}

// A round moment, so that no window ends by chance.
constexpr Micros kRound = 1'700'000'000s;

}  // namespace

TEST_CASE("redis: units given back at once may be taken again, to the unit") {
    for (const Limit& limit : refunded()) {
        CAPTURE(limit.name);
        RedisSubject redis;
        const auto some = policy("p", {limit});
        const Ask ask(some, {"user:a"}, 2);
        const std::int64_t before = room(redis, some, kRound);
        const Verdict taken = redis.charge(ask, kRound);
        REQUIRE(taken.admitted);
        REQUIRE(room(redis, some, kRound) == before - 2);
        redis.give_back({ask, &taken.receipt, Refund::Of::all, 0}, kRound);
        CHECK(room(redis, some, kRound) == before);
    }
}

TEST_CASE("redis: giving back twice never leaves less than zero") {
    for (const Limit& limit : refunded()) {
        CAPTURE(limit.name);
        RedisSubject redis;
        const auto some = policy("p", {limit});
        const Ask ask(some, {"user:a"}, 2);
        const std::int64_t before = room(redis, some, kRound);
        const Verdict taken = redis.charge(ask, kRound);
        for (int i = 0; i < 3; ++i) {
            redis.give_back({ask, &taken.receipt, Refund::Of::all, 0}, kRound);
            CHECK(room(redis, some, kRound) == before);
        }
        int admitted = 0;
        for (int i = 0; i < 9; ++i) {
            admitted += redis.charge(Ask(some, {"user:a"}), kRound).admitted ? 1 : 0;
        }
        CHECK(admitted == before);
    }
}

TEST_CASE("redis: units that have left stay gone when they are given back") {
    for (const Limit& limit : refunded()) {
        CAPTURE(limit.name);
        RedisSubject redis;
        const auto some = policy("p", {limit});
        const Ask first(some, {"user:a"}, 1);
        const Verdict gone = redis.charge(first, kRound);
        REQUIRE(gone.admitted);
        const Micros later = kRound + 40s;  // nothing of the first counts
        REQUIRE(redis.charge(Ask(some, {"user:a"}, 2), later).admitted);
        const std::int64_t left = room(redis, some, later);
        redis.give_back({first, &gone.receipt, Refund::Of::all, 0}, later);
        CHECK(room(redis, some, later) == left);
    }
}

TEST_CASE("redis: nothing is given back to a state that was made anew") {
    for (const Limit& limit : refunded()) {
        CAPTURE(limit.name);
        RedisSubject redis;
        const auto some = policy("p", {limit});
        const Ask ask(some, {"user:a"}, 2);
        const Verdict lost = redis.charge(ask, kRound);
        redis.text({"DEL", "t:4:p:{user:a}"});
        redis.give_back({ask, &lost.receipt, Refund::Of::all, 0}, kRound + 1ms);
        CHECK(redis.text({"DBSIZE"}) == "0");  // and none is made
        REQUIRE(redis.charge(ask, kRound + 1ms).admitted);
        const std::int64_t left = room(redis, some, kRound + 1ms);
        redis.give_back({ask, &lost.receipt, Refund::Of::all, 0}, kRound + 1ms);
        CHECK(room(redis, some, kRound + 1ms) == left);
    }
}

TEST_CASE("redis: a gcra gets back no more than has not leaked since") {
    RedisSubject redis;
    const auto some = policy("p", {made(spec_of(Algorithm::gcra, 5, 5s))});
    const Ask ask(some, {"user:a"});
    const Verdict first = redis.charge(ask, kRound);
    REQUIRE(redis.charge(ask, kRound + 900ms).admitted);
    // Without the first, the second would have until 1.9 s: so it has.
    redis.give_back({ask, &first.receipt, Refund::Of::all, 0}, kRound + 950ms);
    CHECK_FALSE(redis.charge(Ask(some, {"user:a"}, 5), kRound + 1'899'999us).admitted);
    CHECK(redis.charge(Ask(some, {"user:a"}, 5), kRound + 2'000ms).admitted);
    // Leaked altogether: nothing to give.
    RedisSubject other;
    const Verdict old = other.charge(ask, kRound);
    REQUIRE(other.charge(Ask(some, {"user:a"}, 3), kRound + 900ms).admitted);
    other.give_back({ask, &old.receipt, Refund::Of::all, 0}, kRound + 1s);
    CHECK_FALSE(other.charge(Ask(some, {"user:a"}, 5), kRound + 3'999'999us).admitted);
    CHECK(other.charge(Ask(some, {"user:a"}, 5), kRound + 4s).admitted);
}

TEST_CASE("redis: only the last in a line gives its place back") {
    RedisSubject redis;
    const auto some = policy("p", {made(spec_of(Algorithm::leaky_bucket, 5, 5s))});
    const Ask ask(some, {"user:a"});
    const Verdict first = redis.charge(ask, kRound);
    const Verdict second = redis.charge(ask, kRound + 10ms);
    CHECK(second.wait == 990ms);
    redis.give_back({ask, &first.receipt, Refund::Of::place, 0}, kRound + 20ms);
    CHECK(redis.charge(Ask(some, {"user:a"}, 0), kRound + 20ms).limits[0].remaining ==
          redis.charge(Ask(some, {"user:a"}, 0), kRound + 10ms).limits[0].remaining);
    redis.give_back({ask, &second.receipt, Refund::Of::place, 0}, kRound + 20ms);
    CHECK(redis.charge(ask, kRound + 20ms).wait == 980ms);
}

TEST_CASE("redis: a moment is given back once, and a state that was made anew keeps its own") {
    LimitSpec spec = spec_of(Algorithm::schedule, 2, 1h);
    const auto some = policy("p", {made(spec)});
    const limit::ChargeItem item{&some, "user:a"};
    const limit::Charge charge{{&item, 1}, 1, {}, kRound + 5min};
    RedisSubject redis;
    const Verdict first = redis.charge(charge, kRound);
    REQUIRE(redis.charge(charge, kRound).admitted);
    REQUIRE_FALSE(redis.charge(charge, kRound).admitted);
    redis.give_back({charge, &first.receipt, Refund::Of::all, 0}, kRound);
    CHECK(redis.charge(charge, kRound).admitted);
    CHECK_FALSE(redis.charge(charge, kRound).admitted);
    redis.text({"DEL", "t:4:p:{user:a}"});
    REQUIRE(redis.charge({{&item, 1}, 1, {}, kRound + 3h}, kRound + 1us).admitted);
    redis.give_back({charge, &first.receipt, Refund::Of::all, 0}, kRound + 1us);
    CHECK_FALSE(redis.charge(charge, kRound + 1us).admitted);
}

TEST_CASE("redis: giving back shortens no expiry, and leaves none without one") {
    for (const Limit& limit : refunded()) {
        CAPTURE(limit.name);
        RedisSubject redis;
        const auto some = policy("p", {limit, fixed(9, 240h)});
        const Ask ask(some, {"user:a"}, 2);
        const Verdict taken = redis.charge(ask, kRound);
        const std::int64_t before = ttl_ms(redis, "t:4:p:{user:a}");
        redis.give_back({ask, &taken.receipt, Refund::Of::all, 0}, kRound + 1ms);
        CHECK(ttl_ms(redis, "t:4:p:{user:a}") > before - 5'000);
        CHECK(ttl_ms(redis, "t:4:p:{user:a}") <= before);
    }
}

TEST_CASE("redis: a value that is no state gets nothing back") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(4, 20s)});
    const Ask ask(some, {"user:a"});
    const Verdict taken = redis.charge(ask, kRound);
    const std::string good = redis.text({"GET", "t:4:p:{user:a}"});
    for (std::size_t size = 0; size < good.size(); ++size) {
        redis.text({"SET", "t:4:p:{user:a}", good.substr(0, size)});
        redis.give_back({ask, &taken.receipt, Refund::Of::all, 0}, kRound);
        CHECK(redis.text({"GET", "t:4:p:{user:a}"}) == good.substr(0, size));
    }
    redis.text({"DEL", "t:4:p:{user:a}"});
    redis.text({"LPUSH", "t:4:p:{user:a}", "1"});
    redis.give_back({ask, &taken.receipt, Refund::Of::all, 0}, kRound);
    CHECK(redis.text({"TYPE", "t:4:p:{user:a}"}) == "list");
}

}  // namespace tidegate::test::redis_refund_test
