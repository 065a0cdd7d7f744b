#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/lua_files.hpp"
#include "store/scripts.hpp"
#include "store_asking.hpp"

namespace tidegate::store {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::ChargeItem;
using limit::Limit;
using limit::LimitSpec;
using test::made;
using test::policy;
using test::spec_of;
using test::window;

bool has_short_way(std::span<const ChargeItem> items, std::int64_t cost = 1) {
    return charge_script({items, cost}).sha1 != charge_script({}).sha1;
}

bool has_short_way(const limit::Policy& policy, std::int64_t cost = 1) {
    const std::vector<ChargeItem> items{{&policy, "ip:192.0.2.1"}, {&policy, "user:a"}};
    return has_short_way(items, cost);
}

std::vector<Limit> windows(std::size_t count) {
    std::vector<Limit> limits;
    for (std::size_t i = 1; i <= count; ++i) limits.push_back(window(5, i * 1s));
    return limits;
}

// Adds `limit` to a window: still the short way?
bool is_plain(const LimitSpec& spec) {
    return has_short_way(policy("p", {window(5, 1s), made(spec)}));
}

}  // namespace

TEST_CASE("scripts: plain windows under one policy go the short way of their number") {
    std::set<std::string_view> texts;
    for (std::size_t count = 1; count <= 8; ++count) {
        const auto some = policy("p", windows(count));
        REQUIRE(has_short_way(some));
        const ChargeItem item{&some, "user:a"};
        texts.insert(charge_script({{&item, 1}, 1}).text);
    }
    CHECK(texts.size() == 8);
    CHECK_FALSE(has_short_way(policy("p", windows(9))));
    CHECK_FALSE(has_short_way(policy("p", windows(32))));
}

TEST_CASE("scripts: every plain window goes the short way, and nothing else does") {
    LimitSpec spec = spec_of(Algorithm::sliding_window, 0, 1min);
    CHECK(is_plain(spec));
    spec.strict = true;
    CHECK(is_plain(spec));
    spec.strict = false;
    spec.precision = 7s;
    CHECK(is_plain(spec));
    spec.count = limit::Count::all;
    CHECK_FALSE(is_plain(spec));
    spec.count = limit::Count::by_status;
    spec.statuses = {401};
    CHECK_FALSE(is_plain(spec));
    LimitSpec fixed = spec_of(Algorithm::fixed_window, 5, 1min);
    CHECK(is_plain(fixed));
    fixed.anchor = limit::Anchor::first_request;
    CHECK_FALSE(is_plain(fixed));
    for (Algorithm other :
         {Algorithm::sliding_log, Algorithm::gcra, Algorithm::leaky_bucket, Algorithm::schedule}) {
        CHECK_FALSE(is_plain(spec_of(other, 5, 1h)));
    }
    CHECK_FALSE(is_plain(spec_of(Algorithm::concurrency, 5, 0s)));
}

TEST_CASE("scripts: who only asks, or is watched in shadow, goes the long way") {
    auto some = policy("p", windows(3));
    CHECK(has_short_way(some, 1));
    CHECK(has_short_way(some, limit::kQuotaMax));
    CHECK_FALSE(has_short_way(some, 0));
    some.shadow = true;
    CHECK_FALSE(has_short_way(some));
}

TEST_CASE("scripts: the short way is for up to four identifiers of one policy and tier") {
    auto some = policy("p", windows(3));
    some.tiers = {{"pro", windows(3), 1}};
    const auto other = policy("q", windows(3));
    const limit::Tier* const pro = &some.tiers[0];
    std::vector<ChargeItem> items{{&some, "a"}, {&some, "b"}, {&some, "c"}, {&some, "d"}};
    CHECK(has_short_way(items));
    items[3] = {&other, "d"};
    CHECK_FALSE(has_short_way(items));
    items[3] = {&some, "d", pro};
    CHECK_FALSE(has_short_way(items));
    for (ChargeItem& item : items) item.tier = pro;
    CHECK(has_short_way(items));
    items.push_back({&some, "e", pro});
    CHECK_FALSE(has_short_way(items));
}

TEST_CASE("scripts: the limits of the tier decide, not those of its policy") {
    auto some = policy("p", windows(3));
    some.tiers = {{"pro", {made(spec_of(Algorithm::gcra, 5, 1s))}, 1}};
    auto strange = policy("q", {made(spec_of(Algorithm::gcra, 5, 1s))});
    strange.tiers = {{"pro", windows(2), 1}};
    const ChargeItem first{&some, "a", &some.tiers[0]};
    const ChargeItem second{&strange, "a", &strange.tiers[0]};
    CHECK_FALSE(has_short_way({&first, 1}));
    CHECK(has_short_way({&second, 1}));
}

TEST_CASE("scripts: each is known by its own digest, and stays where it is") {
    std::set<std::string_view> digests;
    for (const redis::Script* script : all_scripts()) {
        CHECK(script->sha1.size() == 40);
        CHECK(script->sha1.find_first_not_of("0123456789abcdef") == std::string_view::npos);
        CHECK_FALSE(script->text.empty());
        CHECK(digests.insert(script->sha1).second);
    }
    CHECK(digests.size() == 14);
    CHECK(digests.count(charge_script({}).sha1) == 1);
    CHECK(digests.count(give_back_script().sha1) == 1);
    CHECK(digests.count(renew_script().sha1) == 1);
    CHECK(digests.count(report_script().sha1) == 1);
    CHECK(digests.count(inspect_script().sha1) == 1);
    CHECK(digests.count(forget_script().sha1) == 1);
    CHECK(all_scripts() == all_scripts());
}

TEST_CASE("scripts: whichever way, the long way is behind the short one") {
    for (const redis::Script* script : all_scripts()) {
        CHECK(script->text.find(lua::state) != std::string_view::npos);
        if (script->name == "charge") CHECK(script->text.ends_with(lua::charge));
    }
}

}  // namespace tidegate::store
