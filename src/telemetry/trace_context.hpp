// W3C Trace Context, level 1: how a request names the trace it belongs to. `traceparent` holds the
// identifiers, `tracestate` what the tracers on its way note for themselves. Pure; any thread.
//
// A reader that is strict: what level 1 does not allow is no context, and the caller begins a trace
// anew.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace tidegate::telemetry
