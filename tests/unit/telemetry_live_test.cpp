#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/live.hpp"

namespace tidegate::telemetry::live_test {
namespace {

using namespace std::chrono_literals;
using Fine = FineHistogram<kRequestBounds>;
using WallTime = std::chrono::system_clock::time_point;

constexpr LiveSeries::SteadyTime kBegan{1h};

LiveSeries made() {
    return {Fine::kCutBounds, Fine::kCutBounds, kBegan};
}

LiveTotals totals_of(std::uint64_t requests) {
    LiveTotals totals;
    totals.outcomes[static_cast<std::size_t>(Outcome::forwarded)] = requests;
    totals.answers[1] = requests;
    totals.add_route("-", {0, 0});
    totals.add_route("search", {requests, requests / 2});
    LivePolicies policies;
    policies.add({"p", false});
    totals.add_policies(policies);
    totals.policies[0] = {2 * requests, requests};
    totals.request_cuts.assign(Fine::kCutBuckets, 0);
    totals.request_cuts[0] = requests;
    return totals;
}

TEST_CASE("live: a sample is what has changed since the one before") {
    LiveSeries series = made();
    series.add(totals_of(10), {}, WallTime{1000s}, kBegan + 1s);
    LiveGauges gauges;
    gauges.connections = 3;
    gauges.generation = 2;
    series.add(totals_of(25), std::move(gauges), WallTime{1001s}, kBegan + 2'500ms);
    REQUIRE(series.samples().size() == 2);
    CHECK(series.samples()[0].requests() == 10);
    const LiveSample& last = series.samples()[1];
    CHECK(last.time_ms == 1'001'000);
    CHECK(last.took_ms == 1'500);
    CHECK(last.requests() == 15);
    CHECK(last.answers[1] == 15);
    CHECK(last.routes == std::vector<LivePair>{{0, 0}, {15, 7}});
    CHECK(last.policies == std::vector<LivePair>{{30, 15}});
    CHECK(last.request_times.count == 15);
    CHECK(last.request_times.p99 == Fine::kCutBounds[0]);
    CHECK(last.decision_times.count == 0);
    CHECK(last.gauges.connections == 3);
    CHECK(last.gauges.generation == 2);
    CHECK(series.totals().requests() == 25);
}

TEST_CASE("live: the last 600 samples are kept, and their times only grow") {
    LiveSeries series = made();
    for (int i = 1; i <= 700; ++i) {
        // The clock is set back in the middle.
        const auto time = WallTime{i < 400 ? 5000s + i * 1s : 1000s};
        series.add(totals_of(static_cast<std::uint64_t>(i)), {}, time, kBegan + i * 1s);
    }
    REQUIRE(series.samples().size() == 600);
    CHECK(series.samples().front().time_ms == 5'101'000);
    for (std::size_t i = 1; i < 600; ++i) {
        CHECK(series.samples()[i].time_ms > series.samples()[i - 1].time_ms);
    }
}

TEST_CASE("live: beyond 64 names the rest is one column") {
    LivePolicies policies;
    for (int round = 0; round < 2; ++round) {  // two limits of each policy
        for (int i = 0; i < 70; ++i) {
            policies.add({"p" + std::to_string(i), false});
            policies.add({"p" + std::to_string(i), true});
        }
    }
    CHECK(policies.slots() == 280);
    CHECK(policies.columns() == 65);
    CHECK(policies.left() == 76);
    CHECK(policies.column(0) == 0);
    CHECK(policies.column(1) == 1);
    CHECK(policies.column(140) == 0);
    CHECK(policies.column(64) == 64);
    CHECK(policies.column(279) == 64);
    LiveTotals totals;
    totals.add_policies(policies);
    CHECK(totals.policy_names.size() == 64);
    CHECK(totals.policies.size() == 65);
    CHECK(totals.policies_left == 76);
    for (int i = 0; totals.has_room_for_route(); ++i) {
        totals.add_route("r" + std::to_string(i), {1, 0});
    }
    CHECK(totals.route_names.size() == 64);
    totals.add_other_routes(0, {});
    CHECK(totals.routes.size() == 64);
    totals.add_other_routes(2, {2, 0});
    CHECK(totals.routes_left == 2);
    CHECK(totals.routes.back() == LivePair{2, 0});

    LiveSeries series = made();
    LiveGauges gauges;
    gauges.upstreams.assign(70, {2, 1});
    series.add(std::move(totals), std::move(gauges), WallTime{}, kBegan + 1s);
    REQUIRE(series.samples()[0].gauges.upstreams.size() == 65);
    CHECK(series.samples()[0].gauges.upstreams.back().all == 12);
    CHECK(series.samples()[0].gauges.upstreams.back().up == 6);
}

TEST_CASE("live: names that a reload adds begin with 0") {
    LiveSeries series = made();
    series.add(totals_of(10), {}, WallTime{1000s}, kBegan + 1s);
    LiveTotals more = totals_of(10);
    more.add_route("login", {4, 0});
    series.add(std::move(more), {}, WallTime{1001s}, kBegan + 2s);
    CHECK(series.samples()[0].routes.size() == 2);
    CHECK(series.samples()[1].routes == std::vector<LivePair>{{0, 0}, {0, 0}, {4, 0}});
}

}  // namespace
}  // namespace tidegate::telemetry::live_test
