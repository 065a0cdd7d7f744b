// Percentiles of times, from the counts of a FineHistogram.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "telemetry/counters.hpp"

namespace tidegate::telemetry {

// Upper bounds of where they lie: at most 26% too high between the first bound / 2.5 and the last
// bound. Below, that first cut; above, the last bound, which is too low then.
struct Percentiles {
    std::uint64_t count = 0;  // of times
    nanoseconds p50{0};       // all 0 if there are none
    nanoseconds p99{0};
    nanoseconds p999{0};
};

// `counts` has one entry more than `bounds`, the bounds of the cuts.
Percentiles percentiles_of(std::span<const nanoseconds> bounds,
                           std::span<const std::uint64_t> counts);

}  // namespace tidegate::telemetry
