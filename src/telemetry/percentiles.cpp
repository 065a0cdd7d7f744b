#include "telemetry/percentiles.hpp"

#include <algorithm>
#include <numeric>

namespace tidegate::telemetry {

namespace {

// The bound below which at least `per_mille` of `total` times lie.
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

}  // namespace tidegate::telemetry
