// What decides without Redis, and without anything that could connect to it.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/failure_policy.hpp"
#include "store/refund.hpp"
#include "unit/metrics_text.hpp"
#include "unit/store_asking.hpp"

namespace tidegate::store::failure_policy_test {
namespace {

using namespace std::chrono_literals;
using limit::OnStoreFailure;
using Result = LimitDecision::Result;

struct Rig {
    Result decide(const limit::Policy& policy) {
        decision.items = {{&policy, "ip:192.0.2.1"}};
        failure_policy.decide(decision, StoreFailure::timeout);
        return decision.result;
    }
    bool metrics_have(const std::string& line) const {
        return test::has_line(test::text_of(metrics), line);
    }

    Replicas replicas{0};
    MemoryStore memory{MemoryStore::Options{.max_keys = 2, .on_full = OnFull::deny}};
    Metrics metrics;
    RedisStore redis;
    LocalReport report{redis, {}, metrics};
    FailurePolicy failure_policy{memory, &replicas, report, metrics};
    Refunds refunds{redis, memory, report, nullptr};
    LimitDecision decision;
};

limit::Policy policy(std::string name, std::int64_t quota, OnStoreFailure on_store_failure) {
    limit::Policy policy = test::policy(std::move(name), {test::window(quota, 1h)});
    policy.on_store_failure = on_store_failure;
    return policy;
}

}  // namespace

TEST_CASE("failure_policy: each failure is counted under its name") {
    CHECK(failure_of(redis::Failure::timeout) == StoreFailure::timeout);
    CHECK(failure_of(redis::Failure::disconnected) == StoreFailure::disconnected);
    CHECK(failure_of(redis::Failure::unavailable) == StoreFailure::unavailable);
    CHECK(failure_of(redis::Failure::overloaded) == StoreFailure::overloaded);
    CHECK(failure_of(redis::Failure::not_ready) == StoreFailure::refused);
    CHECK(failure_of(redis::Failure::refused) == StoreFailure::refused);
    Rig rig;
    CHECK(rig.decide(policy("open", 5, OnStoreFailure::allow)) == Result::admitted);
    CHECK(rig.metrics_have("tidegate_store_failures_total{reason=\"timeout\"} 1"));
}

TEST_CASE(
    "failure_policy: units taken in process wait for the report, unless they are given back") {
    Rig rig;
    rig.replicas = 2;
    limit::LimitSpec spec = test::spec_of(limit::Algorithm::sliding_window, 4, 1h);
    spec.count = limit::Count::by_status;
    spec.statuses = {401};
    limit::Policy login = test::policy("login", {test::made(spec)});
    login.on_store_failure = OnStoreFailure::local;
    CHECK(rig.failure_policy.knows_share());
    CHECK(rig.decide(login) == Result::admitted);
    CHECK(rig.decision.verdict.limits.at(0).remaining == 1);
    CHECK_FALSE(rig.report.empty());
    rig.refunds.give_back({rig.decision.charge(), rig.decision.verdict.receipt},
                          limit::Refund::Of::status, 200);
    CHECK(rig.decide(login) == Result::admitted);
    CHECK(rig.decision.verdict.limits.at(0).remaining == 1);
}

TEST_CASE("failure_policy: a store in process without room is unavailable, and counted") {
    Rig rig;
    const auto alone = policy("alone", 9, OnStoreFailure::local_or_alone);
    std::vector<std::string> names;
    for (int i = 0; i < 3; ++i) names.push_back("user:" + std::to_string(i));
    limit::Verdict verdict;
    for (int i = 0; i < 3; ++i) {
        const limit::ChargeItem item{&alone, names[static_cast<std::size_t>(i)]};
        const auto result = rig.failure_policy.charge({{&item, 1}, 1}, verdict);
        CHECK(result == (i < 2 ? Result::admitted : Result::unavailable));
    }
    CHECK(rig.metrics_have("tidegate_store_failures_total{reason=\"full\"} 1"));
}

}  // namespace tidegate::store::failure_policy_test
