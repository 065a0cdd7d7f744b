// Counters and histograms, which the metrics of a room are made of.
//
// Each room that counts has a class `Metrics` in `ROOM/metrics.hpp`: its counters, one object a
// thread. The thread alone writes it, with plain relaxed loads and stores (no locked instruction on
// the way of a request); any thread may read it. A member says what it is called and means
// (telemetry/metric.hpp). app/metrics.hpp puts the rooms together and adds the threads up when they
// are scraped. Labels come from configurations, one after the other; identifiers never become
// labels.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/described_enum.hpp"

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

// A counter, or a histogram, for each enumerator. `kSize` is for an enumeration that is not
// described.
template <class Enum, class Counted, std::size_t kSize = kEnumerators<Enum>.size()>
class PerEnumerator {
  public:
    Counted& operator[](Enum value) { return counted_[static_cast<std::size_t>(value)]; }
    const Counted& operator[](Enum value) const {
        return counted_[static_cast<std::size_t>(value)];
    }

    // Requires that these are counters.
    std::uint64_t sum() const {
        std::uint64_t all = 0;
        for (const Counted& one : counted_) all += one.value();
        return all;
    }

  private:
    std::array<Counted, kSize> counted_{};
};

template <class Enum>
using CounterBy = PerEnumerator<Enum, Counter>;

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

// Each bucket of a FineHistogram is cut in so many.
inline constexpr std::size_t kCuts = 4;

namespace detail {

// By Newton's method; std::sqrt is no constant expression.
constexpr double square_root(double of) {
    double root = of > 1 ? of : 1;
    for (int i = 0; i < 64; ++i) root = (root + of / root) / 2;
    return root;
}

}  // namespace detail

// The bounds of the cuts: kCuts up to each of `bounds`, each the same factor above the one before,
// which is at most 1.26 as neighbouring bounds are at most a factor of 2.5 apart. Those of the
// first bucket begin at its bound / 2.5.
template <std::size_t kSize>
constexpr std::array<nanoseconds, kSize * kCuts> cut(const std::array<nanoseconds, kSize>& bounds) {
    std::array<nanoseconds, kSize * kCuts> cuts{};
    for (std::size_t i = 0; i < kSize; ++i) {
        const auto upper = static_cast<double>(bounds[i].count());
        const double lower = i == 0 ? upper / 2.5 : static_cast<double>(bounds[i - 1].count());
        const double factor = detail::square_root(detail::square_root(upper / lower));
        double bound = lower;
        for (std::size_t k = 0; k + 1 < kCuts; ++k) {
            bound *= factor;
            cuts[i * kCuts + k] = nanoseconds(static_cast<std::int64_t>(bound));
        }
        cuts[i * kCuts + kCuts - 1] = bounds[i];
    }
    return cuts;
}

// A Histogram with each bucket cut in kCuts, for percentiles. Takes kCuts times the memory.
template <const auto& kBounds>
class FineHistogram {
  public:
    static constexpr std::size_t kBuckets = kBounds.size() + 1;
    static constexpr auto kCutBounds = cut(kBounds);
    static constexpr std::size_t kCutBuckets = kCutBounds.size() + 1;

    void observe(nanoseconds took) {
        std::size_t bucket = 0;
        while (bucket < kBounds.size() && took > kBounds[bucket]) ++bucket;
        std::size_t of_cut = bucket * kCuts;
        // Ends at the bucket's own bound.
        while (of_cut < kCutBounds.size() && took > kCutBounds[of_cut]) ++of_cut;
        cuts_[of_cut].add();
        sum_ns_.add(static_cast<std::uint64_t>(std::max(took, nanoseconds{0}).count()));
    }
    std::uint64_t bucket(std::size_t index) const {
        std::uint64_t sum = 0;
        const std::size_t end = std::min((index + 1) * kCuts, kCutBuckets);
        for (std::size_t i = index * kCuts; i < end; ++i) sum += cuts_[i].value();
        return sum;
    }
    std::uint64_t cut_bucket(std::size_t index) const { return cuts_[index].value(); }
    std::uint64_t sum_ns() const { return sum_ns_.value(); }

  private:
    std::array<Counter, kCutBuckets> cuts_{};
    Counter sum_ns_;
};

// A table that grows while other threads read it and one writes its entries: no entry ever moves.
// One thread at a time grows it; any thread may look at what is there.
template <class T>
class GrowingTable {
  public:
    using Entry = T;

    explicit GrowingTable(std::size_t capacity)
        : blocks_((capacity + kBlockSize - 1) / kBlockSize) {}

    // Requires size <= capacity; never shrinks. Entries begin as T{}.
    void grow(std::size_t size) {
        assert(size <= blocks_.size() * kBlockSize);
        while (owned_.size() * kBlockSize < size) {
            owned_.push_back(std::make_unique<Block>());
            blocks_[owned_.size() - 1].store(owned_.back().get(), std::memory_order_release);
        }
        if (size > this->size()) size_.store(size, std::memory_order_release);
    }

    std::size_t size() const { return size_.load(std::memory_order_acquire); }

    // Requires index < size().
    T& operator[](std::size_t index) {
        return blocks_[index / kBlockSize].load(std::memory_order_acquire)->at[index % kBlockSize];
    }
    const T& operator[](std::size_t index) const {
        return blocks_[index / kBlockSize].load(std::memory_order_acquire)->at[index % kBlockSize];
    }

  private:
    static constexpr std::size_t kBlockSize = 16;

    // Tables of several threads grow one after the other: what one writes must not share a cache
    // line with what another does.
    struct alignas(64) Block {
        std::array<T, kBlockSize> at{};
    };

    std::vector<std::atomic<Block*>> blocks_;  // by index; null: not there yet
    std::vector<std::unique_ptr<Block>> owned_;
    std::atomic<std::size_t> size_{0};
};

// A table of counters of which most are never met: 8 bytes until one is. The thread that counts
// allocates a block of entries when it first meets one of them; any thread may look. No entry ever
// moves.
template <class T, std::size_t kSize>
class SparseTable {
  public:
    SparseTable() = default;
    SparseTable(const SparseTable&) = delete;
    SparseTable& operator=(const SparseTable&) = delete;
    ~SparseTable() {
        Blocks* const blocks = blocks_.load(std::memory_order_relaxed);
        if (blocks == nullptr) return;
        for (auto& block : *blocks) delete block.load(std::memory_order_relaxed);
        delete blocks;
    }

    // For the thread that counts. Requires index < kSize. Throws std::bad_alloc.
    T& at(std::size_t index) { return made(made(blocks_)[index / kBlockSize])[index % kBlockSize]; }
    // Null: neither the entry nor a neighbour in its block was met. Requires index < kSize.
    const T* find(std::size_t index) const {
        const Blocks* const blocks = blocks_.load(std::memory_order_acquire);
        if (blocks == nullptr) return nullptr;
        const Block* const block = (*blocks)[index / kBlockSize].load(std::memory_order_acquire);
        return block != nullptr ? &(*block)[index % kBlockSize] : nullptr;
    }

  private:
    static constexpr std::size_t kBlockSize = 16;
    using Block = std::array<T, kBlockSize>;
    using Blocks = std::array<std::atomic<Block*>, (kSize + kBlockSize - 1) / kBlockSize>;

    template <class Made>
    static Made& made(std::atomic<Made*>& place) {
        Made* there = place.load(std::memory_order_relaxed);
        if (there == nullptr) {
            there = new Made();
            place.store(there, std::memory_order_release);
        }
        return *there;
    }

    std::atomic<Blocks*> blocks_{nullptr};
};

}  // namespace tidegate::telemetry
