#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/refund.hpp"
#include "store/scripts.hpp"
#include "store_asking.hpp"

namespace tidegate::store::refund_test {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::ChargeItem;
using limit::Limit;
using limit::LimitSpec;
using limit::Micros;
using limit::Refund;
using test::doubles;
using test::made;
using test::packed;
using test::policy;
using test::spec_of;
using test::window;
using test::words_of;

namespace {

Limit by_status(Algorithm algorithm, std::int64_t quota, Micros duration) {
    LimitSpec spec = spec_of(algorithm, quota, duration);
    spec.count = limit::Count::by_status;
    spec.statuses = {401, 403};
    return made(spec);
}

// The words of the command; none if there is nothing to give back.
std::vector<std::string> refund_words(const Refund& refund, std::optional<Micros> clock = {}) {
    std::string out;
    const bool any = append_refund_command(refund, "tg:", clock, out);
    REQUIRE(any == !out.empty());
    return any ? words_of(out) : std::vector<std::string>{};
}

}  // namespace

TEST_CASE("refund_script: only limits that do not keep the status are given back") {
    const Limit failures = by_status(Algorithm::sliding_window, 5, 1min);
    const auto some = policy("p", {window(9, 1s), failures});
    const ChargeItem item{&some, "user:a"};
    const limit::Receipt receipt{Micros{1'700'000'000'123'456}, {77}};
    Refund refund{{{&item, 1}, 2}, &receipt, Refund::Of::status, 200};
    const auto words = refund_words(refund);
    REQUIRE(words.size() == 5);
    CHECK(words[0] == "EVALSHA");
    CHECK(words[1] == give_back_script().sha1);
    CHECK(words[2] == "1");
    CHECK(words[3] == "tg:4:p:{user:a}");
    CHECK(words[4] == '\x01' + doubles(77) + '\x01' + packed(failures.id) + 'w' +
                          doubles(1'000'000, 60'000'000, 2, 1'700'000'000'123'456));
    refund.status = 401;
    CHECK(refund_words(refund).empty());
}

TEST_CASE("refund_script: each algorithm gets the arguments that giving back needs") {
    LimitSpec opening = spec_of(Algorithm::fixed_window, 5, 10s);
    opening.anchor = limit::Anchor::first_request;
    const Limit first_request = made(opening);
    opening.duration = 0s;
    opening.anchor = limit::Anchor::utc_month;
    const Limit month = made(opening);
    const Limit log = made(spec_of(Algorithm::sliding_log, 5, 10s));
    const Limit gcra = made(spec_of(Algorithm::gcra, 3, 1s));
    const Limit leaky = made(spec_of(Algorithm::leaky_bucket, 3, 1s));
    const auto some = policy("p", {first_request, month, log, gcra, leaky});
    const ChargeItem item{&some, "user:a"};
    const limit::Receipt receipt{1s, {1}};
    const Refund refund{{{&item, 1}, 2}, &receipt, Refund::Of::all, 0};
    const auto words = refund_words(refund, Micros{9});
    REQUIRE(words.size() == 6);
    CHECK(words[4] ==
          '\x01' + doubles(1) + '\x05' +                                               //
              packed(first_request.id) + 'w' + doubles(0, 10'000'000, 2, 1'000'000) +  //
              packed(month.id) + 'w' +
              doubles(-2'678'400'000'000, 5'097'600'000'000, 2, 1'000'000) +                  //
              packed(log.id) + 'l' + doubles(1, 10'000'000, 2, 1'000'000) +                   //
              packed(gcra.id) + 'g' + doubles(3, 666'666, 2, 1'000'000) + packed(leaky.id) +  //
              'k' + doubles(3, 666'666, 2, 1'000'000));
    CHECK(words[5] == "9");
}

TEST_CASE("refund_script: a place in a line is given back alone") {
    const Limit leaky = made(spec_of(Algorithm::leaky_bucket, 4, 1s));
    const auto some = policy("p", {by_status(Algorithm::gcra, 5, 1s), leaky});
    const auto other = policy("q", {window(5, 1s)});
    const std::vector<ChargeItem> items{{&some, "a"}, {&other, "a"}, {&some, "b"}};
    const limit::Receipt receipt{1s, {1, 2, 3}};
    const auto words = refund_words({{items, 1}, &receipt, Refund::Of::place, 0});
    REQUIRE(words.size() == 6);
    CHECK(words[2] == "2");
    CHECK(words[3] == "tg:4:p:{a}");
    CHECK(words[4] == "tg:4:p:{b}");
    const std::string place = packed(leaky.id) + 'k' + doubles(4, 250'000, 0, 1'000'000);
    CHECK(words[5] == '\x02' + doubles(1) + '\x01' + place + doubles(3) + '\x01' + place);
}

TEST_CASE("refund_script: where nothing was taken nothing is given back") {
    const auto some = policy("p", {window(5, 1s)});
    const std::vector<ChargeItem> items{{&some, "a"}, {&some, "b"}};
    limit::Receipt receipt{1s, {0, 5}};  // of a policy in shadow that denied, say
    const auto words = refund_words({{items, 1}, &receipt, Refund::Of::all, 0});
    REQUIRE(words.size() == 5);
    CHECK(words[3] == "tg:4:p:{b}");
    CHECK(refund_words({{items, 0}, &receipt, Refund::Of::all, 0}).empty());
    receipt.generations = {0, 0};
    CHECK(refund_words({{items, 1}, &receipt, Refund::Of::all, 0}).empty());
}

TEST_CASE("refund_script: moments are given back in the sorted sets of their schedules") {
    const Limit moments = made(spec_of(Algorithm::schedule, 5, 1h));
    const auto some = policy("p", {moments, window(9, 1s)});
    const std::vector<ChargeItem> items{{&some, "a"}, {&some, "b"}};
    const limit::Receipt receipt{1s, {5, 0}};  // in the second nothing was taken
    limit::Charge charge{.items = items, .cost = 2, .slot_hold = {}, .moment = 7s};
    const auto words = refund_words({charge, &receipt, Refund::Of::all, 0});
    REQUIRE(words.size() == 6);
    CHECK(words[2] == "2");
    CHECK(words[3] == "tg:4:p:{a}");
    CHECK(words[4].starts_with("tg:4:p:{a}:"));
    CHECK(words[5].substr(0, 10) == '\x01' + doubles(5) + '\x02');
    CHECK(words[5].substr(10, 37) ==
          packed(moments.id) + 's' + doubles(7'000'000, 2, 0, 1'000'000));
    // It was recorded no earlier than when it was asked for.
    charge.moment = 0s;
    CHECK(refund_words({charge, &receipt, Refund::Of::all, 0})[5].substr(15, 8) ==
          doubles(1'000'000));
    CHECK(refund_words({charge, &receipt, Refund::Of::place, 0}).empty());
}

TEST_CASE("refund_script: a past moment that was forwarded uncounted is not given back") {
    LimitSpec spec = spec_of(Algorithm::schedule, 5, 1h);
    spec.forward_past = true;
    const auto some = policy("p", {made(spec)});
    const ChargeItem item{&some, "a"};
    const limit::Receipt receipt{9s, {5}};
    limit::Charge charge{.items = {&item, 1}, .cost = 1, .slot_hold = {}, .moment = 9s - 1us};
    CHECK(refund_words({charge, &receipt, Refund::Of::all, 0}).empty());
    charge.moment = 9s;
    CHECK(refund_words({charge, &receipt, Refund::Of::all, 0}).size() == 6);
}

TEST_CASE("refund_script: it gives back neither slots nor units of limits that count all") {
    LimitSpec counts_all = spec_of(Algorithm::sliding_window, 5, 1s);
    counts_all.count = limit::Count::all;
    for (const Limit& limit : {made(counts_all), made(spec_of(Algorithm::concurrency, 5, 0s))}) {
        const auto some = policy("p", {limit});
        const ChargeItem item{&some, "a"};
        const limit::Receipt receipt{1s, {5}};
        for (Refund::Of of : {Refund::Of::all, Refund::Of::place, Refund::Of::status}) {
            CHECK(refund_words({{{&item, 1}, 1}, &receipt, of, 500}).empty());
        }
    }
}

TEST_CASE("refund_script: each slot is released by a command of its own") {
    const Limit slots = made(spec_of(Algorithm::concurrency, 5, 0s));
    const auto some = policy("p", {window(1, 1s), slots});
    const auto other = policy("q", {window(1, 1s)});
    const std::vector<ChargeItem> items{{&some, "a"}, {&other, "a"}, {&some, "b"}};
    const limit::Charge charge{.items = items, .cost = 1, .slot_hold = {7, 8}};
    const auto commands = release_commands(charge, "tg:");
    REQUIRE(commands.size() == 2);
    const std::string slot = packed(std::uint64_t{7}) + packed(std::uint64_t{8});
    for (std::size_t i = 0; i < 2; ++i) {
        const auto words = words_of(commands[i]);
        REQUIRE(words.size() == 3);
        CHECK(words[0] == "ZREM");
        CHECK(words[1].starts_with(i == 0 ? "tg:4:p:{a}:" : "tg:4:p:{b}:"));
        CHECK(words[2] == slot);
    }
    CHECK(release_commands({{&items[1], 1}, 1}, "tg:").empty());
}

TEST_CASE("refund_script: all slots of a request are renewed in one command") {
    const Limit slots = made(spec_of(Algorithm::concurrency, 5, 0s));
    const auto some = policy("p", {slots});
    const std::vector<ChargeItem> items{{&some, "a"}, {&some, "b"}};
    const limit::Charge charge{.items = items, .cost = 1, .slot_hold = {7, 8}};
    std::string out;
    REQUIRE(append_renew_command(charge, "tg:", Micros{123}, out));
    const auto words = words_of(out);
    REQUIRE(words.size() == 8);
    CHECK(words[1] == renew_script().sha1);
    CHECK(words[2] == "2");
    CHECK(words[3].starts_with("tg:4:p:{a}:"));
    CHECK(words[4].starts_with("tg:4:p:{b}:"));
    const std::string slot = packed(std::uint64_t{7}) + packed(std::uint64_t{8});
    CHECK(words[5] == slot + slot);
    CHECK(words[6] == "10000000");
    CHECK(words[7] == "123");

    const auto none = policy("q", {window(1, 1s)});
    const ChargeItem item{&none, "a"};
    std::string nothing;
    CHECK_FALSE(append_renew_command({{&item, 1}, 1}, "tg:", std::nullopt, nothing));
    CHECK_FALSE(append_hold_command({{&item, 1}, 1}, "tg:", 5s, std::nullopt, nothing));
    CHECK(nothing.empty());
}

TEST_CASE("refund_script: all slots of a request that has ended are kept in one command") {
    const Limit slots = made(spec_of(Algorithm::concurrency, 5, 0s));
    const auto some = policy("p", {slots});
    const std::vector<ChargeItem> items{{&some, "a"}, {&some, "b"}};
    const limit::Charge charge{.items = items, .cost = 1, .slot_hold = {7, 8}};
    std::string out;
    REQUIRE(append_hold_command(charge, "tg:", 5s, std::nullopt, out));
    const auto words = words_of(out);
    REQUIRE(words.size() == 7);
    CHECK(words[1] == hold_script().sha1);
    CHECK(words[2] == "2");
    const std::string slot = packed(std::uint64_t{7}) + packed(std::uint64_t{8});
    CHECK(words[5] == slot + slot);
    CHECK(words[6] == "5000000");
}

}  // namespace tidegate::store::refund_test
