#include <string>

#include <doctest/doctest.h>

#include "ask/metrics.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::ask::metrics_test {

using telemetry::kNoSlot;
using telemetry::MetricNames;
using telemetry::MetricSlots;
using test::sample;

namespace {

struct Rig {
    MetricSlots admit(const std::vector<MetricNames::PolicyNames>& policies) {
        const MetricSlots slots =
            names.admit({.routes = {}, .policies = policies, .upstreams = {}});
        first.grow(names.decisions.size());
        second.grow(names.decisions.size());
        return slots;
    }
    std::string text() const { return test::text_of({&first, &second}, names); }
    std::string decisions(const std::string& labels) const {
        return sample(text(), "tidegate_decisions_total{" + labels + "}");
    }

    telemetry::NameRegistry names;
    Metrics first{100};
    Metrics second{100};
};

}  // namespace

TEST_CASE("metrics: decisions are counted by policy, limit and answer; unknown ones are ignored") {
    Rig rig;
    const MetricSlots slots =
        rig.admit({{"per-client", {"burst", "hour"}}, {"strict", {"minute"}}});
    rig.first.count_decision(slots.decision(0, 1), false);
    rig.first.count_decision(slots.decision(0, 1), false);
    rig.first.count_decision(slots.decision(1, 0), true);
    rig.first.count_decision(slots.decision(0, 2), true);  // not the first limit of the next policy
    rig.first.count_decision(slots.decision(1, 1), true);
    rig.first.count_decision(slots.decision(2, 0), true);
    rig.first.count_decision(slots.decision(kNoSlot, 0), true);
    CHECK(rig.decisions(R"(policy="per-client",limit="hour",outcome="admitted")") == "2");
    CHECK(rig.decisions(R"(policy="per-client",limit="hour",outcome="denied")") == "0");
    CHECK(rig.decisions(R"(policy="per-client",limit="burst",outcome="admitted")") == "0");
    CHECK(rig.decisions(R"(policy="strict",limit="minute",outcome="denied")") == "1");
}

TEST_CASE("metrics: lists that name the same policy and limit are one series") {
    Rig rig;
    const MetricSlots slots = rig.admit({{"p", {"1s", "1min"}}, {"p", {"1min", "1h"}}});
    rig.first.count_decision(slots.decision(0, 1), false);
    rig.second.count_decision(slots.decision(1, 0), false);
    rig.second.count_decision(slots.decision(1, 1), true);
    rig.second.count_decision(slots.decision(1, 2), true);
    const std::string line =
        R"(tidegate_decisions_total{policy="p",limit="1min",outcome="admitted"})";
    const std::string text = rig.text();
    CHECK(sample(text, line) == "2");
    CHECK(text.find(line) == text.rfind(line));
    CHECK(rig.decisions(R"(policy="p",limit="1h",outcome="denied")") == "1");
}

TEST_CASE("metrics: a policy in shadow has outcomes of its own") {
    Rig rig;
    rig.first.count_decision(rig.admit({{"p", {"1s"}, true}}).decision(0, 0), true);
    CHECK(rig.decisions(R"(policy="p",limit="1s",outcome="shadow_denied")") == "1");
    CHECK(rig.decisions(R"(policy="p",limit="1s",outcome="denied")") == "absent");
}

TEST_CASE("metrics: a policy that leaves the shadow begins a series and keeps the old one") {
    Rig rig;
    rig.first.count_decision(rig.admit({{"p", {"1s"}, true}}).decision(0, 0), true);
    rig.first.count_decision(rig.admit({{"p", {"1s"}, false}}).decision(0, 0), true);
    CHECK(rig.decisions(R"(policy="p",limit="1s",outcome="shadow_denied")") == "1");
    CHECK(rig.decisions(R"(policy="p",limit="1s",outcome="denied")") == "1");
}

TEST_CASE("metrics: settled costs, what they had reserved, and dollars by model") {
    Rig rig;
    const MetricSlots slots =
        rig.names.admit({.routes = {},
                         .policies = {{"tokens", {"1min"}}, {"budget", {"d"}}},
                         .upstreams = {},
                         .models = {"gpt-x*", "claude*"}});
    rig.first.grow(rig.names.decisions.size());
    rig.second.grow(rig.names.decisions.size());
    rig.first.count_cost(slots.decision(0, 0), 120, 700);
    rig.second.count_cost(slots.decision(0, 0), 30, 100);
    rig.first.count_cost(slots.decision(1, 0), 1'500'000, 2'000'000);
    rig.first.count_money(slots.decision(1, 0), slots.model(1), 1'500'000);
    rig.second.count_money(slots.decision(1, 0), slots.model(1), 250'000);
    rig.second.count_money(slots.decision(1, 0), slots.model(99), 1);
    rig.second.count_money(kNoSlot, slots.model(0), 1);
    const std::string text = rig.text();
    CHECK(sample(text, R"(tidegate_usage_cost_total{policy="tokens"})") == "150");
    CHECK(sample(text, R"(tidegate_usage_reserved_total{policy="tokens"})") == "800");
    CHECK(sample(text, R"(tidegate_usage_cost_total{policy="budget"})") == "1500000");
    const std::string dollars = R"(tidegate_usage_usd_total{policy="budget",model=")";
    CHECK(sample(text, dollars + R"(claude*"})") == "1.75");
    CHECK(sample(text, dollars + R"(other"})") == "1e-06");
    CHECK(sample(text, dollars + R"(gpt-x*"})") == "absent");
    CHECK(text.find(R"(usd_total{policy="tokens")") == std::string::npos);
}

TEST_CASE("metrics: without policies there is no series of decisions") {
    CHECK(Rig().text().find("tidegate_decisions_total") == std::string::npos);
}

TEST_CASE("metrics: ignored costs and forwarding fields") {
    Rig rig;
    rig.first.cost_ignored[CostFault::untrusted].add();
    rig.second.forwarding_invalid.add();
    rig.first.forwarding_ignored.add();
    rig.second.forwarding_ignored.add();
    const std::string text = rig.text();
    CHECK(sample(text, R"(tidegate_cost_ignored_total{reason="untrusted"})") == "1");
    CHECK(sample(text, R"(tidegate_cost_ignored_total{reason="out_of_range"})") == "0");
    CHECK(sample(text, "tidegate_forwarding_invalid_total") == "1");
    CHECK(sample(text, "tidegate_forwarding_ignored_total") == "2");
}

}  // namespace tidegate::ask::metrics_test
