// W3C Trace Context, level 1: how a request names the trace it belongs to, and new identifiers for
// traces and spans. `traceparent` holds the identifiers, `tracestate` what the tracers on the way
// of the request note for themselves. The reader is strict: what level 1 does not allow is no
// context, and the caller begins a new trace.
#pragma once

#include <endian.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "base/text.hpp"

namespace tidegate::telemetry {

using TraceId = std::array<unsigned char, 16>;  // not all zero
using SpanId = std::array<unsigned char, 8>;    // not all zero

inline constexpr std::string_view kTraceParent = "traceparent";
inline constexpr std::string_view kTraceState = "tracestate";

struct TraceParent {
    TraceId trace{};
    SpanId span{};            // of the caller
    bool is_sampled = false;  // the caller records this trace

    bool operator==(const TraceParent&) const = default;
};

// Section 3.2. Nothing for what is malformed: another length, capitals, identifiers of zeros, the
// version ff. Of a version later than 00 the fields that 00 has count, whatever follows them behind
// a dash.
std::optional<TraceParent> parse_traceparent(std::string_view value);

inline constexpr std::size_t kTraceParentBytes = 55;

// Writes the value of version 00, kTraceParentBytes, to `to`.
void write_traceparent(const TraceParent& parent, char* to);

// Section 3.3. Bounds of what is passed on: the least that the standard asks for.
inline constexpr std::size_t kTraceStateMembersMax = 32;
inline constexpr std::size_t kTraceStateBytesMax = 512;

// Collects the values of `tracestate` fields, in their order, as one.
class TraceStateReader {
  public:
    // Empties `out`, which outlives this; so do the values.
    explicit TraceStateReader(std::string& out) : out_(out) { out_.clear(); }

    void add(std::string_view value);
    // Leaves in `out` the members without white space around them and without empty ones. Nothing,
    // if a member is malformed, a key is there twice or there are more than 32. Of more than 512
    // bytes, first members of more than 128 bytes are dropped, then members from the end, each
    // whole.
    void finish();

  private:
    bool add_member(std::string_view member);

    std::string& out_;
    std::array<std::string_view, kTraceStateMembersMax> members_{};
    std::size_t count_ = 0;
    bool is_bad_ = false;
};

inline constexpr auto kHexPairs = [] {
    std::array<std::uint16_t, 256> pairs{};
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        pairs[i] = std::bit_cast<std::uint16_t>(std::array{kHexDigits[i >> 4], kHexDigits[i & 15]});
    }
    return pairs;
}();

// Writes two digits in lower case for each of `bytes` to `to`, two at a time from a table: every
// request that is forwarded with tracing carries 48 digits.
template <std::size_t kBytes>
inline void write_hex(const std::array<unsigned char, kBytes>& bytes, char* to) {
    for (std::size_t i = 0; i < kBytes; ++i) {
        std::memcpy(to + 2 * i, &kHexPairs[bytes[i]], 2);
    }
}

// Identifiers of traces and spans. One object a thread; no two objects of a process give the same
// identifier.
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

// Samples a share of new traces, by their identifiers. That is as good as by chance, as a part of
// each identifier is scrambled anew.
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
