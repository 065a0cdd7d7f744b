#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/scripts.hpp"
#include "store/settle_script.hpp"
#include "store_asking.hpp"

namespace tidegate::store::settle_script_test {
namespace {

using namespace std::chrono_literals;
using limit::ChargeItem;
using limit::Micros;
using limit::Refund;
using test::doubles;
using test::policy;
using test::window;
using test::words_of;

const Claim kOne{"0f", "user:a", 3, 1'500ms};

}  // namespace

TEST_CASE(
    "settle_script: a lower cost has the keys and argument of a refund, and a claim behind each") {
    const auto some = policy("p", {window(9, 1s)});
    const std::vector<ChargeItem> items{{&some, "user:a"}, {&some, "user:b"}};
    const limit::Receipt receipt{1s, {5, 6}};
    std::string out;
    append_settle_less_command(kOne, {{items, 2}, &receipt, Refund::Of::all, 0}, "tg:", Micros{9},
                               out);
    const auto words = words_of(out);
    REQUIRE(words.size() == 10);
    CHECK(words[0] == "EVALSHA");
    CHECK(words[1] == settle_less_script().sha1);
    CHECK(words[2] == "3");
    CHECK(words[3] == "tg:4:p:{user:a}");
    CHECK(words[4] == "tg:4:p:{user:b}");
    CHECK(words[5] == "tg:settled:0f:{user:a}");
    CHECK(words[6].starts_with('\x02' + doubles(5) + '\x01'));
    CHECK(words[7] == "9");
    CHECK(words[8] == "1500");
    CHECK(words[9] == "3");
}

TEST_CASE("settle_script: with nothing to give back, there is only the claim") {
    const auto some = policy("p", {window(9, 1s)});
    const ChargeItem item{&some, "user:a"};
    const std::vector<std::string> wanted{"EVALSHA", std::string(settle_less_script().sha1),
                                          "1",       "tg:settled:0f:{user:a}",
                                          "1500",    "3"};
    const auto words = [&](std::int64_t cost, std::uint64_t generation) {
        const limit::Receipt receipt{1s, {generation}};
        std::string out;
        append_settle_less_command(kOne, {{{&item, 1}, cost}, &receipt, Refund::Of::all, 0},
                                   "tg:", Micros{9}, out);
        return words_of(out);
    };
    CHECK(words(0, 5) == wanted);  // the cost was right
    CHECK(words(2, 0) == wanted);  // nothing was taken
}

TEST_CASE("settle_script: a higher cost has the keys and arguments of a charge, and a claim") {
    const auto some = policy("p", {window(9, 1s)});
    const ChargeItem item{&some, "user:a"};
    std::string out;
    append_settle_more_command(kOne, {{&item, 1}, 2}, "tg:", std::nullopt, out);
    const auto words = words_of(out);
    REQUIRE(words.size() == 9);
    CHECK(words[1] == settle_more_script().sha1);
    CHECK(words[2] == "2");
    CHECK(words[3] == "tg:4:p:{user:a}");
    CHECK(words[4] == "tg:settled:0f:{user:a}");
    CHECK(words[5].starts_with("\x01\x01"));
    CHECK(words[6] == doubles(2));
    CHECK(words[7] == "1500");
    CHECK(words[8] == "3");
}

}  // namespace tidegate::store::settle_script_test
