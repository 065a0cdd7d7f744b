#include <string>

#include <doctest/doctest.h>

#include "ask/policy_texts.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::ask::policy_texts_test {
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

}  // namespace tidegate::ask::policy_texts_test
