#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/live.hpp"
#include "telemetry/metric.hpp"

namespace tidegate::telemetry::live_test {

namespace {

using namespace std::chrono_literals;
using Fine = FineHistogram<kRequestBounds>;
using WallTime = std::chrono::system_clock::time_point;

constexpr SteadyTime kBegan{1h};

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

TEST_CASE("live: costs have the unit of their policy, and the rest has none") {
    LivePolicies policies;
    for (int i = 0; i < 70; ++i) policies.add({"p" + std::to_string(i), false});
    policies.set_unit(3, CostUnit::tokens);
    policies.set_unit(1, CostUnit::units);
    policies.set_unit(1, CostUnit::usd);  // after a reload
    policies.set_unit(69, CostUnit::usd);
    using Units = std::vector<std::optional<CostUnit>>;
    CHECK(policies.units() == Units{{}, CostUnit::usd, {}, CostUnit::tokens});
    LiveSeries series = made();
    for (const std::uint64_t settled : {10, 25}) {
        LiveTotals totals;
        totals.add_policies(policies);
        REQUIRE(totals.costs.size() == 4);
        totals.costs[3] = {settled, 2 * settled};
        series.add(std::move(totals), {}, WallTime{1000s}, kBegan + 1s);
    }
    CHECK(series.samples()[1].costs == std::vector<LiveCost>{{}, {}, {}, {15, 30}});
}

Percentiles percentiles_of(const Fine& histogram) {
    std::vector<std::uint64_t> counts;
    for (std::size_t i = 0; i < Fine::kCutBuckets; ++i) counts.push_back(histogram.cut_bucket(i));
    return telemetry::percentiles_of(Fine::kCutBounds, counts);
}

// At least as high, and at most 26% too high.
void is_bound_of(nanoseconds bound, nanoseconds exact) {
    CHECK(bound >= exact);
    CHECK(static_cast<double>(bound.count()) <= 1.26 * static_cast<double>(exact.count()));
}

TEST_CASE("percentiles: each is at most 26% too high, whatever the times are") {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        std::mt19937 random(seed);
        std::lognormal_distribution<double> times(std::log(3e6), 0.2 * (1 + seed % 5));
        Fine histogram;
        std::vector<nanoseconds> all;
        for (int i = 0; i < 5'000; ++i) {
            const auto took = std::clamp<nanoseconds>(
                nanoseconds(static_cast<std::int64_t>(times(random))), 260us, 9s);
            all.push_back(took);
            histogram.observe(took);
        }
        std::sort(all.begin(), all.end());
        const Percentiles found = percentiles_of(histogram);
        CHECK(found.count == 5'000);
        is_bound_of(found.p50, all[2'499]);
        is_bound_of(found.p99, all[4'949]);
        is_bound_of(found.p999, all[4'994]);
    }
}

TEST_CASE("percentiles: times below the first cut or above the last bound give that bound") {
    Fine quick;
    quick.observe(0ns);
    quick.observe(-1ns);
    CHECK(percentiles_of(quick).p50 == Fine::kCutBounds.front());
    CHECK(Fine::kCutBounds.front() < 252us);
    Fine slow;
    slow.observe(1h);
    CHECK(percentiles_of(slow).p50 == 10s);
    CHECK(percentiles_of(slow).count == 1);
    CHECK(percentiles_of(Fine()).count == 0);
    CHECK(percentiles_of(Fine()).p99 == 0ns);
}

TEST_CASE("fine_histogram: its buckets are those of the coarse one, at every bound and beside it") {
    Fine fine;
    Histogram<kRequestBounds> coarse;
    const auto observe = [&](nanoseconds took) {
        fine.observe(took);
        coarse.observe(took);
    };
    for (const nanoseconds bound : Fine::kCutBounds) {
        for (const nanoseconds off : {-1ns, 0ns, 1ns}) observe(bound + off);
    }
    observe(-1ns);
    observe(1h);
    for (std::size_t i = 0; i < Fine::kBuckets; ++i) CHECK(fine.bucket(i) == coarse.bucket(i));
    CHECK(fine.sum_ns() == coarse.sum_ns());
    CHECK(std::is_sorted(Fine::kCutBounds.begin(), Fine::kCutBounds.end()));
    for (std::size_t i = 1; i < Fine::kCutBounds.size(); ++i) {
        is_bound_of(Fine::kCutBounds[i], Fine::kCutBounds[i - 1]);
    }
}

}  // namespace

}  // namespace tidegate::telemetry::live_test
