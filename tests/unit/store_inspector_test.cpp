#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/charge_script.hpp"
#include "store/inspector.hpp"
#include "store/scripts.hpp"
#include "store_asking.hpp"
#include "unit/store_asking.hpp"
#include "unit/store_redis.hpp"

namespace tidegate::store::inspector_test {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::ChargeItem;
using test::made;
using test::policy;
using test::spec_of;
using test::window;
using test::Words;

namespace {

constexpr std::int64_t kNow = 1'700'000'000'000'000;

std::string packed(std::initializer_list<std::int64_t> numbers) {
    std::string out;
    for (const std::int64_t number : numbers) append_double(number, out);
    return out;
}

std::string packed_raw(double number) {
    std::string out;
    append_packed(std::bit_cast<std::uint64_t>(number), out);
    return out;
}

bool is_understood(const std::string& reply, std::span<const ChargeItem> items) {
    Counts counts;
    return read_counts_reply(reply, items, counts);
}

}  // namespace

TEST_CASE("counts script: a reply is understood whole, and neither cut nor with more behind it") {
    const auto some = policy("p", {window(5, 1s), made(spec_of(Algorithm::schedule, 2, 1h))});
    const std::vector<ChargeItem> items{{&some, "user:a"}};
    std::string reply = packed({kNow, 3, kNow + 10, kNow + 20, 0, kNow, 0, 0, 0}) + '\1';
    append_packed(std::uint32_t{0x01020304}, reply);
    reply += packed({kNow + 30});
    reply += packed({kNow});
    append_packed(std::uint16_t{1}, reply);
    const std::string member = std::to_string(kNow + 7) + ":2";
    reply += static_cast<char>(member.size());
    reply += member;

    Counts counts;
    REQUIRE(read_counts_reply(reply, items, counts));
    CHECK(counts.now == Micros{kNow});
    const LimitCount& of_window = counts.items.at(0).limits.at(0);
    CHECK(of_window.counted == 3);
    CHECK(of_window.remaining == 2);
    CHECK(of_window.next_unit == 10us);
    CHECK(of_window.all_free == 20us);
    CHECK_FALSE(of_window.denied);
    const LimitCount& of_schedule = counts.items[0].limits.at(1);
    CHECK(of_schedule.counted == 2);
    CHECK(of_schedule.moments == std::vector{Micros{kNow + 7}, Micros{kNow + 7}});
    CHECK(counts.items[0].others == std::vector{OtherCount{0x01020304, 30us}});
    for (std::size_t size = 0; size < reply.size(); ++size) {
        CHECK_FALSE(is_understood(reply.substr(0, size), items));
    }
    CHECK_FALSE(is_understood(reply + '\0', items));
}

TEST_CASE("counts script: a reply with impossible numbers is refused") {
    const auto windows = policy("p", {window(5, 1s)});
    const auto buckets = policy("p", {made(spec_of(Algorithm::gcra, 5, 1s))});
    const std::vector<ChargeItem> of_window{{&windows, "user:a"}};
    const std::vector<ChargeItem> of_bucket{{&buckets, "user:a"}};
    const auto reply = [](const std::string& first) {
        return packed({kNow}) + first + packed({0, 0, 0}) + '\0';
    };
    REQUIRE(is_understood(reply(packed({3})), of_window));
    for (const double number :
         {-1.0, 0.5, 4294967296.0, 1e300, std::numeric_limits<double>::infinity(), std::nan("")}) {
        CHECK_FALSE(is_understood(reply(packed_raw(number)), of_window));
    }
    // The parts of a bucket's time are fewer than its quota.
    CHECK(is_understood(reply(packed({4})), of_bucket));
    CHECK_FALSE(is_understood(reply(packed({5})), of_bucket));
    CHECK_FALSE(is_understood(packed({-1, 3, 0, 0, 0}) + '\0', of_window));
}

TEST_CASE(
    "counts script: each state is forgotten once, with all sets of moments and no set of slots") {
    auto some = policy("p", {made(spec_of(Algorithm::concurrency, 5, 0s)),
                             made(spec_of(Algorithm::schedule, 2, 1h))});
    some.tiers.push_back({"pro", {made(spec_of(Algorithm::schedule, 5, 24h))}, 1});
    const std::vector<ChargeItem> items{{&some, "user:a"}, {&some, "user:a", &some.tiers[0]}};
    std::string command;
    append_forget_command(items, "tg:", command);
    CHECK(command.starts_with("*6\r\n$7\r\nEVALSHA\r\n$40\r\n" + std::string(forget_script().sha1) +
                              "\r\n$1\r\n3\r\n"));
    CHECK(read_forget_reply("100", items) == std::vector{true, true});
    CHECK(read_forget_reply("001", items) == std::vector{true, true});
    CHECK(read_forget_reply("000", items) == std::vector{false, false});
    for (const char* reply : {"", "00", "0000", "002", "00\n"}) {
        CHECK_FALSE(read_forget_reply(reply, items));
    }
}

TEST_CASE("counts script: each policy is described by its own state and sets") {
    auto first = policy("p", {window(5, 1s), made(spec_of(Algorithm::schedule, 2, 1h))});
    first.tiers.push_back({"pro", {made(spec_of(Algorithm::schedule, 5, 24h))}, 1});
    const auto second = policy("q", {window(5, 1s)});
    const auto third = policy("r", {made(spec_of(Algorithm::schedule, 2, 1h))});
    const std::vector<ChargeItem> items{{&first, "user:a"},
                                        {&first, "user:a", &first.tiers[0]},
                                        {&second, "user:a"},
                                        {&third, "user:a"}};
    // The states of p, q and r, then two sets of p and one of r.
    const auto of = [&](const char* reply) { return read_forget_reply(reply, items); };
    CHECK(of("000000") == std::vector{false, false, false, false});
    CHECK(of("100000") == std::vector{true, true, false, false});
    CHECK(of("010000") == std::vector{false, false, true, false});
    CHECK(of("000010") == std::vector{true, true, false, false});
    CHECK(of("000001") == std::vector{false, false, false, true});
}

TEST_CASE("inspector: a reset of many policies is several commands with one answer") {
    test::RedisFixture redis;
    redis.run();
    // Of each command the last key was there.
    std::vector<std::size_t> asked;
    redis.server.evalsha = [&](const Words& words) {
        asked.push_back(std::stoul(words.at(2)));
        std::string letters(asked.back(), '0');
        letters.back() = '1';
        return "$" + std::to_string(letters.size()) + "\r\n" + letters + "\r\n";
    };

    const auto some = test::policy("p", {test::window(5, 1s)});
    const std::vector<limit::Policy> policies(2 * kItemsCountedMax + 44, some);
    std::vector<limit::ChargeItem> items;
    for (const limit::Policy& policy : policies) items.push_back({&policy, "user:a"});
    std::optional<std::vector<bool>> forgotten;
    Inspector({redis.client, "tg:"}).forget(items, [&](auto answer) {
        if (answer) forgotten = std::move(*answer);
    });
    CHECK(redis.wait([&] { return forgotten.has_value(); }));
    CHECK(asked == std::vector<std::size_t>{kItemsCountedMax, kItemsCountedMax, 44});
    std::vector<bool> expected(items.size());
    expected[kItemsCountedMax - 1] = expected[2 * kItemsCountedMax - 1] = true;
    expected[items.size() - 1] = true;
    CHECK(forgotten == expected);
    redis.stop();
}

}  // namespace tidegate::store::inspector_test
