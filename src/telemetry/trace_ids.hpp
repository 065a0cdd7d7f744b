// Identifiers of traces and spans, and which roots are sampled. One object a thread; no two objects
// of a process give the same identifier.
#pragma once

#include <endian.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

#include "telemetry/trace_context.hpp"

namespace tidegate::telemetry {

class TraceIds {
  public:
    TraceIds() { begin_block(); }

    // Never zero.
    SpanId next_span() {
        std::uint64_t number = 0;
        while (number == 0) number = next(kSpanSecret);
        SpanId id;
        put(number, id.data());
        return id;
    }
    TraceId next_trace() {
        TraceId id;
        std::uint64_t low = 0;
        while (low == 0) low = next(kTraceSecret);
        put(next(kUpperSecret), id.data());
        put(low, id.data() + sizeof low);
        return id;
    }

  private:
    enum Secret : std::uint8_t { kSpanSecret, kTraceSecret, kUpperSecret };
    static constexpr unsigned kBlockBits = 40;

    using Secrets = std::array<std::uint64_t, 3>;

    static const Secrets& secrets_of_process() {
        static const Secrets drawn = [] {
            std::random_device random;
            const auto draw = [&] { return std::uint64_t{random()} << 32 | random(); };
            return Secrets{draw(), draw(), draw()};
        }();
        return drawn;
    }
    void begin_block() {
        static std::atomic<std::uint64_t> blocks{0};
        count_ = blocks.fetch_add(1, std::memory_order_relaxed) << kBlockBits;
    }
    // SplitMix64: a permutation of counts, of which no two objects have the same.
    std::uint64_t next(Secret of) {
        std::uint64_t mixed = (++count_ ^ secrets_[of]) * 0x9e3779b97f4a7c15;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
        if ((count_ & kBlockLast) == kBlockLast) begin_block();
        return mixed ^ (mixed >> 31);
    }
    static void put(std::uint64_t number, unsigned char* to) {
        const std::uint64_t bytes = htobe64(number);
        std::memcpy(to, &bytes, sizeof bytes);
    }
    static constexpr std::uint64_t kBlockLast = (std::uint64_t{1} << kBlockBits) - 1;

    const Secrets secrets_ = secrets_of_process();
    std::uint64_t count_ = 0;
};

// The share of new traces that are sampled, by their identifiers: as good as by chance, for one
// part of them is scrambled anew for each.
class TraceSampler {
  public:
    explicit TraceSampler(double share)
        : below_(share >= 1.0 ? kAll : static_cast<std::uint64_t>(share * double{kAll})) {}

    bool takes(const TraceId& id) const {
        std::uint64_t bytes = 0;
        std::memcpy(&bytes, id.data() + id.size() - sizeof bytes, sizeof bytes);
        return (be64toh(bytes) & (kAll - 1)) < below_;
    }

  private:
    static constexpr std::uint64_t kAll = std::uint64_t{1} << 56;

    std::uint64_t below_;
};

}  // namespace tidegate::telemetry
