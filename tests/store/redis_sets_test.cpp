// What is kept in sorted sets: slots of concurrency and moments of a schedule.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/redis_asking.hpp"

namespace tidegate::test::redis_sets_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Limit;
using limit::LimitSpec;
using limit::Verdict;

constexpr Micros kSlotTime = limit::kSlotTime;
// Three hours before midnight, UTC.
constexpr Micros kEvening = 1'700'000'000s - 1'700'000'000s % 24h + 21h;

Limit slots(std::int64_t quota) {
    LimitSpec spec;
    spec.algorithm = Algorithm::concurrency;
    spec.quota = quota;
    return made(spec);
}

Limit schedule(std::int64_t quota, Micros duration, bool utc_day = false) {
    LimitSpec spec;
    spec.algorithm = Algorithm::schedule;
    spec.quota = quota;
    spec.duration = duration;
    spec.utc_day = utc_day;
    spec.horizon = 24h;
    return made(spec);
}

// One identifier under one policy.
struct Asker {
    explicit Asker(std::vector<Limit> limits) : some(policy("p", std::move(limits))) {}
    Asker(const Asker&) = delete;
    Asker& operator=(const Asker&) = delete;

    limit::Charge holding(std::uint64_t request) const {
        return {.items = {&item, 1}, .cost = 1, .slot_hold = {1, request}};
    }
    limit::Charge meant_for(Micros moment, std::int64_t cost = 1) const {
        return {.items = {&item, 1}, .cost = cost, .slot_hold = {}, .moment = moment};
    }

    limit::Policy some;
    limit::ChargeItem item{&some, "user:a"};
};

std::string only_set(RedisSubject& redis) {
    return redis.text({"EVAL",
                       "for _, key in ipairs(redis.call('KEYS', '*')) do "
                       "if redis.call('TYPE', key).ok == 'zset' then return key end end "
                       "return 'none'",
                       "0"});
}

}  // namespace

TEST_CASE("redis: a slot that is not renewed ends with its hold") {
    RedisSubject redis;
    const Asker asker({slots(2)});
    REQUIRE(redis.charge(asker.holding(1), kStart).admitted);
    REQUIRE(redis.charge(asker.holding(2), kStart + 3s).admitted);
    CHECK_FALSE(redis.charge(asker.holding(3), kStart + kSlotTime - 1us).admitted);
    CHECK(redis.charge(asker.holding(3), kStart + kSlotTime).admitted);
    CHECK_FALSE(redis.charge(asker.holding(4), kStart + kSlotTime).admitted);
}

TEST_CASE("redis: a slot that is renewed is kept for another hold") {
    RedisSubject redis;
    const Asker asker({slots(1)});
    REQUIRE(redis.charge(asker.holding(1), kStart).admitted);
    renew(redis, asker.holding(1), kStart + 9s);
    CHECK_FALSE(redis.charge(asker.holding(2), kStart + 9s + kSlotTime - 1us).admitted);
    CHECK(redis.charge(asker.holding(2), kStart + 9s + kSlotTime).admitted);
}

TEST_CASE("redis: a key of another type among the sets is an error, and costs others no slot") {
    RedisSubject redis;
    const auto some = policy("p", {slots(1)});
    const std::vector<limit::ChargeItem> items{{&some, "user:a"}, {&some, "user:b"}};
    const auto holding = [&](std::uint64_t request) {
        return limit::Charge{.items = items, .cost = 1, .slot_hold = {1, request}};
    };
    const limit::ChargeItem second = items[1];
    REQUIRE(
        redis.charge({.items = {&items[0], 1}, .cost = 1, .slot_hold = {1, 1}}, kStart).admitted);
    const std::string set = only_set(redis);
    REQUIRE(redis.charge({.items = {&second, 1}, .cost = 1, .slot_hold = {1, 1}}, kStart).admitted);
    redis.text({"DEL", set});
    redis.text({"LPUSH", set, "1"});
    CHECK(redis.error(holding(2), kStart).find("WRONGTYPE") != std::string::npos);
    renew(redis, holding(1), kStart + 9s);
    CHECK_FALSE(redis.charge({.items = {&second, 1}, .cost = 1, .slot_hold = {1, 2}}, kStart + 12s)
                    .admitted);
    CHECK(redis.text({"TYPE", set}) == "list");
}

TEST_CASE("redis: only slots that are still held are renewed") {
    RedisSubject redis;
    const Asker asker({slots(1)});
    REQUIRE(redis.charge(asker.holding(1), kStart).admitted);
    // Too late: another request may have it by now.
    renew(redis, asker.holding(1), kStart + kSlotTime);
    REQUIRE(redis.charge(asker.holding(2), kStart + kSlotTime).admitted);
    renew(redis, asker.holding(1), kStart + kSlotTime + 1s);
    redis.release(asker.holding(2), kStart + kSlotTime + 1s);
    CHECK(redis.charge(asker.holding(3), kStart + kSlotTime + 1s).admitted);
    // Nor is a slot made that was released, or never taken.
    redis.release(asker.holding(3), kStart + kSlotTime + 2s);
    renew(redis, asker.holding(3), kStart + kSlotTime + 2s);
    renew(redis, asker.holding(99), kStart + kSlotTime + 2s);
    CHECK(only_set(redis) == "none");
}

TEST_CASE("redis: taking and releasing a slot again changes nothing") {
    RedisSubject redis;
    const Asker asker({slots(2)});
    for (int i = 0; i < 5; ++i) CHECK(redis.charge(asker.holding(1), kStart).admitted);
    CHECK(redis.charge(asker.holding(2), kStart).admitted);
    CHECK_FALSE(redis.charge(asker.holding(3), kStart).admitted);
    for (int i = 0; i < 3; ++i) redis.release(asker.holding(1), kStart);
    CHECK(redis.charge(asker.holding(3), kStart).admitted);
    CHECK_FALSE(redis.charge(asker.holding(4), kStart).admitted);
}

TEST_CASE("redis: a slot is not taken where another limit denies") {
    RedisSubject redis;
    const Asker asker({slots(2), sliding(1, 1min)});
    REQUIRE(redis.charge(asker.holding(1), kStart).admitted);
    CHECK_FALSE(redis.charge(asker.holding(2), kStart).admitted);
    CHECK(redis.text({"ZCARD", only_set(redis)}) == "1");
}

TEST_CASE("redis: slots expire with the last hold") {
    RedisSubject redis;
    const Asker asker({slots(2)});
    REQUIRE(redis.charge(asker.holding(1), kStart).admitted);
    const std::string set = only_set(redis);
    CHECK(ttl_ms(redis, set) > kSlotTime / 1ms - 1'000);
    CHECK(ttl_ms(redis, set) <= kSlotTime / 1ms + 1'000);
    redis.text({"PEXPIRE", set, "5000"});
    renew(redis, asker.holding(1), kStart + 5s);
    CHECK(ttl_ms(redis, set) > kSlotTime / 1ms - 1'000);
}

TEST_CASE("redis: a slot that is kept for long outlives the holds of others, not its own time") {
    RedisSubject redis;
    const Asker asker({slots(2)});
    const Micros begin = server_time(redis);
    REQUIRE(redis.charge(asker.holding(1), begin).admitted);
    redis.keep(asker.holding(1), 10min, begin);
    const std::string set = only_set(redis);
    // Others come, are renewed and go: neither the key nor the slot ends with them, and the clock
    // of the server is not taken for one that was put back.
    REQUIRE(redis.charge_by_server_clock(asker.holding(2)).admitted);
    CHECK_FALSE(redis.charge_by_server_clock(asker.holding(3)).admitted);
    renew(redis, asker.holding(2), std::nullopt);
    CHECK(ttl_ms(redis, set) > 10min / 1ms - 1'000);
    redis.release(asker.holding(2), begin);
    const Micros last = begin + 10min - 1us;
    CHECK(redis.charge(asker.holding(4), last).admitted);
    CHECK_FALSE(redis.charge(asker.holding(5), last).admitted);
    CHECK(redis.charge(asker.holding(5), last + 1us).admitted);
}

TEST_CASE("redis: a slot that is kept ends in time though the server's clock was put back") {
    RedisSubject redis;
    const Asker asker({slots(1)});
    const Micros ahead = server_time(redis) + 1h;
    REQUIRE(redis.charge(asker.holding(1), ahead).admitted);
    redis.keep(asker.holding(1), 1min, ahead);
    CHECK_FALSE(redis.charge_by_server_clock(asker.holding(2)).admitted);
    const Micros now = server_time(redis);
    CHECK_FALSE(redis.charge(asker.holding(2), now + 59s).admitted);
    CHECK(redis.charge(asker.holding(2), now + 1min).admitted);
}

TEST_CASE("redis: two moments of one second, and of one microsecond, are two") {
    RedisSubject redis;
    const Asker asker({schedule(3, 1min)});
    CHECK(redis.charge(asker.meant_for(kEvening), kEvening).admitted);
    CHECK(redis.charge(asker.meant_for(kEvening + 1us), kEvening).admitted);
    CHECK(redis.charge(asker.meant_for(kEvening), kEvening).admitted);
    const Verdict denied = redis.charge(asker.meant_for(kEvening), kEvening);
    CHECK_FALSE(denied.admitted);
    CHECK(denied.earliest == kEvening + 1min);
    CHECK(redis.text({"ZCARD", only_set(redis)}) == "2");
}

TEST_CASE("redis: midnight is no boundary of a schedule, unless its windows are days") {
    const Micros midnight = kEvening + 3h;
    RedisSubject redis;
    const Asker rolling({schedule(2, 24h)});
    REQUIRE(redis.charge(rolling.meant_for(midnight - 1us, 2), kEvening).admitted);
    CHECK_FALSE(redis.charge(rolling.meant_for(midnight), kEvening).admitted);
    CHECK(redis.charge(rolling.meant_for(midnight + 24h - 1us), kEvening).admitted);
    RedisSubject other;
    const Asker daily({schedule(2, 24h, true)});
    REQUIRE(other.charge(daily.meant_for(midnight - 1us, 2), kEvening).admitted);
    CHECK(other.charge(daily.meant_for(midnight, 2), kEvening).admitted);
    CHECK_FALSE(other.charge(daily.meant_for(midnight - 3h), kEvening).admitted);
    CHECK_FALSE(other.charge(daily.meant_for(midnight + 23h), kEvening).admitted);
}

TEST_CASE("redis: both sides of a moment count, in whatever order they were asked") {
    RedisSubject redis;
    const Asker asker({schedule(2, 1h)});
    REQUIRE(redis.charge(asker.meant_for(kEvening + 2h), kEvening).admitted);
    REQUIRE(redis.charge(asker.meant_for(kEvening + 100min), kEvening).admitted);
    CHECK_FALSE(redis.charge(asker.meant_for(kEvening + 90min), kEvening).admitted);
    CHECK_FALSE(redis.charge(asker.meant_for(kEvening + 110min), kEvening).admitted);
    // With the window that begins an hour before the later one there is room.
    CHECK(redis.charge(asker.meant_for(kEvening + 60min), kEvening).admitted);
    CHECK(redis.charge(asker.meant_for(kEvening + 160min), kEvening).admitted);
}

TEST_CASE("redis: a schedule with a quota of 0 denies, records nothing and names no moment") {
    RedisSubject redis;
    const Asker asker({schedule(0, 1h)});
    const Verdict denied = redis.charge(asker.meant_for(kEvening + 1h), kEvening);
    CHECK_FALSE(denied.admitted);
    CHECK(denied.earliest == 0us);
    CHECK(denied.retry_after == limit::kNever);
    CHECK(redis.charge(asker.meant_for(kEvening, 0), kEvening).admitted);
    CHECK(redis.text({"DBSIZE"}) == "0");
}

TEST_CASE("redis: moments that cannot matter any more are forgotten") {
    RedisSubject redis;
    const Asker asker({schedule(50, 1h)});
    for (int i = 0; i < 20; ++i) {
        REQUIRE(redis.charge(asker.meant_for(kEvening), kEvening + i * 10min).admitted);
    }
    CHECK(std::stoi(redis.text({"ZCARD", only_set(redis)})) <= 7);
}

TEST_CASE("redis: a schedule as full as can be denies, and names the moment that passes") {
    RedisSubject redis;
    constexpr int kMoments = 2'000;
    const Asker asker({schedule(kMoments, 24h)});
    std::vector<RedisSubject::Asked> asked;
    for (int i = 0; i < kMoments; ++i) {
        asked.push_back({asker.meant_for(kEvening + i * 1s), kEvening});
    }
    for (const Verdict& verdict : redis.pipeline(asked)) REQUIRE(verdict.admitted);
    for (int i = 0; i < 10; ++i) {
        const Verdict denied = redis.charge(asker.meant_for(kEvening + i * 200s), kEvening);
        REQUIRE_FALSE(denied.admitted);
        CHECK(denied.earliest == kEvening + 24h);
    }
}

}  // namespace tidegate::test::redis_sets_test
