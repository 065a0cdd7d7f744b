// What only the script in Redis can get wrong: its keys, their expiry, the server's clock, values
// that are none of ours.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "store/stores.hpp"

namespace tidegate::test {
namespace {

using namespace std::chrono_literals;
using limit::Verdict;

Micros server_time(RedisSubject& redis) {
    const std::string text =
        redis.text({"EVAL",
                    "local t = redis.call('TIME') return string.format('%.0f', t[1] * "
                    "1000000 + t[2])",
                    "0"});
    return Micros{std::stoll(text)};
}

std::int64_t ttl_ms(RedisSubject& redis, const std::string& key) {
    return std::stoll(redis.text({"PTTL", key}));
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
    // The server's own clock is what is tested: there is nothing to wait on but time.
    std::this_thread::sleep_for(denied.retry_after + 1ms);
    CHECK(redis.charge_by_server_clock(ask).admitted);
}

TEST_CASE("redis: keys carry prefix, version, policy and the identifier as hash tag") {
    RedisSubject redis;
    const auto some = policy("a route/0 {x}:%", {sliding(9, 1s)});
    REQUIRE(redis.charge(Ask(some, {"user:a"}), kStart).admitted);
    CHECK(redis.text({"RANDOMKEY"}) == "t:1:a%20route/0%20%7Bx%7D%3A%25:{user:a}");
}

TEST_CASE("redis: fault 1: every key has an expiry, and it covers what is counted") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(50, 100ms), sliding(50, 1h), fixed(9, 1s)});
    const std::string key = "t:1:p:{user:a}";
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
    const std::string key = "t:1:p:{user:a}";
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
    const std::string before = redis.text({"GET", "t:1:p:{user:a}"});
    CHECK_FALSE(redis.charge(Ask(some, {"user:a", "user:b"}), kStart + 10ms).admitted);
    CHECK_FALSE(redis.charge(Ask(some, {"user:a"}, 4), kStart + 10s).admitted);
    CHECK(redis.charge(Ask(some, {"user:a"}, 0), kStart + 10s).admitted);
    CHECK(redis.text({"GET", "t:1:p:{user:a}"}) == before);
    CHECK(redis.text({"DBSIZE"}) == "1");
}

TEST_CASE("redis: a record of limits no longer asked for goes once it has expired") {
    RedisSubject redis;
    const auto before = policy("p", {sliding(9, 1s)});
    const auto after = policy("p", {sliding(9, 1min)});
    const std::string key = "t:1:p:{user:a}";
    REQUIRE(redis.charge(Ask(before, {"user:a"}), kStart).admitted);
    REQUIRE(redis.charge(Ask(after, {"user:a"}), kStart + 500ms).admitted);
    const std::string both = redis.text({"STRLEN", key});
    REQUIRE(redis.charge(Ask(after, {"user:a"}), kStart + 501ms).admitted);
    CHECK(redis.text({"STRLEN", key}) == both);
    REQUIRE(redis.charge(Ask(after, {"user:a"}), kStart + 30s).admitted);
    CHECK(std::stoi(redis.text({"STRLEN", key})) < std::stoi(both));
}

TEST_CASE("redis: what changes of limits leave behind is bounded") {
    RedisSubject redis;
    for (int i = 0; i < 100; ++i) {
        const auto some = policy("p", {sliding(9, 1h + i * 1s)});
        REQUIRE(redis.charge(Ask(some, {"user:a"}), kStart).admitted);
    }
    CHECK(std::stoi(redis.text({"STRLEN", "t:1:p:{user:a}"})) < 33 * 40);
}

TEST_CASE("redis: a server clock put back by more than a window locks nobody out") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(2, 10s), sliding(5, 1min)});
    const Ask ask(some, {"user:a"});
    // As if the server's clock had been an hour ahead when these came.
    const Micros ahead = server_time(redis) + 1h;
    REQUIRE(redis.charge(Ask(some, {"user:a"}, 2), ahead).admitted);
    const Verdict denied = redis.charge_by_server_clock(ask);
    CHECK_FALSE(denied.admitted);
    CHECK(denied.retry_after <= 10s);  // the count stays, its labels have moved; by a denial too
    CHECK(redis.charge(ask, server_time(redis) + 10s).admitted);
    const std::int64_t ttl = ttl_ms(redis, "t:1:p:{user:a}");
    CHECK(ttl > 60'000);
    CHECK(ttl < 75'000);
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

TEST_CASE("redis: a value that is no state is an error that names the key, and does not last") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(2, 10s)});
    const Ask ask(some, {"user:a"});
    const std::string key = "t:1:p:{user:a}";
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
    redis.text({"SET", "t:1:p:{user:b}", "rubbish"});
    CHECK(redis.error(Ask(some, {"user:a", "user:b"}), kStart) ==
          "TIDEGATE unreadable state in t:1:p:{user:b}");
    CHECK(redis.text({"EXISTS", "t:1:p:{user:a}"}) == "0");
}

TEST_CASE("redis: a key of another type is replaced by a state") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(2, 10s)});
    redis.text({"LPUSH", "t:1:p:{user:a}", "1"});
    CHECK(redis.charge(Ask(some, {"user:a"}), kStart).limits[0].remaining == 1);
    CHECK(redis.charge(Ask(some, {"user:a"}), kStart).limits[0].remaining == 0);
    CHECK(ttl_ms(redis, "t:1:p:{user:a}") > 9'000);
}

TEST_CASE("redis: flipped bytes in a state never stop the script for good") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(5, 10s, {.precision = 1s}), fixed(9, 1min)});
    const Ask ask(some, {"user:a"});
    const std::string key = "t:1:p:{user:a}";
    for (int i = 0; i < 4; ++i) REQUIRE(redis.charge(ask, kStart + i * 1s).admitted);
    const std::string good = redis.text({"GET", key});
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 0x55);
        redis.text({"SET", key, bad, "PX", "60000"});
        const std::string error = redis.error(Ask(some, {"user:a"}, 2), kStart + 5s);
        CHECK((error.empty() || error.starts_with("TIDEGATE unreadable state")));
    }
}

}  // namespace tidegate::test
