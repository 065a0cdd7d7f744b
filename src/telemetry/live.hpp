// Live samples say what the process did in each second of the last ten minutes. They come from
// counters that are read once a second: no request pays for it.
//
// One thread. Bounded: kSamples samples of at most kLiveColumnsMax routes, policies and upstreams;
// what is beyond is summed up in one column more.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/timestamp.hpp"
#include "telemetry/access_log_fields.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/metric.hpp"

namespace tidegate::telemetry {

// Percentiles of times, from the counts of a FineHistogram: upper bounds of where they lie, at most
// 26% too high between the first bound / 2.5 and the last bound. Below, that first cut; above, the
// last bound, which is too low then.
struct Percentiles {
    std::uint64_t count = 0;  // of times
    nanoseconds p50{0};       // all 0 if there are none
    nanoseconds p99{0};
    nanoseconds p999{0};
};

// `counts` has one entry more than `bounds`, the bounds of the cuts.
Percentiles percentiles_of(std::span<const nanoseconds> bounds,
                           std::span<const std::uint64_t> counts);

// Answers by their status: 1xx to 5xx, then other numbers, then requests without an answer.
inline constexpr std::size_t kAnswerClasses = 7;
inline constexpr std::size_t kAnswersOther = 5;
inline constexpr std::size_t kAnswersNone = 6;

// Two counts of the same thing: admitted and denied, or requests and those that were limited.
struct LivePair {
    std::uint64_t all = 0;
    std::uint64_t denied = 0;

    bool operator==(const LivePair&) const = default;
};

struct LivePolicy {
    std::string policy;
    bool shadow = false;

    // NOLINTNEXTLINE(modernize-use-nullptr): what the compiler makes of it, not what is written
    auto operator<=>(const LivePolicy&) const = default;
};

inline constexpr std::size_t kLiveColumnsMax = 64;

// Units that a policy had reserved for requests that have ended, and what these have cost.
struct LiveCost {
    std::uint64_t settled = 0;
    std::uint64_t reserved = 0;

    bool operator==(const LiveCost&) const = default;
};

// Which column has the decisions of a limit: that of its policy, or that of the rest. There may be
// thousands of limits, so this is kept from second to second; it grows with their names.
class LivePolicies {
  public:
    // The policy of the limit in the next slot.
    void add(const LivePolicy& policy);
    // The policy of the limit in `slot` settles costs in this unit. Of the rest, nothing is kept:
    // its policies may have different units.
    void set_unit(std::size_t slot, CostUnit unit);

    std::size_t slots() const { return column_of_slot_.size(); }
    std::size_t column(std::size_t slot) const { return column_of_slot_[slot]; }
    std::size_t columns() const { return names_.size() + (others_.empty() ? 0 : 1); }
    const std::vector<LivePolicy>& names() const { return names_; }
    std::size_t left() const { return others_.size(); }  // policies that the rest is the sum of
    // The units of the first columns: up to the last one that has any.
    const std::vector<std::optional<CostUnit>>& units() const { return units_; }

  private:
    std::vector<std::uint8_t> column_of_slot_;
    std::vector<LivePolicy> names_;
    std::vector<std::optional<CostUnit>> units_;
    std::set<LivePolicy> others_;
};

// Holds the counts of the dashboard. A new count is a member here and in kLiveCounts;
// admin/top_denials_upstreams.cpp shows it.
struct LiveCounts {
    std::uint64_t requests() const;  // of all outcomes

    std::array<std::uint64_t, kAnswerClasses> answers{};
    std::array<std::uint64_t, kOutcomes> outcomes{};
    std::vector<LivePair> policies;  // one more than names if there is a rest
    std::vector<LivePair> routes;    // likewise
    std::vector<LiveCost> costs;     // of the policies in the first columns
    // As `policies`, or none where there is no candidate: requests that only the candidate would
    // refuse, and those that only the live limits refuse. 0 for policies that are no candidates.
    std::vector<LivePair> candidates;
    std::uint64_t store_failures = 0;
    std::uint64_t upstream_failures = 0;
};

inline constexpr std::tuple kLiveCounts{
    &LiveCounts::answers,        &LiveCounts::outcomes,
    &LiveCounts::policies,       &LiveCounts::routes,
    &LiveCounts::costs,          &LiveCounts::candidates,
    &LiveCounts::store_failures, &LiveCounts::upstream_failures};

// Counts since the start, and what their columns are. Columns are only ever added at the end.
struct LiveTotals : LiveCounts {
    // Adds the columns, with a count of 0 each.
    void add_policies(const LivePolicies& columns);
    // Each route once, in the order of the columns. Requires has_room_for_route().
    void add_route(const std::string& route, LivePair counts);
    bool has_room_for_route() const { return route_names.size() < kLiveColumnsMax; }
    // The `count` routes that have no column of their own, as one.
    void add_other_routes(std::size_t count, LivePair counts);

    std::vector<LivePolicy> policy_names;
    std::vector<std::optional<CostUnit>> policy_units;  // as many as costs
    std::size_t policies_left = 0;                      // that the rest is the sum of
    std::vector<std::string> route_names;
    std::size_t routes_left = 0;
    std::vector<std::uint64_t> decision_cuts;  // see FineHistogram
    std::vector<std::uint64_t> request_cuts;
};

// Holds the values that are read at the end of a sample.
struct LiveGauges {
    struct Servers {
        std::uint32_t all = 0;
        std::uint32_t up = 0;
    };
    std::uint64_t connections = 0;  // of clients
    std::uint64_t upstream_connections = 0;
    bool store_is_up = true;
    std::int64_t leased_units = 0;   // in batches of leases
    std::uint64_t generation = 1;    // of the configuration
    std::vector<Servers> upstreams;  // in the order of the configuration
};

struct LiveSample : LiveCounts {
    std::int64_t time_ms = 0;  // Unix time of its end; higher than that of every earlier one
    std::int64_t took_ms = 0;
    Percentiles decision_times;
    Percentiles request_times;
    LiveGauges gauges;
};

class LiveSeries {
  public:
    static constexpr std::size_t kSamples = 600;

    // `decision_bounds` and `request_bounds` are those of the cuts, and outlive this. The first
    // sample begins at `began`.
    LiveSeries(std::span<const nanoseconds> decision_bounds,
               std::span<const nanoseconds> request_bounds, SteadyTime began)
        : decision_bounds_(decision_bounds), request_bounds_(request_bounds), ended_(began) {}

    // Adds a sample of what has changed since the last one.
    void add(LiveTotals totals, LiveGauges gauges, std::chrono::system_clock::time_point time,
             SteadyTime now);

    const LiveTotals& totals() const { return totals_; }                // of the last sample
    const std::deque<LiveSample>& samples() const { return samples_; }  // oldest first

  private:
    std::span<const nanoseconds> decision_bounds_;
    std::span<const nanoseconds> request_bounds_;
    SteadyTime ended_;
    LiveTotals totals_;
    std::deque<LiveSample> samples_;
};

}  // namespace tidegate::telemetry
