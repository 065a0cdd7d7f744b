// Spans as OTLP/HTTP has them in JSON (opentelemetry.proto.collector.trace.v1), with the attributes
// of OpenTelemetry's stable semantic conventions for HTTP. Pure.
//
// docs/tracing.md lists the spans and their attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "telemetry/trace_queue.hpp"

namespace tidegate::telemetry {

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
