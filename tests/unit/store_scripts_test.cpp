#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/scripts.hpp"
#include "store_asking.hpp"

namespace tidegate::store::scripts_test {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::ChargeItem;
using limit::Limit;
using limit::LimitSpec;
using test::made;
using test::policy;
using test::spec_of;
using test::window;

namespace {

// Whether the script for a charge has the fast path in front.
bool is_fast(std::span<const ChargeItem> items, std::int64_t cost = 1) {
    const redis::Script& script = charge_script({items, cost});
    const bool has_loop = script.text.find("head_format") != std::string_view::npos;
    CHECK(has_loop == (script.sha1 != charge_script({}).sha1));
    return has_loop;
}

bool is_fast(const limit::Policy& policy, std::int64_t cost = 1) {
    const std::vector<ChargeItem> items{{&policy, "ip:192.0.2.1"}, {&policy, "user:a"}};
    return is_fast(items, cost);
}

std::vector<Limit> windows(std::size_t count) {
    std::vector<Limit> limits;
    for (std::size_t i = 1; i <= count; ++i) limits.push_back(window(5, i * 1s));
    return limits;
}

// Adds `limit` to a window: does the fast path still decide both?
bool is_plain(const LimitSpec& spec) {
    return is_fast(policy("p", {window(5, 1s), made(spec)}));
}

}  // namespace

TEST_CASE("scripts: plain windows have one script with the fast path, whatever their number") {
    std::set<std::string_view> texts;
    for (const std::size_t count : {1, 2, 3, 4, 5, 8, 9, 32}) {
        const auto some = policy("p", windows(count));
        REQUIRE(is_fast(some));
        const ChargeItem item{&some, "user:a"};
        texts.insert(charge_script({{&item, 1}, 1}).text);
    }
    CHECK(texts.size() == 1);
}

TEST_CASE("scripts: the fast path is for every plain window, and for nothing else") {
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
    fixed.duration = 0s;
    fixed.anchor = limit::Anchor::utc_day;
    CHECK(is_plain(fixed));
    fixed.anchor = limit::Anchor::utc_week;
    CHECK_FALSE(is_plain(fixed));
    fixed.anchor = limit::Anchor::utc_month;
    CHECK_FALSE(is_plain(fixed));
    for (Algorithm other :
         {Algorithm::sliding_log, Algorithm::gcra, Algorithm::leaky_bucket, Algorithm::schedule}) {
        CHECK_FALSE(is_plain(spec_of(other, 5, 1h)));
    }
    CHECK_FALSE(is_plain(spec_of(Algorithm::concurrency, 5, 0s)));
}

TEST_CASE("scripts: a cost of 0 and a policy in shadow have no fast path") {
    for (const std::size_t count : {std::size_t{3}, std::size_t{9}}) {
        auto some = policy("p", windows(count));
        CHECK(is_fast(some, 1));
        CHECK(is_fast(some, limit::kQuotaMax));
        CHECK_FALSE(is_fast(some, 0));
        some.shadow = true;
        CHECK_FALSE(is_fast(some));
    }
}

TEST_CASE("scripts: the fast path is for any number of states, with any numbers of limits") {
    auto some = policy("p", windows(3));
    some.tiers = {{"pro", windows(3), 1}, {"two", windows(2), 2}};
    const auto other = policy("q", windows(3));
    std::vector<ChargeItem> items{{&some, "a"}, {&some, "b"}, {&some, "c"}, {&some, "d"}};
    CHECK(is_fast(items));
    items[3] = {&other, "d"};
    CHECK(is_fast(items));
    items[3] = {&some, "d", &some.tiers[0]};
    CHECK(is_fast(items));
    items.push_back({&other, "e"});
    CHECK(is_fast(items));
    items.pop_back();
    items[3] = {&some, "d", &some.tiers[1]};
    CHECK(is_fast(items));
    const auto nine = policy("r", windows(9));
    items[3] = {&nine, "d"};
    CHECK(is_fast(items));
}

TEST_CASE("scripts: one state of another kind, first or last, and no fast path is in front") {
    const auto some = policy("p", windows(3));
    const auto strange = policy("q", {window(5, 1s), made(spec_of(Algorithm::gcra, 5, 1s))});
    auto shadow = policy("r", windows(3));
    shadow.shadow = true;
    for (const limit::Policy* const one : {&strange, static_cast<const limit::Policy*>(&shadow)}) {
        const std::vector<ChargeItem> last{{&some, "a"}, {&some, "b"}, {one, "a"}};
        const std::vector<ChargeItem> first{{one, "a"}, {&some, "a"}, {&some, "b"}};
        CHECK_FALSE(is_fast(last));
        CHECK_FALSE(is_fast(first));
    }
}

TEST_CASE("scripts: the limits of the tier decide, not those of its policy") {
    auto some = policy("p", windows(3));
    some.tiers = {{"pro", {made(spec_of(Algorithm::gcra, 5, 1s))}, 1}};
    auto strange = policy("q", {made(spec_of(Algorithm::gcra, 5, 1s))});
    strange.tiers = {{"pro", windows(2), 1}};
    const ChargeItem first{&some, "a", &some.tiers[0]};
    const ChargeItem second{&strange, "a", &strange.tiers[0]};
    CHECK_FALSE(is_fast({&first, 1}));
    CHECK(is_fast({&second, 1}));
}

TEST_CASE("scripts: each is known by its own digest, and stays where it is") {
    std::set<std::string_view> digests;
    for (const redis::Script* script : all_scripts()) {
        CHECK(script->sha1.size() == 40);
        CHECK(script->sha1.find_first_not_of("0123456789abcdef") == std::string_view::npos);
        CHECK_FALSE(script->text.empty());
        CHECK(digests.insert(script->sha1).second);
    }
    CHECK(digests.size() == 11);
    CHECK(digests.count(charge_script({}).sha1) == 1);
    CHECK(digests.count(give_back_script().sha1) == 1);
    CHECK(digests.count(settle_less_script().sha1) == 1);
    CHECK(digests.count(settle_more_script().sha1) == 1);
    CHECK(digests.count(renew_script().sha1) == 1);
    CHECK(digests.count(hold_script().sha1) == 1);
    CHECK(digests.count(report_script().sha1) == 1);
    CHECK(digests.count(inspect_script().sha1) == 1);
    CHECK(digests.count(forget_script().sha1) == 1);
    CHECK(all_scripts() == all_scripts());
}

TEST_CASE("scripts: a charge that the fast path leaves alone finds the general way behind it") {
    for (const redis::Script* script : all_scripts()) {
        CHECK(script->text.find(lua_file("state")) != std::string_view::npos);
        if (script->name == "charge") CHECK(script->text.ends_with(lua_file("charge")));
    }
}

TEST_CASE("scripts: no directive of a template is left") {
    for (const redis::Script* script : all_scripts()) {
        for (const char* mark : {"--window", "--each", "--end", "--for", "LIMITS"}) {
            CAPTURE(mark);
            CHECK(script->text.find(mark) == std::string_view::npos);
        }
    }
}

TEST_CASE("scripts: a file of an algorithm gives each script the lines that are for it") {
    const std::string file =
        "-- What it is.\na\n--for charge report\nb\n    -- why\n--for inspect\nc\n--for report\nd";
    CHECK(lines_for(file, "charge") == "a\nb\n");
    CHECK(lines_for(file, "report") == "a\nb\nd");
    CHECK(lines_for(file, "inspect") == "a\nc\n");
    CHECK(lines_for(file, "harge") == "a\n");
    CHECK(lines_for("", "charge").empty());
}

namespace {

// The branch for one limit alone: nothing before it and nothing after it.
std::string branch(const std::string& lines, const std::string& window = "") {
    return unroll("--each number of limits\n" + lines + "--end\n", window, 1);
}

}  // namespace

TEST_CASE("unroll: a list has an item for each limit, with its number") {
    CHECK(unroll("local {{q$, w$}} = f()\n", "", 1) == "local q1, w1 = f()\n");
    CHECK(unroll("local {{q$, w$}} = f()\n", "", 3) == "local q1, w1, q2, w2, q3, w3 = f()\n");
    CHECK(unroll("{{a$}}{{b$}}", "", 2) == "a1, a2b1, b2");
}

TEST_CASE("unroll: a format is there as often as there are limits, unseparated") {
    CHECK(unroll("'<I4{{I4dd}}'", "", 1) == "'<I4I4dd'");
    CHECK(unroll("'<I4{{I4dd}}d'", "", 3) == "'<I4I4ddI4ddI4ddd'");
}

TEST_CASE("unroll: the branch is there for each number of limits") {
    const std::string text = "before\n--each number of limits\nn == LIMITS\n--end\nafter\n";
    CHECK(unroll(text, "", 1) == "before\nn == 1\nafter\n");
    CHECK(unroll(text, "", 3) == "before\nn == 1\nn == 2\nn == 3\nafter\n");
    CHECK(unroll("--each number of limits\n  {{a$}}\n  --end\n", "", 2) == "  a1\n    a1, a2\n  ");
}

TEST_CASE("unroll: a branch has the window of each limit, the last one first") {
    const std::string text = "--each number of limits\nif LIMITS\n--each window\n--end\n";
    CHECK(unroll(text, "u$ = u$ + $\n", 2) ==
          "if 1\nu1 = u1 + 1\nif 2\nu2 = u2 + 2\nu1 = u1 + 1\n");
    CHECK(branch("", "w$\n").empty());
}

TEST_CASE("unroll: outside the branch LIMITS is the most, and a window has no number") {
    const std::string text = "if n > LIMITS\n--window\n--each number of limits\n--end\n{{a$}}\n";
    CHECK(unroll(text, "u$ = u$ + 1\n", 2) == "if n > 2\nu = u + 1\na1, a2\n");
}

TEST_CASE("unroll: comments are removed, and code before a comment stays") {
    CHECK(unroll("-- one {{a$}} LIMITS --window\na\n  -- two\n--\nb  -- three\n\n", "", 2) ==
          "a\nb  -- three\n\n");
    CHECK(branch("a\n-- b\n--each window\n", "-- c\nd$\n") == "a\nd1\n");
}

TEST_CASE("unroll: text without directives, and directives without an end, stay as they are") {
    CHECK(unroll("", "", 3).empty());
    CHECK(unroll("\n", "", 3) == "\n");
    CHECK(unroll("no end of line", "", 3) == "no end of line");
    CHECK(unroll("local a = {}\nlocal t = {{1, 2}\n", "", 3) ==
          "local a = {}\nlocal t = {{1, 2}\n");
    CHECK(unroll("--each number of limits\na\n", "", 3) == "--each number of limits\na\n");
}

TEST_CASE("unroll: the fast path has no directive left, and a window for each limit of a branch") {
    for (std::size_t most = 1; most <= 8; ++most) {
        const std::string text = unroll(lua_file("fast_path"), lua_file("fast_path_window"), most);
        for (const char* mark :
             {"{{", "}}", "$", "--each", "--end", "--window", "LIMITS", "    -- "}) {
            CAPTURE(mark);
            CHECK(text.find(mark) == std::string::npos);
        }
        const std::string last = std::to_string(most);
        const std::string too_many = std::to_string(most + 1);
        CHECK(text.find("if limits > " + last + " then") != std::string::npos);
        CHECK(text.find("units = units + cost") != std::string::npos);
        CHECK(text.find("elseif limits == " + last + " then") != std::string::npos);
        CHECK(text.find("units" + last + " = units" + last + " + cost") != std::string::npos);
        CHECK(text.find("elseif limits == " + too_many) == std::string::npos);
        CHECK(text.find("units" + too_many) == std::string::npos);
    }
}

}  // namespace tidegate::store::scripts_test
