#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "ask/ruleset.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::ask::verdict_test {

using namespace std::chrono_literals;
using limit::Micros;
using Decided = store::LimitDecision::Result;

namespace {

// A denial by the limits of one policy.
std::int64_t seconds_told(Micros retry_after, const std::vector<limit::LimitVerdict>& verdicts,
                          bool shadow = false) {
    limit::Policy policy;
    policy.limits.resize(verdicts.size());
    policy.shadow = shadow;
    store::LimitDecision decision;
    decision.items.push_back({&policy, "ip:203.0.113.7"});
    decision.verdict.admitted = false;
    decision.verdict.retry_after = retry_after;
    decision.verdict.limits = verdicts;
    return retry_after_seconds(decision);
}

std::int64_t seconds_told(Micros retry_after, Micros next_unit) {
    return seconds_told(retry_after, {{.remaining = 0, .next_unit = next_unit, .denied = true}});
}

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";
const std::string kTrusting =
    "identity: {client_ip: {trusted_proxies: [203.0.113.0/24]},"
    " user: [{header: {name: x-user-id, from: trusted_proxies}}]}\n";

}  // namespace

TEST_CASE("verdict: Retry-After is whole seconds, rounded up, and at least 1") {
    CHECK(seconds_told(0us, 0us) == 1);
    CHECK(seconds_told(1us, 0us) == 1);
    CHECK(seconds_told(1s, 0us) == 1);
    CHECK(seconds_told(1s + 1us, 0us) == 2);
    CHECK(seconds_told(1h, 0us) == 3600);
}

TEST_CASE("verdict: Retry-After is never earlier than the next unit of a limit that refused") {
    CHECK(seconds_told(1s, 5s) == 5);
    const limit::LimitVerdict two{.remaining = 0, .next_unit = 2s, .denied = true};
    CHECK(seconds_told(1s, {two, {.remaining = 3, .next_unit = 9s, .denied = false}}) == 2);
    CHECK(seconds_told(1s, {two}, true) == 1);
}

TEST_CASE("verdict: a request that can never pass gets no time to come back") {
    CHECK(seconds_told(limit::kNever, 1s) == 0);
    CHECK(seconds_told(3s, limit::kNever) == 3);
}

TEST_CASE("verdict: a candidate is counted by what would change, and clients are not told of it") {
    World world(
        "upstream: http://127.0.0.1:3000\npolicies:\n"
        "  p: {key: [ip], limits: [10/s], candidate: {limits: [5/s]}}\n"
        "  q: {key: [ip], limits: [90/s]}\n"
        "default_policies: [p, q]\n");
    // Whether the limits of p, of its candidate and of q deny.
    const auto decide = [&](bool live, bool candidate, bool other) {
        Request request(world, get());
        REQUIRE(request.decide() == Fault::none);
        auto& charge = request.decision.charge;
        REQUIRE(charge.items.size() == 3);
        charge.result = live || other ? Decided::limited : Decided::admitted;
        charge.verdict.admitted = !live && !other;
        charge.verdict.retry_after = 1s;
        charge.verdict.limits = {{.denied = live}, {.denied = candidate}, {.denied = other}};
        request.apply_verdict();
        CHECK(request.decision.ratelimit.size() == 2);
        CHECK(request.decision.goes_on() == (!live && !other));
        return is_refused_by_candidate(charge);
    };
    CHECK_FALSE(decide(false, false, false));
    CHECK(decide(false, true, false));
    CHECK_FALSE(decide(true, false, false));
    CHECK(decide(true, true, false));
    CHECK(decide(false, false, true));
    CHECK(decide(true, false, true));
    const std::string figures = world.figures();
    const auto count = [&](const std::string& live, const std::string& candidate) {
        const std::string line = "tidegate_candidate_total{policy=\"p\",live=\"" + live +
                                 "\",candidate=\"" + candidate + "\"} ";
        const auto at = figures.find(line);
        REQUIRE_MESSAGE(at != figures.npos, figures);
        return std::stoi(figures.substr(at + line.size()));
    };
    CHECK(count("admitted", "admitted") == 1);
    CHECK(count("admitted", "denied") == 1);
    CHECK(count("denied", "admitted") == 1);
    // What another policy denies is denied in both worlds.
    CHECK(count("denied", "denied") == 3);
}

TEST_CASE("verdict: the answer has each limit once, for the identifier with least left") {
    World world(kUpstream + "limits: [10/s, 100/min]\n" + kTrusting);
    Request request(world, get("X-User-Id: alice\r\n"), true);
    REQUIRE(request.decide() == Fault::none);
    REQUIRE(request.decision.charge.items.size() == 2);
    auto& decision = request.decision.charge;
    decision.result = Decided::admitted;
    decision.verdict.limits = {{.remaining = 7, .next_unit = 1s},
                               {.remaining = 20, .next_unit = 2s},
                               {.remaining = 9, .next_unit = 3s},
                               {.remaining = 11, .next_unit = 3500ms}};
    request.apply_verdict();
    CHECK(request.decision.fault == Fault::none);
    const auto& told = request.decision.ratelimit;
    REQUIRE(told.size() == 2);
    CHECK(told[0].name == "default-1s");
    CHECK(told[0].quota == 10);
    CHECK(told[0].remaining == 7);
    CHECK(told[0].reset_seconds == 1);
    CHECK(told[1].name == "default-1min");
    CHECK(told[1].window_seconds == 60);
    CHECK(told[1].remaining == 11);
    CHECK(told[1].reset_seconds == 4);
}

TEST_CASE(
    "verdict: a soft policy is over, and the fields of answers show only limits that refuse") {
    World world(
        "upstream: http://127.0.0.1:3000\npolicies:\n"
        "  advice: {key: [ip], limits: [100/min], mode: soft}\n"
        "  p: {key: [ip], limits: [40000/min]}\n"
        "default_policies: [advice, p]\n");
    Request request(world, get());
    REQUIRE(request.decide() == Fault::none);
    auto& decision = request.decision.charge;
    REQUIRE(decision.items.size() == 2);
    decision.result = Decided::admitted;
    decision.verdict.limits = {{.remaining = 0, .next_unit = 60s, .denied = true},
                               {.remaining = 39'000, .next_unit = 1s}};
    request.apply_verdict();
    const auto& told = request.decision.ratelimit;
    REQUIRE(told.size() == 1);
    CHECK(told[0].name == "p-1min");
    CHECK(told[0].remaining == 39'000);
}

TEST_CASE("verdict: of two identifiers with as little left, the answer has the longer wait") {
    World world(kUpstream + "limits: [10/s]\n" + kTrusting);
    Request request(world, get("X-User-Id: alice\r\n"), true);
    REQUIRE(request.decide() == Fault::none);
    auto& decision = request.decision.charge;
    decision.result = Decided::limited;
    decision.verdict.limits = {{.remaining = 0, .next_unit = 1s},
                               {.remaining = 0, .next_unit = 3s, .denied = true}};
    request.apply_verdict();
    CHECK(request.decision.fault == Fault::limited);
    REQUIRE(request.decision.ratelimit.size() == 1);
    CHECK(request.decision.ratelimit[0].reset_seconds == 3);
}

TEST_CASE(
    "verdict: where a remembered denial does not know what is left, the answer does not say") {
    World world(kUpstream + "limits: [10/s, 100/min]\n" + kTrusting);
    Request request(world, get("X-User-Id: alice\r\n"), true);
    REQUIRE(request.decide() == Fault::none);
    auto& decision = request.decision.charge;
    decision.result = Decided::limited;
    const limit::LimitVerdict full{.remaining = 0, .next_unit = 3s, .denied = true};
    const limit::LimitVerdict unknown{.remaining = 4, .next_unit = 9s, .is_current = false};
    decision.verdict.limits = {unknown, unknown, full, {.remaining = 7, .next_unit = 1s}};
    request.apply_verdict();
    const auto& told = request.decision.ratelimit;
    REQUIRE(told.size() == 2);
    CHECK(told[0].is_current);
    CHECK(told[0].reset_seconds == 3);
    // One of the two identifiers may have nothing left.
    CHECK_FALSE(told[1].is_current);
}

TEST_CASE("verdict: a limit that has nothing to give, ever, names no time") {
    World world(kUpstream + "limits: [10/s]\n" + kTrusting);
    Request request(world, get(""), true);
    REQUIRE(request.decide() == Fault::none);
    auto& decision = request.decision.charge;
    decision.result = Decided::limited;
    for (const limit::Micros next : {limit::Micros{0}, limit::kNever}) {
        request.decision.ratelimit.clear();
        decision.verdict.limits = {{.remaining = 0, .next_unit = next, .denied = true}};
        request.apply_verdict();
        CHECK_FALSE(request.decision.ratelimit.at(0).reset_seconds);
    }
}

TEST_CASE("verdict: a quota of 0 names no time, also where something was counted") {
    World world(kUpstream + "limits: [{quota: 0, per: 10s, count: all}, 5/s]\n");
    Request request(world, get(""));
    REQUIRE(request.decide() == Fault::none);
    auto& decision = request.decision.charge;
    decision.result = Decided::limited;
    decision.verdict.admitted = false;
    decision.verdict.retry_after = limit::kNever;
    decision.verdict.limits = {{.remaining = 0, .next_unit = 9s, .denied = true},
                               {.remaining = 0, .next_unit = 1s}};
    request.apply_verdict();
    const auto& told = request.decision.ratelimit;
    REQUIRE(told.size() == 2);
    CHECK(told[0].quota == 0);
    CHECK_FALSE(told[0].reset_seconds);
    CHECK(told[1].reset_seconds == 1);
    CHECK(retry_after_seconds(decision) == 0);
}

TEST_CASE(
    "verdict: of a limit of which nothing is used, all is left for the length of its window") {
    World world(kUpstream +
                "limits: [10/s, {quota: 20, per: 700ms}, {quota: 5, per: 1h, algorithm: gcra}, "
                "{quota: 9, anchor: utc_month, algorithm: fixed_window}, "
                "{quota: 3, algorithm: concurrency}]\n");
    Request request(world, get(""));
    REQUIRE(request.decide() == Fault::none);
    auto& decision = request.decision.charge;
    decision.result = Decided::admitted;
    decision.verdict.limits.clear();
    for (const limit::Limit& limit : decision.items.at(0).limits()) {
        decision.verdict.limits.push_back({.remaining = limit.quota, .next_unit = 0us});
    }
    request.apply_verdict();
    const auto& told = request.decision.ratelimit;
    REQUIRE(told.size() == 5);
    CHECK(told[0].remaining == 10);
    CHECK(told[0].reset_seconds == 1);
    CHECK(told[1].reset_seconds == 1);
    CHECK(told[2].reset_seconds == 3600);
    // Months differ.
    CHECK(told[3].remaining == 9);
    CHECK_FALSE(told[3].reset_seconds);
    CHECK(told[4].reset_seconds == 0);
}

TEST_CASE("verdict: units taken are of what the limit allows at once") {
    limit::LimitSpec spec;
    spec.quota = 10;
    spec.duration = 1s;
    const auto window = *limit::make_limit(spec);
    CHECK(units_taken(window, {.remaining = 3}).count == 7);
    CHECK(units_taken(window, {.remaining = 3}).of == 10);
    // A store that counts by another share may say more than there is.
    CHECK(units_taken(window, {.remaining = 11}).count == 0);
    spec.algorithm = limit::Algorithm::gcra;
    spec.burst = 25;
    const auto bucket = *limit::make_limit(spec);
    CHECK(units_taken(bucket, {.remaining = 0}).count == 25);
    CHECK(units_taken(bucket, {.remaining = 20}).count == 5);
    CHECK(units_taken(bucket, {.remaining = 20}).of == 25);
}

TEST_CASE("verdict: a store that does not answer is not shown as a limit that was reached") {
    World world(kUpstream + "limits: [10/s]\n");
    Request request(world, get());
    REQUIRE(request.decide() == Fault::none);
    request.decision.charge.result = Decided::unavailable;
    request.apply_verdict();
    CHECK(request.decision.fault == Fault::store_unavailable);
    CHECK(request.decision.ratelimit.empty());
}

namespace {

const std::string kConfiguration =
    "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
    "policies:\n"
    "  plan:\n"
    "    key: [ip]\n"
    "    limits: [{name: burst, quota: 5, per: 1s}, 10/min, 7/week]\n"
    "    tiers: {pro: [{name: burst, quota: 50, per: 1s}]}\n"
    "  billed:\n"
    "    key: [ip]\n"
    "    limits:\n"
    "      - {quota: 1, algorithm: fixed_window, anchor: utc_day}\n"
    "      - {quota: 2, algorithm: fixed_window, anchor: utc_week}\n"
    "      - {quota: 3, algorithm: fixed_window, anchor: utc_month}\n"
    "routes: [{name: all, policies: [plan, billed, {key: [ip], limits: [9/h]}]}]\n";

}  // namespace

TEST_CASE("policy_texts: each limit is called by its policy and its own name") {
    const auto config = load(kConfiguration);
    const PolicyTexts texts(*config);
    const limit::ChargeItem plan{config->policies[0].get(), {}};
    CHECK(texts.of(plan, 0).name == "plan-burst");
    CHECK(texts.of(plan, 0).members.policy == "\"plan-burst\";q=5;w=1");
    CHECK(texts.of(plan, 0).json_begin ==
          R"({"policy":"plan","limit":"plan-burst","identifier":")");
    CHECK(texts.of(plan, 0).json_quota == R"(","quota":5,"left":)");
    CHECK(texts.of(plan, 1).name == "plan-1min");
    CHECK(texts.of(plan, 2).members.policy == "\"plan-7day\";q=7;w=604800");
    const limit::ChargeItem pro{plan.policy, {}, &plan.policy->tiers[0]};
    CHECK(texts.of(pro, 0).members.policy == "\"plan-burst\";q=50;w=1");
    const limit::ChargeItem inline_policy{config->policies[2].get(), {}};
    CHECK(texts.of(inline_policy, 0).name == "all/2-1h");
}

TEST_CASE("policy_texts: a month has no `w`, as months differ; a day and a week have") {
    const auto config = load(kConfiguration);
    const PolicyTexts texts(*config);
    const limit::ChargeItem billed{config->policies[1].get(), {}};
    CHECK(texts.of(billed, 0).members.policy == "\"billed-utc_day\";q=1;w=86400");
    CHECK(texts.of(billed, 1).members.policy == "\"billed-utc_week\";q=2;w=604800");
    CHECK(texts.of(billed, 2).members.policy == "\"billed-utc_month\";q=3");
    CHECK(texts.of(billed, 2).members.state == "\"billed-utc_month\";r=");
}

}  // namespace tidegate::ask::verdict_test
