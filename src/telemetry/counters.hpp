// What the metrics of a room are made of.
//
// Each room that counts has a class `Metrics` in `ROOM/metrics.hpp`: its counters, one object a
// thread. The thread alone writes it, with plain relaxed loads and stores (no locked instruction on
// the way of a request); any thread may read it. app/metrics.hpp puts the rooms together and adds
// the threads up when they are scraped. Labels come from configurations, one after the other;
// identifiers never become labels.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tidegate::telemetry {

using std::chrono::nanoseconds;

// A number with a single writer: a plain load and store, no locked instruction.
class Counter {
  public:
    void add(std::uint64_t n = 1) {
        value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> value_{0};
};

// A counter for each value of an enumeration that begins with 0.
template <class Enum, Enum kLast>
class CounterBy {
  public:
    static constexpr std::size_t kSize = static_cast<std::size_t>(kLast) + 1;

    Counter& operator[](Enum value) { return counters_[static_cast<std::size_t>(value)]; }
    const Counter& operator[](Enum value) const {
        return counters_[static_cast<std::size_t>(value)];
    }

  private:
    std::array<Counter, kSize> counters_{};
};

// Things that are opened and closed, such as connections.
struct OpenCounter {
    Counter opened;
    Counter closed;
};

// Upper bounds of the buckets for times of requests, inclusive as Prometheus has them.
inline constexpr std::array<nanoseconds, 14> kRequestBounds = [] {
    using namespace std::chrono_literals;
    return std::array<nanoseconds, 14>{500us, 1ms,   2500us, 5ms, 10ms,   25ms, 50ms,
                                       100ms, 250ms, 500ms,  1s,  2500ms, 5s,   10s};
}();

// How often a time fell into each bucket, and the sum of the times.
template <const auto& kBounds>
class Histogram {
  public:
    static constexpr std::size_t kBuckets = kBounds.size() + 1;  // the last one has no bound

    void observe(nanoseconds took) {
        std::size_t bucket = 0;  // most requests are quick: a walk beats a binary search
        while (bucket < kBounds.size() && took > kBounds[bucket]) ++bucket;
        buckets_[bucket].add();
        sum_ns_.add(static_cast<std::uint64_t>(std::max(took, nanoseconds{0}).count()));
    }
    std::uint64_t bucket(std::size_t index) const { return buckets_[index].value(); }
    std::uint64_t sum_ns() const { return sum_ns_.value(); }

  private:
    std::array<Counter, kBuckets> buckets_{};
    Counter sum_ns_;
};

}  // namespace tidegate::telemetry
