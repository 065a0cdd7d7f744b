// What has become of the spans of traced requests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidegate::app {

// Why a span was not exported; to_string() is the word of the label of
// tidegate_trace_spans_dropped_total.
enum class SpanDrop : std::uint8_t {
    queue_full,   // spans came faster than the exporter sent them
    unreachable,  // no connection to the collector, or no answer in time
    refused,      // the collector answered something else than 2xx
    rejected,     // it took the batch, but said of so many spans that it did not take them
    stopped,      // the process, or the configuration with this collector, came to its end
};
inline constexpr std::size_t kSpanDrops = static_cast<std::size_t>(SpanDrop::stopped) + 1;

constexpr std::string_view to_string(SpanDrop reason) {
    switch (reason) {
        case SpanDrop::queue_full:
            return "queue_full";
        case SpanDrop::unreachable:
            return "unreachable";
        case SpanDrop::refused:
            return "refused";
        case SpanDrop::rejected:
            return "rejected";
        case SpanDrop::stopped:
            break;
    }
    return "stopped";
}

struct TracedSpans {
    std::uint64_t exported = 0;
    std::array<std::uint64_t, kSpanDrops> dropped{};  // by SpanDrop
};

}  // namespace tidegate::app
