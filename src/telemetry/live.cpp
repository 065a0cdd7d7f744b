#include "telemetry/live.hpp"

#include <algorithm>
#include <numeric>

namespace tidegate::telemetry {

namespace {

// Returns the bound below which at least `per_mille` of `total` times lie.
nanoseconds bound_of(std::span<const nanoseconds> bounds, std::span<const std::uint64_t> counts,
                     std::uint64_t total, std::uint64_t per_mille) {
    constexpr std::uint64_t kWhole = 1'000;
    const std::uint64_t wanted = (total * per_mille + kWhole - 1) / kWhole;
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        below += counts[i];
        if (below >= wanted) return bounds[i];
    }
    return bounds.back();
}

std::uint64_t since(std::uint64_t now, std::uint64_t before) {
    return now > before ? now - before : 0;
}

LivePair since(const LivePair& now, const LivePair& before) {
    return {since(now.all, before.all), since(now.denied, before.denied)};
}

LiveCost since(const LiveCost& now, const LiveCost& before) {
    return {since(now.settled, before.settled), since(now.reserved, before.reserved)};
}

template <class Value, std::size_t kSize>
std::array<Value, kSize> since(const std::array<Value, kSize>& now,
                               const std::array<Value, kSize>& before) {
    std::array<Value, kSize> changed{};
    for (std::size_t i = 0; i < kSize; ++i) changed[i] = since(now[i], before[i]);
    return changed;
}

// Returns the growth of each counter. One that `before` does not have yet was 0.
template <class Value>
std::vector<Value> since(const std::vector<Value>& now, const std::vector<Value>& before) {
    std::vector<Value> changed;
    changed.reserve(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
        changed.push_back(since(now[i], i < before.size() ? before[i] : Value{}));
    }
    return changed;
}

LiveCounts since(const LiveCounts& now, const LiveCounts& before) {
    LiveCounts changed;
    std::apply(
        [&](const auto... counts) {
            ((changed.*counts = since(now.*counts, before.*counts)), ...);
        },
        kLiveCounts);
    return changed;
}

// Replaces the upstreams beyond the bound by their sum.
void sum_up_rest(std::vector<LiveGauges::Servers>& upstreams) {
    if (upstreams.size() <= kLiveColumnsMax) return;
    LiveGauges::Servers rest;
    for (std::size_t i = kLiveColumnsMax; i < upstreams.size(); ++i) {
        rest.all += upstreams[i].all;
        rest.up += upstreams[i].up;
    }
    upstreams.resize(kLiveColumnsMax);
    upstreams.push_back(rest);
}

}  // namespace

Percentiles percentiles_of(std::span<const nanoseconds> bounds,
                           std::span<const std::uint64_t> counts) {
    Percentiles of;
    of.count = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    if (of.count == 0) return of;
    of.p50 = bound_of(bounds, counts, of.count, 500);
    of.p99 = bound_of(bounds, counts, of.count, 990);
    of.p999 = bound_of(bounds, counts, of.count, 999);
    return of;
}

std::uint64_t LiveCounts::requests() const {
    return std::accumulate(outcomes.begin(), outcomes.end(), std::uint64_t{0});
}

void LivePolicies::add(const LivePolicy& policy) {
    const auto column =
        static_cast<std::size_t>(std::find(names_.begin(), names_.end(), policy) - names_.begin());
    if (column == names_.size()) {
        if (column < kLiveColumnsMax) {
            names_.push_back(policy);
        } else {
            others_.insert(policy);
        }
    }
    // This comes last: if memory runs out before, no slot names a column that does not exist.
    column_of_slot_.push_back(static_cast<std::uint8_t>(column));
}

void LivePolicies::set_unit(std::size_t slot, CostUnit unit) {
    const std::size_t column = column_of_slot_[slot];
    if (column >= names_.size()) return;
    if (column >= units_.size()) units_.resize(column + 1);
    units_[column] = unit;
}

void LiveTotals::add_policies(const LivePolicies& columns) {
    policy_names = columns.names();
    policies_left = columns.left();
    policies.assign(columns.columns(), {});
    policy_units = columns.units();
    costs.assign(policy_units.size(), {});
}

void LiveTotals::add_route(const std::string& route, LivePair counts) {
    route_names.push_back(route);
    routes.push_back(counts);
}

void LiveTotals::add_other_routes(std::size_t count, LivePair counts) {
    if (count == 0) return;
    routes_left = count;
    routes.push_back(counts);
}

void LiveSeries::add(LiveTotals totals, LiveGauges gauges,
                     std::chrono::system_clock::time_point time, SteadyTime now) {
    using std::chrono::duration_cast;
    using std::chrono::milliseconds;
    LiveSample sample;
    static_cast<LiveCounts&>(sample) = since(totals, totals_);
    // Someone may have set the clock back.
    const std::int64_t earliest = samples_.empty() ? 0 : samples_.back().time_ms + 1;
    sample.time_ms =
        std::max(earliest, duration_cast<milliseconds>(time.time_since_epoch()).count());
    sample.took_ms = std::max<std::int64_t>(1, duration_cast<milliseconds>(now - ended_).count());
    sample.decision_times =
        percentiles_of(decision_bounds_, since(totals.decision_cuts, totals_.decision_cuts));
    sample.request_times =
        percentiles_of(request_bounds_, since(totals.request_cuts, totals_.request_cuts));
    sample.gauges = std::move(gauges);
    sum_up_rest(sample.gauges.upstreams);
    if (samples_.size() == kSamples) samples_.pop_front();
    samples_.push_back(std::move(sample));
    totals_ = std::move(totals);
    ended_ = now;
}

}  // namespace tidegate::telemetry
