// What is known of a traced request when it ends, from which its spans are written. A value that
// owns its texts: the thread that served the request hands it to the thread that exports.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/face.hpp"
#include "base/http_version.hpp"
#include "telemetry/outcome.hpp"
#include "telemetry/trace_context.hpp"

namespace tidegate::telemetry {

struct TraceRecord {
    using nanoseconds = std::chrono::nanoseconds;

    // Waiting for the store.
    struct Decide {
        SpanId id{};
        nanoseconds after{0};  // since the request began
        nanoseconds took{0};
        std::string_view store;  // as the access log has it; of static storage, as is `verdict`
        std::string_view verdict;
        std::string limited_by;         // the limit that refused, or empty
        std::string shadow_limited_by;  // the same of policies in shadow
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

    TraceId trace{};
    std::optional<SpanId> parent;  // unset: the trace began here
    std::string state;             // tracestate, or empty
    bool is_sampled = false;       // false: kept for what became of it
    SpanId span{};
    std::chrono::system_clock::time_point began;
    nanoseconds took{0};
    std::string method;
    std::string path;  // without the query
    std::string host;
    std::string route;  // empty: none matched
    std::string request_id;
    std::string scheme;
    std::string error;  // whose fault and what, or empty
    HttpVersion version = HttpVersion::http_1_1;
    Face face = Face::proxy;
    Outcome outcome = Outcome::forwarded;
    int status = 0;        // of the answer to the client; 0: none was begun
    int grpc_status = -1;  // negative: none
    std::optional<Decide> decide;
    std::vector<Forward> forwards;

    std::size_t spans() const { return 1 + (decide ? 1 : 0) + forwards.size(); }
};

}  // namespace tidegate::telemetry
