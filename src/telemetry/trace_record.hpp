// What is known of a traced request when it ends, from which its spans are written. A value that
// owns its texts: the thread that served the request hands it to the thread that exports.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/request_record.hpp"
#include "telemetry/trace_context.hpp"

namespace tidegate::telemetry {

struct TraceRecord {
    using nanoseconds = std::chrono::nanoseconds;

    // Waiting for the store, as `request.decision` says how long.
    struct Decide {
        SpanId id{};
        nanoseconds after{0};  // since the request began
        std::vector<std::string> policies;
        std::vector<std::array<unsigned char, 32>> identifiers;  // SHA-256 of each
    };
    // One try to send the request on.
    struct Forward {
        SpanId id{};
        nanoseconds after{0};
        nanoseconds took{0};
        std::string server;      // as it is configured
        std::string address;     // of that server
        int status = 0;          // of its answer; 0: there was none
        std::string_view error;  // why it failed, or empty; of static storage
    };

    // Sets `request` to what spans show of `from`, with copies of its texts.
    void set_request(const RequestRecord& from);

    std::size_t spans() const { return 1 + (decide ? 1 : 0) + forwards.size(); }

    TraceId trace{};
    std::optional<SpanId> parent;  // unset: the trace began here
    std::string state;             // tracestate, or empty
    bool is_sampled = false;       // false: kept for what became of it
    SpanId span{};
    std::string scheme;
    RequestRecord request;          // without what no span shows
    std::unique_ptr<char[]> texts;  // that `request` views
    std::optional<Decide> decide;
    std::vector<Forward> forwards;
};

}  // namespace tidegate::telemetry
