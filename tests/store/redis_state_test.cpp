// What stays in Redis: keys, their expiry, records of other limits, values that Tidegate did not
// write.
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>

#include "store/redis_asking.hpp"

namespace tidegate::test::redis_state_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Limit;
using limit::LimitSpec;

LimitSpec by_status(LimitSpec spec) {
    spec.count = limit::Count::by_status;
    spec.statuses = {401};
    return spec;
}

// Limits of every algorithm that is kept in a state, and those with sorted sets.
std::vector<Limit> packed_limits() {
    return {sliding(50, 10s, {.precision = 1s}), made(spec_of(Algorithm::sliding_log, 50, 1min)),
            made(by_status(spec_of(Algorithm::gcra, 50, 5min))),
            made(spec_of(Algorithm::leaky_bucket, 50, 4min))};
}
std::vector<Limit> all_limits() {
    auto limits = packed_limits();
    limits.push_back(made(spec_of(Algorithm::schedule, 50, 1h)));
    limits.push_back(made(spec_of(Algorithm::concurrency, 50, 0s)));
    return limits;
}

// As many as the loop of the fast path is for.
std::vector<Limit> many_windows() {
    std::vector<Limit> limits;
    for (int i = 1; i <= 9; ++i) limits.push_back(sliding(50, i * 10s, {.precision = i * 1s}));
    return limits;
}

// "" if every key lives on, each at least as long as `known` says it did; then as it does now.
std::string shortened(RedisSubject& redis, std::map<std::string, std::int64_t>& known) {
    const Reply keys = redis.connection().command({"KEYS", "*"});
    for (std::size_t i = 0; i < keys->elements; ++i) {
        const std::string key(keys->element[i]->str, keys->element[i]->len);
        const std::int64_t ttl = ttl_ms(redis, key);
        constexpr std::int64_t kOfThisTest = 5'000;  // what it took itself
        if (ttl < known[key] - kOfThisTest) {
            return key + " lives " + std::to_string(ttl) + " ms instead of " +
                   std::to_string(known[key]);
        }
        known[key] = std::max(known[key], ttl);
    }
    return {};
}

// Charges and expects a verdict, or the one possible error: no other error, and nothing half done.
void check_survived(RedisSubject& redis, const limit::Charge& charge, Micros now) {
    const std::string error = redis.error(charge, now);
    CAPTURE(error);
    CHECK((error.empty() || error.starts_with("TIDEGATE unreadable state in t:4:p:{user:")));
}

}  // namespace

TEST_CASE("redis: keys carry prefix, version, policy and the identifier as hash tag") {
    RedisSubject redis;
    const auto some = policy("a route/0 {x}:%", {sliding(9, 1s)});
    REQUIRE(redis.charge(Ask(some, {"user:a"}), kStart).admitted);
    CHECK(redis.text({"RANDOMKEY"}) == "t:4:a%20route/0%20%7Bx%7D%3A%25:{user:a}");
}

TEST_CASE("redis: fault 1: every key has an expiry, and it covers what is counted") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(50, 100ms), sliding(50, 1h), fixed(9, 1s)});
    const std::string key = "t:4:p:{user:a}";
    // The newest sub-bucket of the hour began with the minute.
    const std::int64_t needed = (1h - kStart % 1min) / 1ms;
    for (int i = 0; i < 8; ++i) {
        REQUIRE(redis.charge(Ask(some, {"user:a"}), kStart + i * 7min).admitted);
        const std::int64_t ttl = ttl_ms(redis, key);
        CHECK(ttl > needed - 5'000);  // less only by what this test itself took
        CHECK(ttl < needed + 2'000);
    }
}

TEST_CASE("redis: fault 1: a request of short limits shortens no expiry") {
    RedisSubject redis;
    const auto with_long = policy("p", {sliding(3, 1h)});
    const auto with_short = policy("p", {sliding(5, 1s)});
    const std::string key = "t:4:p:{user:a}";
    REQUIRE(redis.charge(Ask(with_long, {"user:a"}), kStart).admitted);
    for (int i = 0; i < 4; ++i) {
        REQUIRE(redis.charge(Ask(with_short, {"user:a"}), kStart + i * 700ms).admitted);
        CHECK(ttl_ms(redis, key) > (1h - kStart % 1min) / 1ms - 5'000);
    }
}

TEST_CASE("redis: a denial and a cost of 0 write nothing") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(2, 1s), sliding(5, 1h)});
    CHECK(redis.charge(Ask(some, {"user:b"}, 0), kStart).admitted);
    CHECK_FALSE(redis.charge(Ask(some, {"user:b"}, 3), kStart).admitted);
    CHECK(redis.text({"DBSIZE"}) == "0");
    REQUIRE(redis.charge(Ask(some, {"user:a"}, 2), kStart).admitted);
    const std::string before = redis.text({"GET", "t:4:p:{user:a}"});
    CHECK_FALSE(redis.charge(Ask(some, {"user:a", "user:b"}), kStart + 10ms).admitted);
    CHECK_FALSE(redis.charge(Ask(some, {"user:a"}, 4), kStart + 10s).admitted);
    CHECK(redis.charge(Ask(some, {"user:a"}, 0), kStart + 10s).admitted);
    CHECK(redis.text({"GET", "t:4:p:{user:a}"}) == before);
    CHECK(redis.text({"DBSIZE"}) == "1");
}

TEST_CASE("redis: a record of limits no longer asked for goes once it has expired") {
    RedisSubject redis;
    const auto before = policy("p", {sliding(9, 1s)});
    const auto after = policy("p", {sliding(9, 1min)});
    const std::string key = "t:4:p:{user:a}";
    REQUIRE(redis.charge(Ask(before, {"user:a"}), kStart).admitted);
    REQUIRE(redis.charge(Ask(after, {"user:a"}), kStart + 500ms).admitted);
    const std::string both = redis.text({"STRLEN", key});
    REQUIRE(redis.charge(Ask(after, {"user:a"}), kStart + 501ms).admitted);
    CHECK(redis.text({"STRLEN", key}) == both);
    REQUIRE(redis.charge(Ask(after, {"user:a"}), kStart + 30s).admitted);
    CHECK(std::stoi(redis.text({"STRLEN", key})) < std::stoi(both));
}

TEST_CASE("redis: records that changes of limits leave behind are bounded") {
    RedisSubject redis;
    for (int i = 0; i < 100; ++i) {
        const auto some = policy("p", {sliding(9, 1h + i * 1s)});
        REQUIRE(redis.charge(Ask(some, {"user:a"}), kStart).admitted);
    }
    CHECK(std::stoi(redis.text({"STRLEN", "t:4:p:{user:a}"})) < 33 * 40);
}

TEST_CASE("redis: a value that is no state is an error that names the key, and does not last") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(2, 10s)});
    const Ask ask(some, {"user:a"});
    const std::string key = "t:4:p:{user:a}";
    REQUIRE(redis.charge(ask, kStart).admitted);
    const std::string good = redis.text({"GET", key});
    std::vector<std::string> bad{
        "", "x", "hello, world", std::string(100, '\xff'), std::string(46, '\0'), good + "x"};
    for (std::size_t length = 1; length < good.size(); ++length) {
        bad.push_back(good.substr(0, length));
    }
    for (const std::string& value : bad) {
        CAPTURE(value.size());
        redis.text({"SET", key, value});
        // A minute later, so that not even a prefix with the right numbers is taken for current.
        CHECK(redis.error(ask, kStart + 1min) == "TIDEGATE unreadable state in " + key);
        CHECK(ttl_ms(redis, key) > 9'000);
        CHECK(redis.text({"GET", key}) == value);
    }
}

TEST_CASE("redis: a bad value among good ones stops the charge before its first write") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(2, 10s)});
    redis.text({"SET", "t:4:p:{user:b}", "rubbish"});
    CHECK(redis.error(Ask(some, {"user:a", "user:b"}), kStart) ==
          "TIDEGATE unreadable state in t:4:p:{user:b}");
    CHECK(redis.text({"EXISTS", "t:4:p:{user:a}"}) == "0");
}

TEST_CASE("redis: a key of another type is an error by every way, and nothing replaces it") {
    RedisSubject redis;
    const std::string key = "t:4:p:{user:b}";
    // Short, middle and long.
    const std::vector<std::vector<Limit>> lists{
        {sliding(2, 10s)}, many_windows(), packed_limits(), all_limits()};
    for (const std::vector<Limit>& limits : lists) {
        CAPTURE(limits.size());
        redis.text({"FLUSHALL"});
        redis.text({"LPUSH", key, "1"});
        const auto some = policy("p", limits);
        const std::string expected = "TIDEGATE unreadable state in " + key;
        CHECK(redis.error(Ask(some, {"user:b"}), kStart) == expected);
        CHECK(redis.error(Ask(some, {"user:a", "user:b"}), kStart) == expected);
        CHECK(redis.text({"EXISTS", "t:4:p:{user:a}"}) == "0");
        CHECK(redis.text({"TYPE", key}) == "list");
        CHECK(ttl_ms(redis, key) > 80'000'000);  // it does not last
        CHECK(ttl_ms(redis, key) <= 86'400'000);
    }
}

TEST_CASE("redis: flipped bytes in a state never stop the script for good") {
    RedisSubject redis;
    const std::string key = "t:4:p:{user:a}";
    const auto windows = policy("p", {sliding(50, 10s, {.precision = 1s}), fixed(90, 1min)});
    const auto every = policy("p", packed_limits());
    const auto many = policy("p", many_windows());
    for (const limit::Policy* some : {&windows, &every, &many}) {
        redis.text({"DEL", key});
        const Ask ask(*some, {"user:a"});
        for (int i = 0; i < 4; ++i) REQUIRE(redis.charge(ask, kStart + i * 1s).admitted);
        const std::string good = redis.text({"GET", key});
        for (std::size_t at = 0; at < good.size(); ++at) {
            for (const char flip : {'\x01', '\x40', '\x55', '\x80', '\xff'}) {
                CAPTURE(at);
                CAPTURE(static_cast<int>(flip));
                std::string bad = good;
                bad[at] = static_cast<char>(bad[at] ^ flip);
                for (Micros later : {Micros{3s}, Micros{9s}, Micros{11s}, Micros{1h}}) {
                    redis.text({"SET", key, bad, "PX", "60000"});
                    check_survived(redis, Ask(*some, {"user:a"}, 2), kStart + later);
                    check_survived(redis, Ask(*some, {"user:a"}), kStart + later);
                }
            }
        }
    }
}

TEST_CASE("redis: a state of every algorithm that is cut or too long is an error") {
    RedisSubject redis;
    const std::string key = "t:4:p:{user:a}";
    const std::vector<std::vector<Limit>> lists{
        packed_limits(), many_windows(), {sliding(50, 10s, {.precision = 1s})}};
    for (const std::vector<Limit>& limits : lists) {
        redis.text({"FLUSHALL"});
        const auto some = policy("p", limits);
        for (int i = 0; i < 4; ++i) {
            REQUIRE(redis.charge(Ask(some, {"user:a"}), kStart + i * 1s).admitted);
        }
        const std::string good = redis.text({"GET", key});
        std::vector<std::string> bad{good + '\0', good + good};
        for (std::size_t size = 0; size < good.size(); ++size) bad.push_back(good.substr(0, size));
        for (const std::string& value : bad) {
            CAPTURE(limits.size());
            CAPTURE(value.size());
            redis.text({"SET", key, value});
            CHECK(redis.error(Ask(some, {"user:b", "user:a"}), kStart + 5s) ==
                  "TIDEGATE unreadable state in " + key);
            CHECK(redis.text({"EXISTS", "t:4:p:{user:b}"}) == "0");
            CHECK(ttl_ms(redis, key) > 9'000);
        }
    }
}

TEST_CASE("redis: every key that is left behind has an expiry, and none is shortened") {
    RedisSubject redis;
    const auto all = policy("p", all_limits());
    const auto fewer = policy("p", {all.limits[2], all.limits[5], all.limits[4]});
    const auto windows = policy("p", {all.limits[0], fixed(50, 1h)});
    std::map<std::string, std::int64_t> known;
    std::mt19937 random(7);
    std::vector<limit::ChargeItem> items{{&all, "user:a"}, {&all, "user:b"}};
    limit::Receipt last{};
    for (int step = 0; step < 300; ++step) {
        // All within a second: what counts as shortened is then not the time that has passed.
        const Micros now = kStart + step * 3ms;
        const limit::Policy* const some = step % 7 == 0 ? &fewer : step % 5 == 0 ? &windows : &all;
        for (limit::ChargeItem& item : items) item.policy = some;
        const limit::Charge charge{
            items, 1, {1, random() % 20}, now + static_cast<int>(random() % 7) * 1h};
        const limit::Verdict verdict = redis.charge(charge, now);
        if (verdict.admitted) last = verdict.receipt;
        if (step % 3 == 0) renew(redis, charge, now);
        if (step % 4 == 0 && !last.generations.empty()) {
            redis.give_back({charge, &last, limit::Refund::Of::status, 500}, now);
        }
        REQUIRE(shortened(redis, known) == "");
    }
    // Two states, a schedule and slots each.
    CHECK(known.size() == 6);
    for (const auto& [key, ttl] : known) {
        CAPTURE(key);
        CHECK(ttl > 9'000);
    }
    // The latest moment is hours ahead, and its window after it.
    CHECK(known["t:4:p:{user:a}"] > 6 * 3'600'000);
}

TEST_CASE("redis: tiers and configurations of one policy keep each other's counts") {
    RedisSubject redis;
    const std::vector<Limit> limits = all_limits();
    auto some = policy("p", limits);
    const std::vector<Limit> turned(limits.rbegin(), limits.rend());
    some.tiers = {{"turned", turned, 1},
                  {"others", {sliding(9, 3s), made(spec_of(Algorithm::gcra, 9, 7s))}, 2}};
    const auto ask = [&](const limit::Tier* tier, std::int64_t cost) {
        const limit::ChargeItem item{&some, "user:a", tier};
        return redis.charge({{&item, 1}, cost, {1, 1}, kStart + 1min}, kStart);
    };
    REQUIRE(ask(nullptr, 3).admitted);
    const limit::Verdict before = ask(nullptr, 0);
    REQUIRE(ask(&some.tiers[1], 5).admitted);
    REQUIRE(ask(&some.tiers[1], 4).admitted);
    CHECK_FALSE(ask(&some.tiers[1], 1).admitted);
    CHECK(written(ask(nullptr, 0)) == written(before));
    // The same limits in another order are the same counts.
    const limit::Verdict other = ask(&some.tiers[0], 2);
    REQUIRE(other.limits.size() == limits.size());
    const limit::Verdict after = ask(nullptr, 0);
    for (std::size_t i = 0; i < limits.size(); ++i) {
        CAPTURE(limits[i].name);
        CHECK(after.limits[i].remaining == other.limits[limits.size() - 1 - i].remaining);
        const bool is_slot = limits[i].algorithm == Algorithm::concurrency;
        CHECK(before.limits[i].remaining - after.limits[i].remaining == (is_slot ? 0 : 2));
    }
    CHECK_FALSE(ask(&some.tiers[1], 1).admitted);
}

TEST_CASE("redis: records of other limits, of every algorithm, are bounded, and the newest count") {
    RedisSubject redis;
    for (int i = 0; i < 60; ++i) {
        const auto some = policy("p", {made(spec_of(Algorithm::gcra, 9, 1h + i * 1s)),
                                       made(spec_of(Algorithm::sliding_log, 9, 1h + i * 1s)),
                                       made(spec_of(Algorithm::schedule, 9, 1h + i * 1s))});
        const limit::ChargeItem item{&some, "user:a"};
        const limit::Charge charge{{&item, 1}, 9, {}, kStart};
        REQUIRE(redis.charge(charge, kStart + i * 1ms).admitted);
        REQUIRE_FALSE(redis.charge(charge, kStart + i * 1ms).admitted);
    }
    CHECK(taken_apart(redis.text({"GET", "t:4:p:{user:a}"})).records.size() <= 35);
}

}  // namespace tidegate::test::redis_state_test
