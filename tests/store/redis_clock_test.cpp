// The server's clock, and what happens to a state when it is put back.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "store/redis_asking.hpp"

namespace tidegate::test::redis_clock_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Limit;
using limit::LimitSpec;
using limit::Verdict;

// Every algorithm with a quota of 3 in 20 s; slots have a time of their own.
struct Kind {
    std::string name;
    Limit limit;
};

std::vector<Kind> kinds() {
    LimitSpec opens = spec_of(Algorithm::fixed_window, 3, 20s);
    opens.anchor = limit::Anchor::first_request;
    LimitSpec all = spec_of(Algorithm::sliding_window, 3, 20s);
    all.count = limit::Count::all;
    LimitSpec strict = spec_of(Algorithm::sliding_window, 3, 20s);
    strict.strict = true;
    LimitSpec leaky = spec_of(Algorithm::leaky_bucket, 3, 20s);
    leaky.max_delay = 14s;
    LimitSpec schedule = spec_of(Algorithm::schedule, 3, 20s);
    schedule.horizon = 1h;
    return {{"sliding_window", sliding(3, 20s)},
            {"strict", made(strict)},
            {"count: all", made(all)},
            {"fixed_window", fixed(3, 20s)},
            {"first_request", made(opens)},
            {"sliding_log", made(spec_of(Algorithm::sliding_log, 3, 20s))},
            {"gcra", made(spec_of(Algorithm::gcra, 3, 20s))},
            {"leaky_bucket", made(leaky)},
            {"schedule", made(schedule)},
            {"concurrency", made(spec_of(Algorithm::concurrency, 3, 0s))}};
}

// One policy of one limit, asked by requests that each have a slot of their own.
struct Asker {
    explicit Asker(const Limit& limit) : some(policy("p", {limit})) {}
    Asker(const Asker&) = delete;
    Asker& operator=(const Asker&) = delete;

    limit::Charge next(Micros moment) {
        return {.items = {&item, 1}, .cost = 1, .slot_hold = {1, ++requests}, .moment = moment};
    }

    limit::Policy some;
    limit::ChargeItem item{&some, "user:a"};
    std::uint64_t requests = 0;
};

// How many of `tries` are admitted by the server's clock, as it stands.
int admitted_now(RedisSubject& redis, Asker& asker, int tries) {
    int admitted = 0;
    for (int i = 0; i < tries; ++i) {
        const limit::Charge charge = asker.next(server_time(redis));
        admitted += redis.charge_by_server_clock(charge).admitted ? 1 : 0;
    }
    return admitted;
}

}  // namespace

TEST_CASE("redis: by the server's clock exactly the quota is admitted") {
    RedisSubject redis;
    const auto some = policy("p", {fixed(120, 24h), sliding(500, 240h)});
    const Ask ask(some, {"ip:192.0.2.1", "user:a"});
    int admitted = 0;
    for (int i = 0; i < 300; ++i) admitted += redis.charge_by_server_clock(ask).admitted ? 1 : 0;
    CHECK(admitted == 120);
}

TEST_CASE("redis: by the server's clock a unit comes back when the answer says") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(1, 200ms, {.precision = 10ms})});
    const Ask ask(some, {"user:a"});
    REQUIRE(redis.charge_by_server_clock(ask).admitted);
    const Verdict denied = redis.charge_by_server_clock(ask);
    REQUIRE_FALSE(denied.admitted);
    CHECK(denied.retry_after <= 200ms);
    // The server's own clock is under test: the test can only let time pass.
    std::this_thread::sleep_for(denied.retry_after + 1ms);
    CHECK(redis.charge_by_server_clock(ask).admitted);
}

TEST_CASE("redis: the fast path, the general way and a batch tell the same time") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(9, 1s)});
    const Ask ask(some, {"user:a"});
    const Micros before = server_time(redis);
    const Verdict by_fast_path = redis.charge_by_server_clock(ask);
    const Verdict asked = redis.charge_by_server_clock(Ask(some, {"user:a"}, 0));
    const limit::Charge charges[] = {ask, ask};
    const auto together = charge_together(redis, charges, "t:", std::nullopt);
    CHECK(by_fast_path.receipt.at >= before);
    CHECK(asked.receipt.at >= by_fast_path.receipt.at);
    CHECK(together[0].receipt.at >= asked.receipt.at);
    CHECK(server_time(redis) >= together[0].receipt.at);
}

TEST_CASE("redis: a server clock put back by more than a window locks no client out") {
    for (const Kind& kind : kinds()) {
        CAPTURE(kind.name);
        RedisSubject redis;
        Asker asker(kind.limit);
        // As if the server's clock had been an hour ahead when these came.
        const Micros ahead = server_time(redis) + 1h;
        for (int i = 0; i < 4; ++i) redis.charge(asker.next(ahead), ahead);
        // The units still count for a while; the denial moves them.
        CHECK(admitted_now(redis, asker, 9) <= 3);
        const Micros later = server_time(redis) + 2 * kind.limit.duration + 1s;
        CHECK(redis.charge(asker.next(later), later).admitted);
    }
}

TEST_CASE("redis: after a server clock was put back keys live no longer than what they count") {
    for (const Kind& kind : kinds()) {
        CAPTURE(kind.name);
        RedisSubject redis;
        Asker asker(kind.limit);
        const Micros ahead = server_time(redis) + 1h;
        for (int i = 0; i < 4; ++i) redis.charge(asker.next(ahead), ahead);
        admitted_now(redis, asker, 4);
        // A schedule keeps its moments: those are the clients' own.
        const std::int64_t most = kind.limit.algorithm == Algorithm::schedule ? 3'625'000 : 45'000;
        const std::string keys = redis.text({"EVAL",
                                             "local most = 0 "
                                             "for _, key in ipairs(redis.call('KEYS', '*')) do "
                                             "local ttl = redis.call('PTTL', key) "
                                             "if ttl == -1 then return 'no expiry' end "
                                             "if ttl > most then most = ttl end end "
                                             "return tostring(most)",
                                             "0"});
        REQUIRE(keys != "no expiry");
        CHECK(std::stoll(keys) > 0);
        CHECK(std::stoll(keys) < most);
    }
}

TEST_CASE("redis: a server clock put back by less than a window never admits too much") {
    for (const Kind& kind : kinds()) {
        for (Micros back : {Micros{1s}, Micros{4s}, Micros{9s}}) {
            CAPTURE(kind.name);
            CAPTURE(back.count());
            RedisSubject redis;
            Asker asker(kind.limit);
            const Micros ahead = server_time(redis) + back;
            int admitted = 0;
            for (int i = 0; i < 4; ++i) {
                admitted += redis.charge(asker.next(ahead), ahead).admitted ? 1 : 0;
            }
            CHECK(admitted == 3);
            CHECK(admitted_now(redis, asker, 9) == 0);
        }
    }
}

TEST_CASE("redis: a server clock put back by less than a window waits for the old time") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(2, 10min, {.precision = 1min})});
    const Micros ahead = server_time(redis) + 5min;
    REQUIRE(redis.charge(Ask(some, {"user:a"}, 2), ahead).admitted);
    const Verdict denied = redis.charge_by_server_clock(Ask(some, {"user:a"}));
    CHECK_FALSE(denied.admitted);
    CHECK(denied.retry_after > 13min);
}

TEST_CASE("redis: a step back moves the marks of a window, and keeps their order") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(6, 1min, {.precision = 1s})});
    const Ask ask(some, {"user:a"}, 2);
    Micros ahead = server_time(redis) + 2h;
    ahead -= ahead % 1s;
    for (int i = 0; i < 3; ++i) REQUIRE(redis.charge(ask, ahead + i * 10s).admitted);
    const Verdict denied = redis.charge_by_server_clock(ask);
    CHECK_FALSE(denied.admitted);
    // The newest is taken now, so the oldest was 20 s ago and leaves in 40.
    CHECK(denied.retry_after > 38s);
    CHECK(denied.retry_after <= 40s);
    const Micros now = server_time(redis);
    CHECK_FALSE(redis.charge(ask, now + 38s).admitted);
    CHECK(redis.charge(ask, now + 40s).admitted);
    CHECK_FALSE(redis.charge(ask, now + 48s).admitted);
    CHECK(redis.charge(ask, now + 50s).admitted);
}

TEST_CASE("redis: the time a proxy sends moves nothing back") {
    for (const Kind& kind : kinds()) {
        if (kind.limit.algorithm == Algorithm::concurrency) continue;  // holds of another's time
        CAPTURE(kind.name);
        RedisSubject redis;
        Asker asker(kind.limit);
        for (int i = 0; i < 3; ++i) {
            REQUIRE(redis.charge(asker.next(kStart + 1h), kStart + 1h).admitted);
        }
        CHECK_FALSE(redis.charge(asker.next(kStart), kStart).admitted);
        CHECK_FALSE(redis.charge(asker.next(kStart + 1h), kStart + 1h).admitted);
    }
}

}  // namespace tidegate::test::redis_clock_test
