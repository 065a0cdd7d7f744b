#include <array>
#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "store/deny_cache.hpp"

namespace tidegate::store::deny_cache_test {

using namespace std::chrono_literals;
using limit::Micros;

namespace {

const SteadyTime kNow{std::chrono::hours{1'000}};

limit::Policy policy_with(limit::LimitSpec spec, std::uint32_t index = 0) {
    spec.quota = 5;
    if (spec.algorithm != limit::Algorithm::concurrency) spec.duration = 1h;
    limit::Policy policy;
    policy.name = "p";
    policy.limits = {*limit::make_limit(spec)};
    policy.index = index;
    return policy;
}

// A denial of one identifier by one limit.
struct Denied {
    explicit Denied(const limit::Policy& policy, std::string_view identifier = "user:a",
                    std::int64_t cost = 1)
        : item{&policy, identifier}, charge{{&item, 1}, cost} {
        verdict.admitted = false;
        verdict.retry_after = 2s;
        verdict.limits = {{.remaining = 0, .next_unit = 1s, .denied = true}};
    }
    limit::ChargeItem item;
    limit::Charge charge;
    limit::Verdict verdict;
};

}  // namespace

TEST_CASE("deny_cache: a denial is not remembered where a candidate may count the next request") {
    DenyCache cache{{}};
    auto live = policy_with({});
    auto candidate = policy_with({}, 1);
    live.has_candidate = candidate.shadow = true;
    candidate.candidate_of = &live;
    Denied denied(live);
    const std::array<limit::ChargeItem, 2> items{{{&live, "user:a"}, {&candidate, "user:a"}}};
    denied.charge.items = items;
    denied.verdict.limits.push_back({.remaining = 3});
    cache.remember(denied.charge, denied.verdict, kNow);
    CHECK(cache.size() == 0);
}

TEST_CASE("deny_cache: a denial holds until the moment it names, and not a microsecond longer") {
    DenyCache cache{{}};
    const auto policy = policy_with({});
    const Denied denied(policy);
    cache.remember(denied.charge, denied.verdict, kNow);
    limit::Verdict verdict;
    REQUIRE(cache.recall(denied.charge, kNow + 500ms, verdict));
    CHECK_FALSE(verdict.admitted);
    CHECK(verdict.retry_after == 1'500ms);
    CHECK(verdict.limits.at(0).denied);
    CHECK(verdict.limits.at(0).next_unit == 500ms);
    CHECK(cache.recall(denied.charge, kNow + 2s - 1us, verdict));
    CHECK(verdict.retry_after == 1us);
    CHECK(verdict.limits.at(0).next_unit == 0us);
    CHECK_FALSE(cache.recall(denied.charge, kNow + 2s, verdict));
}

TEST_CASE("deny_cache: what others may have changed since is marked, and `never` does not age") {
    DenyCache cache{{}};
    limit::Policy policy = policy_with({});
    for (int i = 0; i < 5; ++i) policy.limits.push_back(policy.limits[0]);
    Denied denied(policy, "user:a", 3);
    denied.verdict.retry_after = 4s;
    denied.verdict.limits = {
        {.remaining = 0, .next_unit = 4s, .denied = true},
        {.remaining = 0, .next_unit = 1s, .denied = true},
        {.remaining = 2, .next_unit = 3s, .denied = true},
        {.remaining = 7, .next_unit = 3s, .denied = false},
        {.remaining = 0, .next_unit = limit::kNever, .denied = true},
        {.remaining = 0, .next_unit = 0s, .denied = true},  // nothing taken, nothing left
    };
    cache.remember(denied.charge, denied.verdict, kNow);
    limit::Verdict verdict;
    REQUIRE(cache.recall(denied.charge, kNow + 2s, verdict));
    const auto& limits = verdict.limits;
    REQUIRE(limits.size() == 6);
    CHECK(limits[0].is_current);
    CHECK(limits[0].next_unit == 2s);
    CHECK(limits[0].denied);
    // It has a unit again: it may have ceased to deny, and how many are left is not known.
    CHECK_FALSE(limits[1].is_current);
    CHECK_FALSE(limits[1].denied);
    // Others may have taken the two, or some of the seven.
    CHECK_FALSE(limits[2].is_current);
    CHECK(limits[2].denied);
    CHECK_FALSE(limits[3].is_current);
    CHECK_FALSE(limits[3].denied);
    CHECK(limits[4].is_current);
    CHECK(limits[4].next_unit == limit::kNever);
    CHECK(limits[5].is_current);
    CHECK_FALSE(limits[4].tells_next_unit(policy.limits[4]));
    CHECK_FALSE(limits[5].tells_next_unit(policy.limits[5]));
    CHECK(limits[0].tells_next_unit(policy.limits[0]));
}

TEST_CASE("deny_cache: a denial of one limit names it as long as it holds") {
    DenyCache cache{{}};
    const auto policy = policy_with({});
    // A cost of 3 is denied for longer than until the first unit is free.
    Denied denied(policy, "user:a", 3);
    denied.verdict.retry_after = 4s;
    denied.verdict.limits = {{.remaining = 0, .next_unit = 1s, .denied = true}};
    cache.remember(denied.charge, denied.verdict, kNow);
    limit::Verdict verdict;
    REQUIRE(cache.recall(denied.charge, kNow + 2s, verdict));
    CHECK(verdict.limits[0].denied);
    CHECK_FALSE(verdict.limits[0].is_current);
}

TEST_CASE("deny_cache: no denial holds longer than max_ttl, not even one for ever") {
    DenyCache cache{{.max_ttl = 1s}};
    const auto policy = policy_with({});
    Denied denied(policy);
    denied.verdict.retry_after = limit::kNever;
    cache.remember(denied.charge, denied.verdict, kNow);
    limit::Verdict verdict;
    REQUIRE(cache.recall(denied.charge, kNow + 999ms, verdict));
    CHECK(verdict.retry_after == limit::kNever);
    CHECK_FALSE(cache.recall(denied.charge, kNow + 1s, verdict));
}

TEST_CASE("deny_cache: a lower cost may pass where a higher one was denied") {
    DenyCache cache{{}};
    const auto policy = policy_with({});
    const Denied three(policy, "user:a", 3);
    cache.remember(three.charge, three.verdict, kNow);
    limit::Verdict verdict;
    CHECK(cache.recall(Denied(policy, "user:a", 3).charge, kNow, verdict));
    CHECK(cache.recall(Denied(policy, "user:a", 4).charge, kNow, verdict));
    CHECK_FALSE(cache.recall(Denied(policy, "user:a", 2).charge, kNow, verdict));
    CHECK_FALSE(cache.recall(Denied(policy, "user:a", 0).charge, kNow, verdict));
}

TEST_CASE("deny_cache: another identifier, list of limits or set of items is another entry") {
    DenyCache cache{{}};
    const auto policy = policy_with({}, 1);
    const auto other = policy_with({}, 2);
    const Denied denied(policy);
    cache.remember(denied.charge, denied.verdict, kNow);
    limit::Verdict verdict;
    CHECK_FALSE(cache.recall(Denied(policy, "user:b").charge, kNow, verdict));
    CHECK_FALSE(cache.recall(Denied(other).charge, kNow, verdict));
    const limit::Tier tier{.name = "pro", .limits = policy.limits, .index = 3};
    const limit::ChargeItem as_pro[] = {{&policy, "user:a", &tier}};
    CHECK_FALSE(cache.recall({as_pro, 1}, kNow, verdict));
    const limit::ChargeItem both[] = {{&policy, "user:a"}, {&policy, "user:b"}};
    CHECK_FALSE(cache.recall({both, 1}, kNow, verdict));
    CHECK(cache.recall(denied.charge, kNow, verdict));
}

TEST_CASE("deny_cache: a denial that something else than time may end is not remembered") {
    DenyCache cache{{}};
    const auto remembers = [&](const limit::Policy& policy) {
        cache.clear(kNow - 1s);
        const Denied denied(policy);
        cache.remember(denied.charge, denied.verdict, kNow);
        limit::Verdict verdict;
        return cache.recall(denied.charge, kNow, verdict);
    };
    limit::LimitSpec spec;
    for (const auto algorithm : {limit::Algorithm::sliding_window, limit::Algorithm::fixed_window,
                                 limit::Algorithm::sliding_log, limit::Algorithm::gcra}) {
        spec.algorithm = algorithm;
        CHECK(remembers(policy_with(spec)));
    }
    for (const auto algorithm : {limit::Algorithm::leaky_bucket, limit::Algorithm::schedule,
                                 limit::Algorithm::concurrency}) {
        spec.algorithm = algorithm;
        CHECK_FALSE(remembers(policy_with(spec)));
    }
    limit::LimitSpec hammered;
    hammered.count = limit::Count::all;
    CHECK_FALSE(remembers(policy_with(hammered)));
    limit::LimitSpec login;
    login.count = limit::Count::by_status;
    login.statuses = {401};
    CHECK_FALSE(remembers(policy_with(login)));
}

TEST_CASE("deny_cache: policies in shadow do not matter, and say what they said before") {
    const auto enforced = policy_with({}, 1);
    limit::LimitSpec spec;
    spec.count = limit::Count::all;
    auto shadow = policy_with(spec, 2);
    shadow.shadow = true;
    shadow.limits.push_back(policy_with({}).limits[0]);
    spec.algorithm = limit::Algorithm::concurrency;
    spec.count = limit::Count::admitted;
    shadow.limits.push_back(policy_with(spec).limits[0]);
    // Also in front of what is enforced.
    const std::array<limit::ChargeItem, 2> items{limit::ChargeItem{&shadow, "user:a"},
                                                 limit::ChargeItem{&enforced, "user:a"}};
    const limit::Charge charge{items, 1};
    limit::Verdict denied;
    denied.admitted = denied.shadow_admitted = false;
    denied.retry_after = 4s;
    denied.limits = {{.remaining = 0, .next_unit = 1s, .denied = true},
                     {.remaining = 0, .next_unit = 9s, .denied = true},
                     {.remaining = 2, .next_unit = limit::kNever, .denied = false},
                     {.remaining = 0, .next_unit = 4s, .denied = true}};
    DenyCache cache{{}};
    cache.remember(charge, denied, kNow);
    limit::Verdict verdict;
    REQUIRE(cache.recall(charge, kNow + 2s, verdict));
    CHECK_FALSE(verdict.admitted);
    CHECK(verdict.retry_after == 2s);
    // It has a unit again.
    CHECK_FALSE(verdict.limits.at(0).denied);
    CHECK(verdict.limits.at(1).denied);
    CHECK_FALSE(verdict.limits.at(2).denied);
    CHECK(verdict.limits.at(3).denied);
    CHECK(verdict.limits.at(3).is_current);
    CHECK_FALSE(verdict.shadow_admitted);

    denied.limits[1].next_unit = 1s;
    cache.remember(charge, denied, kNow);
    REQUIRE(cache.recall(charge, kNow + 2s, verdict));
    CHECK(verdict.shadow_admitted);
    // A denial in shadow is none that keeps another alive.
    denied.limits[1].next_unit = 9s;
    denied.limits[3].next_unit = 1s;
    cache.remember(charge, denied, kNow);
    REQUIRE(cache.recall(charge, kNow + 2s, verdict));
    CHECK(verdict.limits.at(3).denied);
}

TEST_CASE("deny_cache: a fixed window that counts denied requests is remembered once it is full") {
    limit::LimitSpec spec;
    spec.algorithm = limit::Algorithm::fixed_window;
    spec.count = limit::Count::all;
    const auto fixed = policy_with(spec);
    limit::Verdict verdict;
    const auto is_remembered = [&](const limit::Policy& policy, const limit::LimitVerdict& one,
                                   Micros retry_after) {
        DenyCache cache{{}};
        Denied denied(policy);
        denied.verdict.retry_after = retry_after;
        denied.verdict.limits = {one};
        cache.remember(denied.charge, denied.verdict, kNow);
        return cache.recall(denied.charge, kNow, verdict);
    };
    const limit::LimitVerdict full{.remaining = 0, .next_unit = 2s, .denied = true};
    CHECK(is_remembered(fixed, full, 2s));
    // It ends before the denial does: then the next window has to count.
    CHECK_FALSE(is_remembered(fixed, full, 3s));
    CHECK_FALSE(is_remembered(fixed, {.remaining = 1, .next_unit = 2s, .denied = true}, 2s));
    spec.algorithm = limit::Algorithm::sliding_window;
    CHECK_FALSE(is_remembered(policy_with(spec), full, 2s));
}

TEST_CASE("deny_cache: it is bounded, the oldest goes first, and it can be off or emptied") {
    DenyCache cache{{.max_ttl = 1h, .entries = 3}};
    const auto policy = policy_with({});
    limit::Verdict verdict;
    const auto remembers = [&](std::string_view name) {
        return cache.recall(Denied(policy, name).charge, kNow, verdict);
    };
    for (const std::string_view name : {"user:a", "user:b", "user:a", "user:c", "user:d"}) {
        const Denied denied(policy, name);
        cache.remember(denied.charge, denied.verdict, kNow);
        CHECK(cache.size() <= 3);
    }
    CHECK_FALSE(remembers("user:a"));
    CHECK(remembers("user:b"));
    CHECK(remembers("user:d"));
    cache.clear(kNow - 1s);
    CHECK(cache.size() == 0);
    CHECK_FALSE(remembers("user:d"));

    DenyCache off{{.max_ttl = 1h, .entries = 0}};
    const Denied denied(policy);
    off.remember(denied.charge, denied.verdict, kNow);
    CHECK_FALSE(off.recall(denied.charge, kNow, verdict));
}

TEST_CASE("deny_cache: an answer to a question from before a reload is not remembered") {
    DenyCache cache{{}};
    const limit::Policy policy = policy_with({});
    const Denied denied(policy);
    limit::Verdict verdict;
    cache.clear(kNow);
    cache.remember(denied.charge, denied.verdict, kNow - 1us);
    CHECK_FALSE(cache.recall(denied.charge, kNow, verdict));
    cache.remember(denied.charge, denied.verdict, kNow + 1us);
    CHECK(cache.recall(denied.charge, kNow + 1us, verdict));

    cache.restart({.max_ttl = 1h, .entries = 0}, kNow + 2us);
    CHECK(cache.size() == 0);
    cache.remember(denied.charge, denied.verdict, kNow + 3us);
    CHECK_FALSE(cache.recall(denied.charge, kNow + 3us, verdict));
}

TEST_CASE("deny_cache: a denial from before units were given back does not hold") {
    FreedIdentifiers freed;
    DenyCache cache{{}, &freed};
    const auto policy = policy_with({});
    const Denied denied(policy);
    const Denied other(policy, "user:b");
    cache.remember(denied.charge, denied.verdict, kNow);
    cache.remember(other.charge, other.verdict, kNow);
    limit::Verdict verdict;
    REQUIRE(cache.recall(denied.charge, kNow + 1ms, verdict));
    freed.add("user:a", kNow + 1ms);
    CHECK_FALSE(cache.recall(denied.charge, kNow + 1ms, verdict));
    CHECK(cache.recall(other.charge, kNow + 1ms, verdict));
    // Asked before, answered after: the answer may be from before.
    cache.remember(denied.charge, denied.verdict, kNow + 1ms);
    CHECK_FALSE(cache.recall(denied.charge, kNow + 2ms, verdict));
    cache.remember(denied.charge, denied.verdict, kNow + 2ms);
    CHECK(cache.recall(denied.charge, kNow + 2ms, verdict));
}

TEST_CASE("freed identifiers: known from when they were added, and beside others") {
    FreedIdentifiers freed;
    const SteadyTime now{1h};
    const std::array<limit::ChargeItem, 2> items{limit::ChargeItem{nullptr, "user:a"},
                                                 limit::ChargeItem{nullptr, "user:b"}};
    CHECK_FALSE(freed.any(items, now));
    freed.add("user:b", now);
    CHECK(freed.any(items, now));
    CHECK(freed.any(items, now - 1s));
    CHECK_FALSE(freed.any(items, now + 1ns));
    CHECK_FALSE(freed.any({items.data(), 1}, now));
    // Another worker was quicker.
    freed.add("user:b", now - 1s);
    CHECK(freed.any(items, now));
    freed.add("user:c", now + 1s);
    CHECK_FALSE(freed.any(items, now + 1ns));
}

TEST_CASE("deny_cache: a denial by the quota of one token does not hold for that of another") {
    DenyCache cache{{}};
    const auto policy = policy_with({});
    limit::Tier few{.name = "", .limits = policy.limits, .index = policy.index, .by_claims = true};
    limit::Tier many = few;
    many.limits.front().quota = 500;
    Denied denied(policy);
    denied.item.tier = &few;
    cache.remember(denied.charge, denied.verdict, kNow);
    limit::Verdict verdict;
    CHECK(cache.recall(denied.charge, kNow, verdict));
    denied.item.tier = &many;
    CHECK_FALSE(cache.recall(denied.charge, kNow, verdict));
}

}  // namespace tidegate::store::deny_cache_test
