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

enum class Way : std::uint8_t { short_way, middle_way, long_way };

Way way_of(std::span<const ChargeItem> items, std::int64_t cost = 1) {
    const redis::Script& script = charge_script({items, cost});
    if (script.sha1 == charge_script({}).sha1) return Way::long_way;
    const bool in_loop = script.text.find("head_format") != std::string_view::npos;
    return in_loop ? Way::middle_way : Way::short_way;
}

Way way_of(const limit::Policy& policy, std::int64_t cost = 1) {
    const std::vector<ChargeItem> items{{&policy, "ip:192.0.2.1"}, {&policy, "user:a"}};
    return way_of(items, cost);
}

std::vector<Limit> windows(std::size_t count) {
    std::vector<Limit> limits;
    for (std::size_t i = 1; i <= count; ++i) limits.push_back(window(5, i * 1s));
    return limits;
}

// Adds `limit` to a window: still the short way?
bool is_plain(const LimitSpec& spec) {
    return way_of(policy("p", {window(5, 1s), made(spec)})) == Way::short_way;
}

}  // namespace

TEST_CASE("scripts: plain windows go the short way of their number, many go the middle way") {
    std::set<std::string_view> texts;
    for (std::size_t count = 1; count <= 8; ++count) {
        const auto some = policy("p", windows(count));
        REQUIRE(way_of(some) == Way::short_way);
        const ChargeItem item{&some, "user:a"};
        texts.insert(charge_script({{&item, 1}, 1}).text);
    }
    CHECK(texts.size() == 8);
    CHECK(way_of(policy("p", windows(9))) == Way::middle_way);
    CHECK(way_of(policy("p", windows(32))) == Way::middle_way);
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
    for (const std::size_t count : {std::size_t{3}, std::size_t{9}}) {
        auto some = policy("p", windows(count));
        CHECK(way_of(some, 1) != Way::long_way);
        CHECK(way_of(some, limit::kQuotaMax) != Way::long_way);
        CHECK(way_of(some, 0) == Way::long_way);
        some.shadow = true;
        CHECK(way_of(some) == Way::long_way);
    }
}

TEST_CASE("scripts: the short way is for up to four states of as many limits each") {
    auto some = policy("p", windows(3));
    some.tiers = {{"pro", windows(3), 1}, {"two", windows(2), 2}};
    const auto other = policy("q", windows(3));
    std::vector<ChargeItem> items{{&some, "a"}, {&some, "b"}, {&some, "c"}, {&some, "d"}};
    CHECK(way_of(items) == Way::short_way);
    items[3] = {&other, "d"};
    CHECK(way_of(items) == Way::short_way);
    items[3] = {&some, "d", &some.tiers[0]};
    CHECK(way_of(items) == Way::short_way);
    items.push_back({&other, "e"});
    CHECK(way_of(items) == Way::middle_way);
    items.pop_back();
    items[3] = {&some, "d", &some.tiers[1]};
    CHECK(way_of(items) == Way::middle_way);
    const auto nine = policy("r", windows(9));
    items[3] = {&nine, "d"};
    CHECK(way_of(items) == Way::middle_way);
}

TEST_CASE("scripts: one state of another kind, first or last, sends all the long way") {
    const auto some = policy("p", windows(3));
    const auto strange = policy("q", {window(5, 1s), made(spec_of(Algorithm::gcra, 5, 1s))});
    auto shadow = policy("r", windows(3));
    shadow.shadow = true;
    for (const limit::Policy* const one : {&strange, static_cast<const limit::Policy*>(&shadow)}) {
        const std::vector<ChargeItem> last{{&some, "a"}, {&some, "b"}, {one, "a"}};
        const std::vector<ChargeItem> first{{one, "a"}, {&some, "a"}, {&some, "b"}};
        CHECK(way_of(last) == Way::long_way);
        CHECK(way_of(first) == Way::long_way);
    }
}

TEST_CASE("scripts: the limits of the tier decide, not those of its policy") {
    auto some = policy("p", windows(3));
    some.tiers = {{"pro", {made(spec_of(Algorithm::gcra, 5, 1s))}, 1}};
    auto strange = policy("q", {made(spec_of(Algorithm::gcra, 5, 1s))});
    strange.tiers = {{"pro", windows(2), 1}};
    const ChargeItem first{&some, "a", &some.tiers[0]};
    const ChargeItem second{&strange, "a", &strange.tiers[0]};
    CHECK(way_of({&first, 1}) == Way::long_way);
    CHECK(way_of({&second, 1}) == Way::short_way);
}

TEST_CASE("scripts: each is known by its own digest, and stays where it is") {
    std::set<std::string_view> digests;
    for (const redis::Script* script : all_scripts()) {
        CHECK(script->sha1.size() == 40);
        CHECK(script->sha1.find_first_not_of("0123456789abcdef") == std::string_view::npos);
        CHECK_FALSE(script->text.empty());
        CHECK(digests.insert(script->sha1).second);
    }
    CHECK(digests.size() == 16);
    CHECK(digests.count(charge_script({}).sha1) == 1);
    CHECK(digests.count(give_back_script().sha1) == 1);
    CHECK(digests.count(renew_script().sha1) == 1);
    CHECK(digests.count(hold_script().sha1) == 1);
    CHECK(digests.count(report_script().sha1) == 1);
    CHECK(digests.count(inspect_script().sha1) == 1);
    CHECK(digests.count(forget_script().sha1) == 1);
    CHECK(all_scripts() == all_scripts());
}

TEST_CASE("scripts: whichever way, the long way is behind it") {
    for (const redis::Script* script : all_scripts()) {
        CHECK(script->text.find(lua::state) != std::string_view::npos);
        if (script->name == "charge") CHECK(script->text.ends_with(lua::charge));
    }
}

TEST_CASE("scripts: nothing is left of the marks of their parts") {
    for (const redis::Script* script : all_scripts()) {
        for (const char* mark : {"--window", "--request", "--writing", "--each"}) {
            CAPTURE(mark);
            CHECK(script->text.find(mark) == std::string_view::npos);
        }
    }
}

}  // namespace tidegate::store
