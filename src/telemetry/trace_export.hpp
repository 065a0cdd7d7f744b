// Traced requests on their way from the threads that served them to the thread that exports them;
// which requests are worth it; and the JSON of their spans.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "telemetry/access_log_fields.hpp"
#include "telemetry/byte_ring.hpp"
#include "telemetry/trace_context.hpp"

namespace tidegate::telemetry {

// Holds what is known of a traced request when it ends; its spans are written from it. A value that
// owns its texts: the thread that served the request hands it to the thread that exports.
struct TraceRecord {
    using nanoseconds = std::chrono::nanoseconds;

    // The wait for the store; `request.decision` says how long it was.
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
    bool is_sampled = false;       // false: kept because it failed or was limited
    SpanId span{};
    std::string scheme;
    std::string path_template;      // the route's path, or a regular expression; empty: no route
    RequestRecord request;          // without the fields that no span shows
    std::unique_ptr<char[]> texts;  // the texts that `request` views
    std::optional<Decide> decide;
    std::vector<Forward> forwards;
};

// Keeps so many in such a time, over all threads: GCRA in one number. Time is an argument.
class KeepRate {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // A quota of 0 keeps none.
    explicit KeepRate(Rate rate);

    // Any thread. A refusal writes nothing, so a flood of refused requests shares no cache line.
    bool takes(Time now);

  private:
    std::int64_t emission_ns_;
    std::int64_t burst_ns_;
    std::atomic<std::int64_t> due_{0};  // 0: none yet
};

// A queue of pointers for each thread, without a lock; a full one drops what is new.
class TraceQueue {
  public:
    struct Options {
        double sample = 0.01;  // of traces that begin here
        Rate keep_failed{10, std::chrono::seconds{1}};
        Rate keep_limited{1, std::chrono::seconds{1}};
        std::size_t spans = 8'192;  // that may wait, over all threads
    };

    TraceQueue(const Options& options, std::size_t threads);
    ~TraceQueue();
    TraceQueue(const TraceQueue&) = delete;
    TraceQueue& operator=(const TraceQueue&) = delete;

    const TraceSampler& sampler() const { return sampler_; }
    KeepRate& failed() { return failed_; }
    KeepRate& limited() { return limited_; }

    // For the thread `thread` alone.
    TraceIds& ids(std::size_t thread) { return producers_[thread]->ids; }
    // Hands over a request, or drops it where the thread's share of the queue is full. Calls
    // `on_much`, if it is set, when a quarter of that is taken, once until take() was called.
    void push(std::size_t thread, std::unique_ptr<TraceRecord> record);

    // The thread that exports.

    // Before the first push(). Called on a thread that pushes.
    void on_much(std::function<void()> call) { on_much_ = std::move(call); }
    // The next request; null: none waits.
    std::unique_ptr<TraceRecord> take();

    // Any thread: spans that were dropped because the queue was full.
    std::uint64_t dropped() const;

  private:
    static constexpr std::size_t kPointerBytes = sizeof(void*);

    struct alignas(64) Producer {
        explicit Producer(std::size_t spans) : ring(spans * kPointerBytes) {}

        ByteRing ring;  // of pointers, which it owns
        TraceIds ids;
        std::uint64_t pushed = 0;  // spans
        std::atomic<std::uint64_t> dropped{0};
        alignas(64) std::atomic<std::uint64_t> taken{0};
    };

    TraceSampler sampler_;
    KeepRate failed_;
    KeepRate limited_;
    std::size_t share_;  // spans of each thread
    std::function<void()> on_much_;
    std::atomic<bool> has_called_{false};
    std::vector<std::unique_ptr<Producer>> producers_;
    std::size_t next_ = 0;  // the thread from which take() takes next
};

// Spans as OTLP/HTTP has them in JSON (opentelemetry.proto.collector.trace.v1), with the attributes
// of OpenTelemetry's stable semantic conventions for HTTP. Pure.
//
// docs/tracing.md lists the spans and their attributes.

// The process that the spans come from.
struct TraceResource {
    std::string service;
    std::string version;
    std::string instance;
};

// The body of one ExportTraceServiceRequest.
class OtlpBatch {
  public:
    explicit OtlpBatch(const TraceResource& resource);

    // Appends all spans of a request.
    void add(const TraceRecord& record);
    std::size_t spans() const { return spans_; }
    // Ends the text, which stays until clear().
    const std::string& finish();
    // Empties the batch.
    void clear();

  private:
    std::string text_;
    std::size_t head_bytes_ = 0;  // of the text with which every batch begins
    std::size_t spans_ = 0;
};

// How many spans the collector says in its answer of 200 that it has rejected (partialSuccess): 0
// for an answer that says nothing of it, or that is no JSON.
std::uint64_t rejected_spans(std::string_view answer);

}  // namespace tidegate::telemetry
