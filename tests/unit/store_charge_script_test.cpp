#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "limit/time_zone.hpp"
#include "store/charge_script.hpp"
#include "store/scripts.hpp"
#include "store_asking.hpp"
#include "tzif.hpp"

namespace tidegate::store::charge_script_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::ChargeItem;
using limit::Limit;
using limit::LimitSpec;
using limit::Micros;
using test::doubles;
using test::made;
using test::packed;
using test::policy;
using test::spec_of;
using test::window;
using test::words_of;

std::vector<std::string> command_words(std::span<const limit::Charge> charges,
                                       std::optional<Micros> clock = {}) {
    std::string out;
    append_charge_command(charges, "tg:", clock, out);
    return words_of(out);
}

std::vector<std::string> command_words(const limit::Charge& charge) {
    return command_words({&charge, 1});
}

// The arguments about one limit that a request has alone.
struct Told {
    char kind = 0;
    std::string terms;     // quota, and two numbers
    std::string name;      // in the state
    std::string numbers;   // of the request
    std::size_t keys = 0;  // of the command
};

Told told_of(const Limit& limit, const limit::Charge& request = {}) {
    const auto some = policy("p", {limit});
    const ChargeItem item{&some, "user:a"};
    limit::Charge charge = request;
    charge.items = {&item, 1};
    constexpr Micros kLeapDay{1'709'208'000'000'000};  // noon of 2024-02-29, a Thursday
    const auto words = command_words({&charge, 1}, kLeapDay);
    const std::size_t keys = std::stoul(words[2]);
    const std::string& asked = words[3 + keys];
    const std::string& numbers = words[4 + keys];
    REQUIRE(asked.size() == 2 + 7 + 26);
    REQUIRE(numbers.size() >= 8);
    return {asked[9], asked.substr(10, 20), asked.substr(30), numbers.substr(8), keys};
}

std::string terms(std::uint32_t quota, double second, double third) {
    return packed(quota) + doubles(second, third);
}

std::uint32_t layout_of(const std::vector<Limit>& limits) {
    const auto some = policy("p", limits);
    const ChargeItem item{&some, "user:a"};
    const std::string asked = command_words(limit::Charge{{&item, 1}, 1})[4];
    std::uint32_t layout = 0;
    std::memcpy(&layout, asked.data() + 4, sizeof(layout));
    return layout;
}

}  // namespace

TEST_CASE("charge_script: the command is one EVALSHA with a key for each item") {
    const auto first = policy("default", {window(5, 1s), window(9, 1min)});
    const auto second = policy("a route/0", {window(1, 1s)});
    const std::vector<ChargeItem> items{
        {&first, "ip:192.0.2.1"}, {&first, "user:a"}, {&second, "user:a"}};
    const limit::Charge charge{items, 3};
    std::string out = "before";
    append_charge_command({&charge, 1}, "tg:", std::nullopt, out);
    REQUIRE(out.starts_with("before"));
    const auto words = words_of(std::string_view(out).substr(6));
    REQUIRE(words.size() == 8);
    CHECK(words[0] == "EVALSHA");
    CHECK(words[1] == charge_script(charge).sha1);
    CHECK(words[2] == "3");
    CHECK(words[3] == "tg:4:default:{ip:192.0.2.1}");
    CHECK(words[4] == "tg:4:default:{user:a}");
    CHECK(words[5] == "tg:4:a%20route/0:{user:a}");
    // Three states, one request; the limits of a run are sent once.
    CHECK(words[6].substr(0, 4) == std::string("\x03\x01\x02\x00", 4));
    CHECK(words[6].substr(8, 3) == "\x02ww");
    CHECK(words[6].size() == 2 + (7 + 2 * 26) + (7 + 26));
    CHECK(words[6].substr(61, 2) == std::string("\x01\x00", 2));
    CHECK(words[7] == doubles(3));
}

TEST_CASE(
    "charge_script: charges of different items are one EVALSHA that states the common part once") {
    const auto some = policy("p", {window(5, 1s), window(9, 1min)});
    const std::array<ChargeItem, 4> items{
        {{&some, "ip:192.0.2.1"}, {&some, "user:a"}, {&some, "ip:192.0.2.2"}, {&some, "user:b"}}};
    const std::vector<limit::Charge> charges{{{&items[0], 2}, 1}, {{&items[2], 2}, 7}};
    std::string out = "before";
    append_mixed_command(charges, "tg:", Micros{1'700'000'000'000'000}, out);
    REQUIRE(out.starts_with("before"));
    const auto words = words_of(std::string_view(out).substr(6));
    const auto alone = command_words(charges[0]);
    REQUIRE(words.size() == 10);
    CHECK(words[0] == "EVALSHA");
    CHECK(words[1] == charge_script(charges[0]).sha1);
    CHECK(words[2] == "4");
    CHECK(words[3] == "tg:4:p:{ip:192.0.2.1}");
    CHECK(words[4] == "tg:4:p:{user:a}");
    CHECK(words[5] == "tg:4:p:{ip:192.0.2.2}");
    CHECK(words[6] == "tg:4:p:{user:b}");
    // No state occurs twice, which the 0 says; the rest is as in a command of one request.
    CHECK(words[7].substr(0, 2) == std::string("\x02\x00", 2));
    CHECK(words[7].substr(2) == alone[5].substr(2));
    CHECK(words[8] == doubles(1, 7));
    CHECK(words[9] == "1700000000000000");
}

TEST_CASE("charge_script: a command says when two of its charges may share a state") {
    const auto some = policy("p", {window(5, 1s)});
    const auto other = policy("q", {window(5, 1s)});
    const auto requests = [](const std::array<ChargeItem, 4>& items) {
        const std::vector<limit::Charge> charges{{{&items[0], 2}, 1}, {{&items[2], 2}, 1}};
        std::string out;
        append_mixed_command(charges, "tg:", Micros{0}, out);
        return static_cast<int>(words_of(out)[7][1]);
    };
    CHECK(requests({{{&some, "ip:192.0.2.1"},
                     {&some, "user:a"},
                     {&some, "ip:192.0.2.1"},
                     {&some, "user:b"}}}) == 1);
    CHECK(requests(
              {{{&some, "user:a"}, {&some, "user:b"}, {&some, "user:c"}, {&some, "user:a"}}}) == 1);
    CHECK(requests(
              {{{&some, "user:a"}, {&other, "user:b"}, {&some, "user:c"}, {&other, "user:a"}}}) ==
          0);
}

TEST_CASE("charge_script: charges of up to four items of plain windows can be mixed") {
    const auto some = policy("p", {window(5, 1s)});
    const std::vector<ChargeItem> items(5, {&some, "user:a"});
    const std::span<const ChargeItem> all(items);
    CHECK(can_mix({all.first(1), 1}));
    CHECK(can_mix({all.first(4), 2}));
    CHECK_FALSE(can_mix({all, 1}));
    CHECK_FALSE(can_mix({all.first(1), 0}));  // that is a question
    auto watched = some;
    watched.shadow = true;
    const ChargeItem in_shadow{&watched, "user:a"};
    CHECK_FALSE(can_mix({{&in_shadow, 1}, 1}));
    const auto bucket = policy("q", {window(5, 1s), made(spec_of(Algorithm::gcra, 5, 1s))});
    const ChargeItem in_bucket{&bucket, "user:a"};
    CHECK_FALSE(can_mix({{&in_bucket, 1}, 1}));
    LimitSpec by_status = spec_of(Algorithm::sliding_window, 5, 1s);
    by_status.count = limit::Count::by_status;
    by_status.statuses = {401};
    const auto login = policy("r", {made(by_status)});
    const ChargeItem guess{&login, "user:a"};
    CHECK_FALSE(can_mix({{&guess, 1}, 1}));
}

TEST_CASE("charge_script: a clock is one more argument, in decimal microseconds") {
    const auto some = policy("p", {window(5, 1s)});
    const ChargeItem item{&some, "user:a"};
    const limit::Charge charge{{&item, 1}, 1};
    CHECK(command_words({&charge, 1}).size() == 6);
    CHECK(command_words({&charge, 1}, Micros{1'700'000'000'123'456}).back() == "1700000000123456");
    CHECK(command_words({&charge, 1}, Micros{0}).back() == "0");
    CHECK(command_words({&charge, 1}, limit::Micros{std::int64_t{1} << 52}).back() ==
          "4503599627370496");
}

TEST_CASE("charge_script: no policy's name can pass for another with an identifier") {
    const std::vector<std::string> names{"a", "a:", "a:{x}", "a%3A", "a\n", "{a}", "\xc3\xa9", ""};
    std::vector<std::string> keys;
    for (const std::string& name : names) {
        const auto some = policy(name, {window(5, 1s)});
        const ChargeItem item{&some, "x"};
        keys.push_back(command_words(limit::Charge{{&item, 1}, 1})[3]);
        CHECK(keys.back().find('{') == keys.back().size() - 3);
        CHECK(keys.back().find_first_of(" \r\n") == std::string::npos);
    }
    std::sort(keys.begin(), keys.end());
    CHECK(std::unique(keys.begin(), keys.end()) == keys.end());
}

TEST_CASE("charge_script: a window is described by quota, sub-bucket and span") {
    CHECK(told_of(window(5, 1s)).kind == 'w');
    CHECK(told_of(window(5, 1s)).terms == terms(5, 20'000, 1'000'000));
    LimitSpec strict = spec_of(Algorithm::sliding_window, 5, 1s);
    strict.strict = true;
    CHECK(told_of(made(strict)).terms == terms(5, 20'000, 1'020'000));
    LimitSpec uneven = spec_of(Algorithm::sliding_window, 5, 1s);
    uneven.precision = 400ms;
    CHECK(told_of(made(uneven)).terms == terms(5, 400'000, 1'200'000));
    LimitSpec fixed = spec_of(Algorithm::fixed_window, 4'294'967'295, 10s);
    CHECK(told_of(made(fixed)).terms == terms(4'294'967'295, 10'000'000, 10'000'000));
    fixed.anchor = limit::Anchor::first_request;
    CHECK(told_of(made(fixed)).terms == terms(4'294'967'295, 0, 10'000'000));
    constexpr std::int64_t kDay = 86'400'000'000;
    fixed.duration = 0s;
    fixed.anchor = limit::Anchor::utc_day;
    CHECK(told_of(made(fixed)).terms == terms(4'294'967'295, kDay, kDay));
    fixed.anchor = limit::Anchor::utc_week;
    CHECK(told_of(made(fixed)).terms == terms(4'294'967'295, -1, 0));
    fixed.anchor = limit::Anchor::utc_month;
    CHECK(told_of(made(fixed)).terms == terms(4'294'967'295, -2, 0));
    // When the zone's month ends, and the next.
    fixed.anchor = limit::Anchor::month;
    fixed.time_zone = "Test/Zone";
    fixed.zone = std::make_shared<const limit::TimeZone>(
        *limit::TimeZone::parse(test::Tzif{.offsets = {0}, .rule = "UTC0"}.bytes()));
    CHECK(told_of(made(fixed)).terms ==
          terms(4'294'967'295, -1'709'251'200'000'000, 1'711'929'600'000'000));
    const Limit limit = window(0, 1s);
    CHECK(told_of(limit).name == packed(limit.id) + '\x06');
    CHECK(told_of(limit).numbers.empty());
}

TEST_CASE("charge_script: a log is described by microseconds, and its marks are wide") {
    const Limit log = made(spec_of(Algorithm::sliding_log, 7, 1s));
    const Told told = told_of(log);
    CHECK(told.kind == 'l');
    CHECK(told.terms == terms(7, 1, 1'000'000));
    CHECK(told.name == packed(log.id) + '\x0c');
    CHECK(told.numbers.empty());
}

TEST_CASE("charge_script: a limit that counts denied requests has a capital letter") {
    for (auto [algorithm, kind] : {std::pair{Algorithm::sliding_window, 'W'},
                                   {Algorithm::fixed_window, 'W'},
                                   {Algorithm::sliding_log, 'L'},
                                   {Algorithm::gcra, 'G'}}) {
        LimitSpec spec = spec_of(algorithm, 7, 1s);
        spec.count = limit::Count::all;
        CHECK(told_of(made(spec)).kind == kind);
        spec.count = limit::Count::by_status;
        spec.statuses = {401};
        CHECK(told_of(made(spec)).kind == kind - 'A' + 'a');
    }
}

TEST_CASE("charge_script: the arguments state when a bucket is full, and how long a cost takes") {
    LimitSpec spec = spec_of(Algorithm::gcra, 3, 1s);
    spec.burst = 5;
    const Limit gcra = made(spec);
    const Told told = told_of(gcra, {.items = {}, .cost = 2});
    CHECK(told.kind == 'g');
    CHECK(told.terms == terms(3, 1'666'666, 2));
    CHECK(told.name == packed(gcra.id) + '\0');
    CHECK(told.numbers == doubles(666'666, 2));
    CHECK(told_of(gcra, {.items = {}, .cost = 0}).numbers == doubles(0, 0));
    // A bucket is never fuller than twice its burst, so nothing takes longer.
    CHECK(told_of(gcra, {.items = {}, .cost = 1'000'000'000'000}).numbers == doubles(3'333'333, 1));
}

TEST_CASE("charge_script: a line is as long as the shorter of burst and max_delay") {
    LimitSpec spec = spec_of(Algorithm::leaky_bucket, 3, 1s);
    spec.burst = 5;
    spec.max_delay = 1s;
    CHECK(told_of(made(spec)).kind == 'k');
    CHECK(told_of(made(spec)).terms == terms(3, 1'000'000, 0));
    spec.max_delay = 2s;
    CHECK(told_of(made(spec)).terms == terms(3, 1'666'666, 2));
    // Without this bound it would take any cost.
    CHECK(told_of(made(spec), {.items = {}, .cost = 5}).numbers == doubles(1'666'666, 2));
    CHECK(told_of(made(spec), {.items = {}, .cost = 6}).numbers == doubles(-1, 0));
}

TEST_CASE("charge_script: a schedule has a sorted set, and the moment as an argument") {
    LimitSpec spec = spec_of(Algorithm::schedule, 5, 1h);
    const limit::Charge charge{
        .items = {}, .cost = 1, .slot_hold = {}, .moment = Micros{1'234'567}};
    const Told told = told_of(made(spec), charge);
    CHECK(told.kind == 's');
    CHECK(told.keys == 2);
    CHECK(told.terms == terms(5, 3'600'000'000, 0));
    CHECK(told.numbers == doubles(1'234'567, 0));
    spec.forward_past = true;
    CHECK(told_of(made(spec), charge).terms == terms(5, 3'600'000'000, 1));
    spec.duration = 24h;
    spec.utc_day = true;
    CHECK(told_of(made(spec), charge).kind == 'd');
}

TEST_CASE("charge_script: concurrency has a sorted set, and the slot as an argument") {
    const Limit slots = made(spec_of(Algorithm::concurrency, 4, 0s));
    const limit::SlotHold hold{0x0102030405060708, 0xfffffffffffffffe};
    const Told told = told_of(slots, {.items = {}, .cost = 3, .slot_hold = hold});
    CHECK(told.kind == 'c');
    CHECK(told.keys == 2);
    CHECK(told.terms == terms(4, 10'000'000, 0));
    CHECK(told.numbers == packed(hold.holder) + packed(hold.request));
}

TEST_CASE("charge_script: sorted sets follow the states, of each item in its order") {
    const Limit slots = made(spec_of(Algorithm::concurrency, 4, 0s));
    const Limit moments = made(spec_of(Algorithm::schedule, 4, 1h));
    const auto some = policy("p", {moments, window(1, 1s), slots});
    const std::vector<ChargeItem> items{{&some, "user:a"}, {&some, "user:b"}};
    const limit::Charge charge{.items = items, .cost = 1, .slot_hold = {1, 2}, .moment = 77us};
    const auto words = command_words(charge);
    REQUIRE(words.size() == 3 + 6 + 2);
    const auto hex = [](std::uint32_t id) {
        char text[9];
        std::snprintf(text, sizeof(text), "%08x", id);
        return std::string(text);
    };
    CHECK(words[4] == "tg:4:p:{user:b}");
    CHECK(words[5] == "tg:4:p:{user:a}:" + hex(moments.id));
    CHECK(words[6] == "tg:4:p:{user:a}:" + hex(slots.id));
    CHECK(words[7] == "tg:4:p:{user:b}:" + hex(moments.id));
    CHECK(words[8] == "tg:4:p:{user:b}:" + hex(slots.id));
    CHECK(words[9].substr(8, 4) == "\x03swc");
    // Both items are of one run: what the limits need of the request is there once.
    CHECK(words[10] == doubles(1, 77, 0) + packed(std::uint64_t{1}) + packed(std::uint64_t{2}));
}

TEST_CASE("charge_script: another policy, another tier or another order begin a run") {
    auto some = policy("p", {window(5, 1s)});
    some.tiers = {{"pro", {window(50, 1s)}, 1}};
    auto watched = policy("q", {window(5, 1s)});
    watched.shadow = true;
    const limit::Tier* const pro = &some.tiers[0];
    const std::vector<ChargeItem> items{
        {&some, "a"}, {&some, "b", pro}, {&some, "c", pro}, {&watched, "a"}, {&some, "d"}};
    const std::string asked = command_words(limit::Charge{items, 1})[8];
    REQUIRE(asked.size() == 2 + 4 * (7 + 26));
    CHECK(asked[0] == 5);
    const auto run = [&](std::size_t index) { return asked.substr(2 + 33 * index, 33); };
    CHECK(run(0).substr(0, 2) == std::string("\x01\x00", 2));
    CHECK(run(1).substr(0, 2) == std::string("\x02\x00", 2));
    CHECK(run(1).substr(8, 4) == packed(std::uint32_t{50}));
    CHECK(run(2).substr(0, 2) == "\x01\x01");
    CHECK(run(3) == run(0));
}

TEST_CASE("charge_script: a layout names the records and their order, and is never none") {
    const Limit second = window(5, 1s);
    const Limit minute = window(5, 1min);
    CHECK(layout_of({second}) != layout_of({minute}));
    CHECK(layout_of({second, minute}) != layout_of({minute, second}));
    CHECK(layout_of({second}) == layout_of({window(6, 1s)}));  // a quota is no name
    CHECK((layout_of({second, minute}) & 0xff) == 2);
    CHECK(layout_of({second}) > 0xff);
}

TEST_CASE("charge_script: a cost that no quota has room for stays exact in Lua") {
    const auto some = policy("p", {window(5, 1s)});
    const ChargeItem item{&some, "a"};
    for (std::int64_t cost :
         {limit::kMoneyMax + 1, std::int64_t{1} << 53, std::numeric_limits<std::int64_t>::max()}) {
        CHECK(command_words(limit::Charge{{&item, 1}, cost})[5] == doubles(1e15 + 1));
    }
    CHECK(command_words(limit::Charge{{&item, 1}, limit::kMoneyMax})[5] == doubles(1e15));
    CHECK(command_words(limit::Charge{{&item, 1}, limit::kQuotaMax})[5] == doubles(4'294'967'295));
}

TEST_CASE("charge_script: charges in one command follow one another in its arguments") {
    const auto some = policy("p", {window(5, 1s), made(spec_of(Algorithm::gcra, 2, 1s))});
    const ChargeItem item{&some, "a"};
    const std::vector<limit::Charge> charges{{{&item, 1}, 1}, {{&item, 1}, 0}, {{&item, 1}, 3}};
    const auto words = command_words(charges);
    CHECK(words[1] == charge_script({}).sha1);
    CHECK(words[4].substr(0, 2) == "\x01\x03");
    CHECK(words[5] == doubles(1, 500'000, 0) + doubles(0, 0, 0) + doubles(3, 1'500'000, 0));
}

TEST_CASE("charge_script: the fast path is not for several charges of the same items") {
    const auto some = policy("p", {window(5, 1s)});
    const ChargeItem item{&some, "a"};
    const std::vector<limit::Charge> charges{{{&item, 1}, 1}, {{&item, 1}, 1}};
    REQUIRE(charge_script(charges[0]).sha1 != charge_script({}).sha1);
    CHECK(command_words(charges)[1] == charge_script({}).sha1);
    CHECK(command_words({charges.data(), 1})[1] == charge_script(charges[0]).sha1);
}

TEST_CASE(
    "charge_script: only limits that count admitted requests, outside of shadow, share a command") {
    const auto shares = [](std::vector<Limit> limits, bool shadow = false) {
        auto some = policy("p", {window(5, 1s)});
        auto other = policy("q", std::move(limits));
        other.shadow = shadow;
        const std::vector<ChargeItem> items{{&some, "a"}, {&other, "a"}};
        return can_share_command({items, 1});
    };
    LimitSpec counting = spec_of(Algorithm::sliding_window, 5, 1s);
    CHECK(shares({window(5, 1s), made(spec_of(Algorithm::sliding_log, 5, 1s)),
                  made(spec_of(Algorithm::fixed_window, 5, 1s)),
                  made(spec_of(Algorithm::gcra, 5, 1s))}));
    CHECK_FALSE(shares({window(5, 1s)}, true));
    CHECK_FALSE(shares({window(5, 1s), made(spec_of(Algorithm::leaky_bucket, 5, 1s))}));
    CHECK_FALSE(shares({made(spec_of(Algorithm::schedule, 5, 1h))}));
    CHECK_FALSE(shares({made(spec_of(Algorithm::concurrency, 5, 0s))}));
    counting.count = limit::Count::all;
    CHECK_FALSE(shares({made(counting)}));
    counting.count = limit::Count::by_status;
    counting.statuses = {401};
    CHECK_FALSE(shares({made(counting)}));
}

}  // namespace tidegate::store::charge_script_test
