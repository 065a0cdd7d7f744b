#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "http/field.hpp"
#include "http/ratelimit_fields.hpp"

namespace tidegate::http::ratelimit_fields_test {
namespace {

using Items = std::vector<RateLimitItem>;
using Kind = RateLimitItem::Kind;
using Unit = RateLimitItem::Unit;

// 2026-11-21T10:00:00Z
constexpr std::chrono::system_clock::time_point kNow{std::chrono::seconds{1'795'255'200}};

std::string policy(const Items& items) {
    std::string out;
    append_ratelimit_policy(items, out);
    return out;
}

std::string state(const Items& items) {
    std::string out;
    append_ratelimit(items, out);
    return out;
}

TEST_CASE("ratelimit_fields: one item a limit, in the order given") {
    const Items items = {{"default-1s", 10, 1, 7, 1}, {"default-1min", 120, 60, 12, 3}};
    CHECK(policy(items) == R"("default-1s";q=10;w=1, "default-1min";q=120;w=60)");
    CHECK(state(items) == R"("default-1s";r=7;t=1, "default-1min";r=12;t=3)");
}

TEST_CASE("ratelimit_fields: no window below one second is stated") {
    CHECK(policy({{"burst", 10, 0, 7, 1}}) == R"("burst";q=10)");
    CHECK(state({{"burst", 10, 0, 0, 0}}) == R"("burst";r=0;t=0)");
}

TEST_CASE("ratelimit_fields: slots name their unit, a schedule is stated as a policy only") {
    const Items items = {{"slots", 5, 0, 3, 0, Kind::in_flight},
                         {"plan", 1, 0, 0, 9, Kind::schedule},
                         {"default-1s", 10, 1, 7, 1}};
    CHECK(policy(items) ==
          R"("slots";q=5;qu="concurrent-requests", "plan";q=1, "default-1s";q=10;w=1)");
    CHECK(state(items) == R"("slots";r=3, "default-1s";r=7;t=1)");
    CHECK(most_restrictive(items)->name == "slots");
    const Items plan = {items[1]};
    CHECK(state(plan).empty());
    CHECK(most_restrictive(plan) == nullptr);
}

TEST_CASE("ratelimit_fields: what is not known is not told") {
    RateLimitItem never{"zero", 0, 60, 0, std::nullopt};
    RateLimitItem unknown{"hour", 100, 3600, 0, std::nullopt};
    unknown.is_current = false;
    const Items items = {unknown, never, {"second", 10, 1, 7, 1}};
    CHECK(policy(items) == R"("hour";q=100;w=3600, "zero";q=0;w=60, "second";q=10;w=1)");
    CHECK(state(items) == R"("zero";r=0, "second";r=7;t=1)");
    CHECK(most_restrictive(items)->name == "zero");
    std::string out;
    append_x_ratelimit_fields(items, out);
    CHECK(out == "X-RateLimit-Limit: 0\r\nX-RateLimit-Remaining: 0\r\n");
    out.clear();
    append_x_ratelimit_fields(Items{unknown}, out);
    CHECK(out.empty());
    CHECK(state({unknown}).empty());
}

TEST_CASE("ratelimit_fields: no items, no value") {
    CHECK(policy({}).empty());
    CHECK(state({}).empty());
    std::string out = "kept";
    append_x_ratelimit_fields({}, out);
    CHECK(out == "kept");
    CHECK(most_restrictive({}) == nullptr);
}

TEST_CASE("ratelimit_fields: a name cannot break out of its quotes") {
    CHECK(state({{"a\"b\\c", 1, 1, 1, 1}}) == R"("a\"b\\c";r=1;t=1)");
    CHECK(state({{"a\r\nX: y\x7f\xff", 1, 1, 1, 1}}) == R"("a??X: y??";r=1;t=1)");
    CHECK(state({{"", 1, 1, 1, 1}}) == R"("";r=1;t=1)");
}

TEST_CASE("ratelimit_fields: integers keep to fifteen digits") {
    constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
    CHECK(policy({{"a", kMax, kMax, 0, 0}}) == R"("a";q=999999999999999;w=999999999999999)");
    CHECK(policy({{"a", 4'294'967'295, 316'224'000, 0, 0}}) == R"("a";q=4294967295;w=316224000)");
    std::string out;
    append_integer(std::numeric_limits<std::int64_t>::min(), out);
    CHECK(out == "-999999999999999");
}

TEST_CASE("ratelimit_fields: the most restrictive limit has the smallest part of its quota left") {
    const auto most = [](const Items& items) { return most_restrictive(items)->name; };
    // Three of ten a second bind sooner than two of two an hour.
    CHECK(most({{"h", 2, 3600, 2, 0}, {"s", 10, 1, 3, 1}}) == "s");
    CHECK(most({{"s", 10, 1, 9, 1}, {"h", 240, 3600, 10, 900}}) == "h");
    // Equal parts: the fewest units, then the longest wait, then the first.
    CHECK(most({{"a", 100, 60, 50, 1}, {"b", 10, 1, 5, 1}}) == "b");
    CHECK(most({{"a", 10, 1, 0, 1}, {"b", 10, 60, 0, 30}}) == "b");
    CHECK(most({{"a", 10, 1, 0, 1}, {"b", 10, 1, 0, 1}}) == "a");
    // A quota of nothing leaves nothing.
    CHECK(most({{"a", 10, 1, 1, 1}, {"zero", 0, 1, 0, 0}}) == "zero");
    // Products of this size do not overflow.
    constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
    CHECK(most({{"a", kMax, 1, kMax, 1}, {"b", kMax, 1, kMax - 1, 1}}) == "b");
}

TEST_CASE("ratelimit_fields: the old fields state one limit, as whole lines") {
    const Items items = {{"s", 10, 1, 9, 1}, {"h", 240, 3600, 10, 900}};
    std::string out;
    append_x_ratelimit_fields(items, out);
    CHECK(out ==
          "X-RateLimit-Limit: 240\r\nX-RateLimit-Remaining: 10\r\nX-RateLimit-Reset: 900\r\n");
}

// As callers that answer often do.
struct Prepared {
    explicit Prepared(Items of) : items(std::move(of)) {
        for (const RateLimitItem& item : items) texts.push_back(ratelimit_texts(item));
        for (std::size_t i = 0; i < items.size(); ++i) items[i].texts = &texts[i];
    }
    Items items;
    std::vector<RateLimitTexts> texts;
};

TEST_CASE("ratelimit_fields: each group that is chosen has its lines, in the order of the rows") {
    const Items items{{.name = "default", .quota = 10, .remaining = 7, .reset_seconds = 3}};
    std::string out;
    LimitFieldsChoice().append(items, kNow, out);
    CHECK(out == "RateLimit-Policy: \"default\";q=10\r\nRateLimit: \"default\";r=7;t=3\r\n");

    auto choice = LimitFieldsChoice::none();
    out.clear();
    choice.append(items, kNow, out);
    CHECK(out.empty());
    choice.add(LimitFields::x_ratelimit);
    choice.append(items, kNow, out);
    CHECK(out == "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 7\r\nX-RateLimit-Reset: 3\r\n");
}

TEST_CASE("ratelimit_fields: a group takes the place of the upstream's fields that say the same") {
    auto choice = LimitFieldsChoice::none();
    CHECK_FALSE(choice.replaces(FieldName::ratelimit));
    choice.add(LimitFields::ratelimit);
    CHECK(choice.replaces(FieldName::ratelimit));
    CHECK(choice.replaces(FieldName::ratelimit_policy));
    CHECK_FALSE(choice.replaces(FieldName::x_ratelimit_limit));
    choice.add(LimitFields::x_ratelimit);
    CHECK(choice.replaces(FieldName::x_ratelimit_reset));
    CHECK_FALSE(choice.replaces(FieldName::other));
    CHECK_FALSE(choice.replaces(FieldName::retry_after));
    CHECK_FALSE(choice.replaces(FieldName::x_ratelimit_reset_tokens));
    choice.add(LimitFields::openai);
    CHECK(choice.replaces(FieldName::x_ratelimit_reset_tokens));
    CHECK_FALSE(choice.replaces(FieldName::anthropic_tokens_reset));
    choice.add(LimitFields::anthropic);
    CHECK(choice.replaces(FieldName::anthropic_tokens_reset));
}

namespace {

std::string lines_of(LimitFields group, const Items& items) {
    auto choice = LimitFieldsChoice::none();
    choice.add(group);
    std::string out;
    choice.append(items, kNow, out);
    return out;
}

RateLimitItem item_of(Unit unit, std::int64_t quota, std::int64_t remaining,
                      std::optional<std::int64_t> reset_seconds) {
    return {.name = "x",
            .quota = quota,
            .remaining = remaining,
            .reset_seconds = reset_seconds,
            .unit = unit};
}

}  // namespace

TEST_CASE("ratelimit_fields: openai's fields show requests and tokens") {
    const Items items = {item_of(Unit::requests, 60, 59, 1),
                         item_of(Unit::tokens, 150'000, 149'984, 360)};
    CHECK(lines_of(LimitFields::openai, items) ==
          "x-ratelimit-limit-requests: 60\r\nx-ratelimit-remaining-requests: 59\r\n"
          "x-ratelimit-reset-requests: 1s\r\nx-ratelimit-limit-tokens: 150000\r\n"
          "x-ratelimit-remaining-tokens: 149984\r\nx-ratelimit-reset-tokens: 6m0s\r\n");
}

TEST_CASE("ratelimit_fields: anthropic's fields show a moment") {
    const Items items = {item_of(Unit::tokens, 80'000, 0, 61), item_of(Unit::requests, 50, 49, 0)};
    CHECK(lines_of(LimitFields::anthropic, items) ==
          "anthropic-ratelimit-requests-limit: 50\r\n"
          "anthropic-ratelimit-requests-remaining: 49\r\n"
          "anthropic-ratelimit-requests-reset: 2026-11-21T10:00:00Z\r\n"
          "anthropic-ratelimit-tokens-limit: 80000\r\n"
          "anthropic-ratelimit-tokens-remaining: 0\r\n"
          "anthropic-ratelimit-tokens-reset: 2026-11-21T10:01:01Z\r\n");
    std::string out;
    append_anthropic_fields(Items{item_of(Unit::tokens, 1, 0, 1)},
                            kNow + std::chrono::microseconds{1}, out);
    CHECK(out.ends_with("reset: 2026-11-21T10:00:02Z\r\n"));
}

TEST_CASE("ratelimit_fields: of limits of one unit the providers' fields show the fewest left") {
    const Items items = {
        item_of(Unit::tokens, 2'000'000, 90'000, 60), item_of(Unit::tokens, 100'000, 89'999, 3),
        item_of(Unit::tokens, 100'000, 89'999, 4), item_of(Unit::tokens, 100'000, 89'999, 2)};
    CHECK(lines_of(LimitFields::openai, items) ==
          "x-ratelimit-limit-tokens: 100000\r\nx-ratelimit-remaining-tokens: 89999\r\n"
          "x-ratelimit-reset-tokens: 4s\r\n");
}

TEST_CASE("ratelimit_fields: the providers' fields show neither money nor slots nor schedules") {
    Items items = {item_of(Unit::microdollars, 500'000'000, 1, 1),
                   item_of(Unit::requests, 5, 3, std::nullopt), item_of(Unit::requests, 5, 2, 1),
                   item_of(Unit::tokens, 9, 9, 1)};
    items[1].kind = Kind::in_flight;
    items[2].kind = Kind::schedule;
    items[3].is_current = false;
    for (const LimitFields group : {LimitFields::openai, LimitFields::anthropic}) {
        CHECK(lines_of(group, items).empty());
    }
    CHECK(lines_of(LimitFields::openai, {item_of(Unit::requests, 0, 0, std::nullopt)}) ==
          "x-ratelimit-limit-requests: 0\r\nx-ratelimit-remaining-requests: 0\r\n");
}

TEST_CASE("ratelimit_fields: the providers' groups bring Retry-After") {
    for (const LimitFields group : {LimitFields::openai, LimitFields::anthropic}) {
        auto choice = LimitFieldsChoice::none();
        choice.add(group);
        CHECK(choice.has(LimitFields::retry_after));
        CHECK_FALSE(choice.has(LimitFields::ratelimit));
    }
}

TEST_CASE("ratelimit_fields: durations have hours at most") {
    const auto text = [](std::int64_t seconds) {
        std::string out;
        append_duration(seconds, out);
        return out;
    };
    CHECK(text(0) == "0s");
    CHECK(text(59) == "59s");
    CHECK(text(60) == "1m0s");
    CHECK(text(3'600) == "1h0m0s");
    CHECK(text(86'400 + 3'599) == "24h59m59s");
}

TEST_CASE("ratelimit_fields: money is shown in dollars, rounded down to three places") {
    const auto shown = [](std::int64_t quota, std::int64_t remaining) {
        const Items items = {{.name = "b",
                              .quota = quota,
                              .remaining = remaining,
                              .reset_seconds = 9,
                              .unit = Unit::microdollars}};
        return policy(items) + " " + state(items);
    };
    CHECK(shown(500'000'000, 499'999'999) == R"("b";q=500 "b";r=499.999;t=9)");
    CHECK(shown(1'500'000, 50'000) == R"("b";q=1.5 "b";r=0.05;t=9)");
    CHECK(shown(999, 0) == R"("b";q=0 "b";r=0;t=9)");
    CHECK(shown(1'000'000'000'000'000, 1'000) == R"("b";q=1000000000 "b";r=0.001;t=9)");
    CHECK(shown(std::numeric_limits<std::int64_t>::max(), 1) ==
          R"("b";q=999999999999.999 "b";r=0;t=9)");
    CHECK(
        lines_of(LimitFields::x_ratelimit, {item_of(Unit::microdollars, 2'500'000, 250'000, 7)}) ==
        "X-RateLimit-Limit: 2.5\r\nX-RateLimit-Remaining: 0.25\r\nX-RateLimit-Reset: 7\r\n");
}

TEST_CASE("ratelimit_fields: texts made beforehand say the same") {
    const Items items = {{"slots", 5, 0, 3, 0, Kind::in_flight},
                         {"plan", 1, 0, 0, 9, Kind::schedule},
                         {"a\"b", 10, 1, 7, 1}};
    const Prepared prepared(items);
    CHECK(policy(prepared.items) == policy(items));
    CHECK(state(prepared.items) == state(items));
}

TEST_CASE("ratelimit_fields: a scratch buffer with room is not replaced") {
    std::string out;
    out.reserve(512);
    const char* const before = out.data();
    const auto [items, texts] =
        Prepared({{"default-1s", 10, 1, 7, 1}, {"default-1min", 120, 60, 12, 3}});
    append_ratelimit_policy(items, out);
    append_ratelimit(items, out);
    append_x_ratelimit_fields(items, out);
    CHECK(out.data() == before);
}

}  // namespace
}  // namespace tidegate::http::ratelimit_fields_test
