// What has become of the spans of traced requests.
#pragma once

#include <array>
#include <cstdint>

#include "base/described_enum.hpp"

namespace tidegate::app {

// Why a span was not exported.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    SpanDrop, std::uint8_t,
    queue_full,   // spans came faster than the exporter sent them
    unreachable,  // no connection to the collector, or no answer in time
    refused,      // the collector answered something else than 2xx
    rejected,     // it took the batch, but said of so many spans that it did not take them
    stopped)      // the process, or the configuration with this collector, came to its end

// What the reference says of them; Markdown.
inline constexpr EnumTexts<SpanDrop> kSpanDropNotes(
    {{SpanDrop::queue_full, "spans came faster than the collector took them"},
     {SpanDrop::unreachable, "no connection, a handshake of TLS that fails, or no answer in 2 s"},
     {SpanDrop::refused, "another status than 2xx"},
     {SpanDrop::rejected, "it took the batch without these"},
     {SpanDrop::stopped, "no time was left when Tidegate stopped"}});

struct TracedSpans {
    std::uint64_t exported = 0;
    std::array<std::uint64_t, kEnumerators<SpanDrop>.size()> dropped{};  // by SpanDrop
};

}  // namespace tidegate::app
