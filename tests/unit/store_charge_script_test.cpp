#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/charge_script.hpp"
#include "store/lua_scripts.hpp"

namespace tidegate::store {
namespace {

using namespace std::chrono_literals;
using limit::Micros;

limit::Policy policy(std::string name, std::initializer_list<std::int64_t> quotas) {
    limit::Policy policy;
    policy.name = std::move(name);
    policy.key = {limit::Key::user};
    for (std::int64_t quota : quotas) {
        limit::LimitSpec spec;
        spec.quota = quota;
        spec.duration = std::chrono::seconds{1 + policy.limits.size()};
        policy.limits.push_back(*limit::make_limit(spec));
    }
    return policy;
}

// Splits one RESP command; fails the test on anything else.
std::vector<std::string> words_of(std::string_view resp) {
    const auto number = [&](char type) {
        REQUIRE(resp.front() == type);
        const std::size_t end = resp.find("\r\n");
        const std::size_t value = std::stoul(std::string(resp.substr(1, end - 1)));
        resp.remove_prefix(end + 2);
        return value;
    };
    std::vector<std::string> words(number('*'));
    for (std::string& word : words) {
        const std::size_t size = number('$');
        REQUIRE(resp.size() >= size + 2);
        word = resp.substr(0, size);
        resp.remove_prefix(size + 2);
    }
    REQUIRE(resp.empty());
    return words;
}

std::string packed(std::int64_t number) {
    std::string bytes;
    for (int shift = 0; shift < 64; shift += 8) {
        bytes += static_cast<char>(static_cast<std::uint64_t>(number) >> shift);
    }
    return bytes;
}

std::string reply(bool admitted, std::int64_t retry, std::initializer_list<std::int64_t> numbers) {
    std::string bytes(1, admitted ? '\1' : '\0');
    bytes += packed(retry);
    for (std::int64_t number : numbers) bytes += packed(number);
    return bytes;
}

}  // namespace

TEST_CASE("charge_script: the command is one EVALSHA with a key for each item") {
    const auto first = policy("default", {5, 9});
    const auto second = policy("a route/0", {1});
    const std::vector<limit::ChargeItem> items{
        {&first, "ip:192.0.2.1"}, {&first, "user:a"}, {&second, "user:a"}};
    std::string out = "before";
    append_charge_command({items, 3}, "tg:", std::nullopt, out);
    REQUIRE(out.starts_with("before"));
    const auto words = words_of(std::string_view(out).substr(6));
    REQUIRE(words.size() == 7);
    CHECK(words[0] == "EVALSHA");
    CHECK(words[1] == kchargeScript.sha1);
    CHECK(words[2] == "3");
    CHECK(words[3] == "tg:1:default:{ip:192.0.2.1}");
    CHECK(words[4] == "tg:1:default:{user:a}");
    CHECK(words[5] == "tg:1:a%20route/0:{user:a}");
    CHECK(words[6].substr(0, 10) == packed(3) + "\x02\x02");  // the limits of a run are sent once
}

TEST_CASE("charge_script: a clock is one more argument, in decimal microseconds") {
    const auto some = policy("p", {5});
    const std::vector<limit::ChargeItem> items{{&some, "user:a"}};
    std::string out;
    append_charge_command({items, 1}, "", Micros{1'700'000'000'123'456}, out);
    CHECK(words_of(out).back() == "1700000000123456");
}

TEST_CASE("charge_script: no policy's name can pass for another with an identifier") {
    const std::vector<std::string> names{"a", "a:", "a:{x}", "a%3A", "a\n", "{a}", "\xc3\xa9"};
    std::vector<std::string> keys;
    for (const std::string& name : names) {
        const auto some = policy(name, {5});
        const std::vector<limit::ChargeItem> items{{&some, "x"}};
        std::string out;
        append_charge_command({items, 1}, "tg:", std::nullopt, out);
        keys.push_back(words_of(out)[3]);
        CHECK(keys.back().find('{') == keys.back().size() - 3);
        CHECK(keys.back().find_first_of(" \r\n") == std::string::npos);
    }
    std::sort(keys.begin(), keys.end());
    CHECK(std::unique(keys.begin(), keys.end()) == keys.end());
}

TEST_CASE("charge_script: an admission tells what is left after it") {
    const auto some = policy("p", {5, 9});
    const std::vector<limit::ChargeItem> items{{&some, "user:a"}};
    limit::Verdict verdict;
    REQUIRE(read_charge_reply(reply(true, 0, {5, 1'000, 3, 250}), {items, 2}, verdict));
    CHECK(verdict.admitted);
    CHECK(verdict.retry_after == 0us);
    CHECK(verdict.limits[0].remaining == 3);
    CHECK(verdict.limits[0].next_unit == 1'000us);
    CHECK(verdict.limits[1].remaining == 1);
    CHECK(verdict.limits[1].next_unit == 250us);
}

TEST_CASE("charge_script: a denial tells who denied, what is left and when it passes") {
    const auto some = policy("p", {5, 9});
    const std::vector<limit::ChargeItem> items{{&some, "user:a"}};
    limit::Verdict verdict;
    REQUIRE(read_charge_reply(reply(false, 777, {1, 1'000, 9, 250}), {items, 2}, verdict));
    CHECK_FALSE(verdict.admitted);
    CHECK(verdict.retry_after == 777us);
    CHECK(verdict.limits[0].denied);
    CHECK(verdict.limits[0].remaining == 1);
    CHECK_FALSE(verdict.limits[1].denied);
    CHECK(verdict.limits[1].next_unit == 0us);  // it holds nothing
    REQUIRE(read_charge_reply(reply(false, -1, {-4, 1'000, 9, 250}), {items, 1}, verdict));
    CHECK(verdict.retry_after == limit::kNever);
    CHECK(verdict.limits[0].remaining == 0);
}

TEST_CASE("charge_script: a reply that contradicts itself or the charge is refused") {
    const auto some = policy("p", {5, 9});
    const std::vector<limit::ChargeItem> items{{&some, "user:a"}};
    const limit::Charge charge{items, 2};
    limit::Verdict verdict;
    CHECK_FALSE(read_charge_reply("", charge, verdict));
    CHECK_FALSE(read_charge_reply(reply(true, 0, {5, 0}), charge, verdict));
    CHECK_FALSE(read_charge_reply(reply(true, 0, {5, 0, 9, 0}) + "x", charge, verdict));
    CHECK_FALSE(read_charge_reply(reply(true, 0, {1, 0, 9, 0}), charge, verdict));
    CHECK_FALSE(read_charge_reply(reply(true, 0, {6, 0, 9, 0}), charge, verdict));
    CHECK_FALSE(read_charge_reply(reply(true, 1, {5, 0, 9, 0}), charge, verdict));
    CHECK_FALSE(read_charge_reply(reply(false, 1, {5, 0, 9, 0}), charge, verdict));
    CHECK_FALSE(read_charge_reply(reply(false, 0, {1, 0, 9, 0}), charge, verdict));
    CHECK_FALSE(read_charge_reply(reply(false, -2, {1, 0, 9, 0}), charge, verdict));
    CHECK_FALSE(read_charge_reply(reply(true, 0, {5, -1, 9, 0}), charge, verdict));
    std::string two = reply(true, 0, {5, 0, 9, 0});
    two[0] = 2;
    CHECK_FALSE(read_charge_reply(two, charge, verdict));
}

TEST_CASE("charge_script: rubbish of every length is read within its bounds") {
    const auto some = policy("p", {5, 9, 1});
    const std::vector<limit::ChargeItem> items{{&some, "user:a"}, {&some, "user:b"}};
    const limit::Charge charge{items, 1};
    std::mt19937 random(7);
    limit::Verdict verdict;
    for (int i = 0; i < 20'000; ++i) {
        // Sized exactly, on the heap: a read past the end is a fault under the sanitizer.
        std::vector<char> bytes(i % 130);
        for (char& byte : bytes) {
            byte = random() % 3 == 0 ? static_cast<char>(random()) : static_cast<char>(0);
        }
        if (!read_charge_reply({bytes.data(), bytes.size()}, charge, verdict)) continue;
        REQUIRE(verdict.limits.size() == 6);
        for (const limit::LimitVerdict& one : verdict.limits) REQUIRE(one.remaining >= 0);
    }
}

}  // namespace tidegate::store
