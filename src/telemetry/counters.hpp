// The cells a metrics shard is made of: written by one thread, read by any.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "telemetry/metrics.hpp"

namespace tidegate::telemetry {

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

using namespace std::chrono_literals;

// Upper bounds of the buckets, inclusive as Prometheus has them.
inline constexpr std::array<nanoseconds, 14> kRequestBounds{
    500us, 1ms, 2500us, 5ms, 10ms, 25ms, 50ms, 100ms, 250ms, 500ms, 1s, 2500ms, 5s, 10s};
inline constexpr std::array<nanoseconds, 13> kDecisionBounds{
    100us, 250us, 500us, 1ms, 2500us, 5ms, 10ms, 25ms, 50ms, 100ms, 250ms, 500ms, 1s};

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

// Counts by face, status and outcome: a small table with open addressing. A route meets few of the
// 10,000 there are; what an upstream invents beyond the bound is counted together.
class StatusCounts {
  public:
    static constexpr int kNoAnswer = 0;
    static constexpr int kOther = 1;

    void count(Face face, int status, Outcome outcome) {
        slot_of(key_of(face, normalised(status), outcome), outcome).add();
    }

    // Calls `visit(face, status, outcome, count)` for each that was met; status may be kNoAnswer or
    // kOther. Any thread. The same may come twice (kOther).
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const Slot& slot : slots_) {
            const std::uint32_t key = slot.key.load(std::memory_order_acquire);
            if (key == 0) continue;
            const std::uint32_t pair = key / kFaces;
            visit(static_cast<Face>(key % kFaces), static_cast<int>(pair / kOutcomes - 1),
                  static_cast<Outcome>(pair % kOutcomes), slot.counter.value());
        }
        for (std::size_t i = 0; i < kOutcomes * kFaces; ++i) {
            if (const auto n = overflow_[i / kFaces][i % kFaces].value(); n != 0) {
                visit(static_cast<Face>(i % kFaces), kOther, static_cast<Outcome>(i / kFaces), n);
            }
        }
    }

  private:
    static constexpr std::size_t kOutcomes = static_cast<std::size_t>(Outcome::aborted) + 1;
    static constexpr std::size_t kSlots = 64;
    static constexpr std::size_t kPairsMax = 48;  // a table that is never full ends every search

    struct Slot {
        std::atomic<std::uint32_t> key{0};  // 0: free
        Counter counter;
    };

    static int normalised(int status) {
        if (status == 0) return kNoAnswer;
        return status >= 100 && status <= 599 ? status : kOther;
    }
    static std::uint32_t key_of(Face face, int status, Outcome outcome) {
        const std::uint32_t pair = static_cast<std::uint32_t>(status + 1) * kOutcomes +
                                   static_cast<std::uint32_t>(outcome);
        return pair * kFaces + static_cast<std::uint32_t>(face);
    }

    Counter& slot_of(std::uint32_t key, Outcome outcome) {
        for (std::size_t i = key * 0x9e3779b1U >> 26;; i = (i + 1) % kSlots) {
            Slot& slot = slots_[i];
            const std::uint32_t found = slot.key.load(std::memory_order_relaxed);
            if (found == key) return slot.counter;
            if (found != 0) continue;
            if (pairs_ == kPairsMax) {
                return overflow_[static_cast<std::size_t>(outcome)][key % kFaces];
            }
            ++pairs_;
            slot.key.store(key, std::memory_order_release);
            return slot.counter;
        }
    }

    std::array<Slot, kSlots> slots_{};
    std::array<std::array<Counter, kFaces>, kOutcomes> overflow_{};
    std::size_t pairs_ = 0;  // the writer's own
};

}  // namespace tidegate::telemetry
