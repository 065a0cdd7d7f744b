#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/exposition.hpp"
#include "telemetry/percentiles.hpp"

namespace tidegate::telemetry::percentiles_test {
namespace {

using namespace std::chrono_literals;
using Fine = FineHistogram<kRequestBounds>;

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
}  // namespace tidegate::telemetry::percentiles_test
