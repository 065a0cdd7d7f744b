// The trace that a request belongs to, from its head to its end. Without `tracing` in the
// configuration, a request has none.
//
// The proxy decides whether to export the spans when the request has ended: requests that fail are
// worth more than those that were chosen by chance.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <boost/container/static_vector.hpp>

#include "ask/fault.hpp"
#include "net/deadline.hpp"
#include "telemetry/access_log_fields.hpp"
#include "telemetry/trace_context.hpp"
#include "telemetry/trace_export.hpp"
#include "upstream/server.hpp"

namespace tidegate::proxy {

struct Exchange;
struct WorkerContext;

// Reused from request to request. One thread.
struct RequestTrace {
    struct Try {
        telemetry::SpanId id{};
        upstream::ServerPtr server;
        SteadyTime began;
        std::optional<SteadyTime> ended;      // unset: the request's end was its end
        ask::Fault fault = ask::Fault::none;  // why another try followed
    };
    // More tries than these share the last one's span.
    static constexpr std::size_t kTriesMax = 12;

    telemetry::TraceParent self;              // see own_span()
    bool has_span = false;                    // `self` has a span of its own
    std::optional<telemetry::SpanId> parent;  // the caller's; unset: the trace begins here
    std::string state;                        // tracestate, for the upstream
    telemetry::TraceIds* ids = nullptr;       // of the thread
    boost::container::static_vector<Try, kTriesMax> tries;

    // The span of the request; drawn when it is first asked for, as most requests are not exported.
    const telemetry::SpanId& own_span();
    void begin_try(const upstream::ServerPtr& server, SteadyTime now);
    // The last try has failed, and another one follows.
    void fail_try(ask::Fault fault);
    // The last try has failed: the answer of the proxy is no part of it.
    void end_try();
};

// Begins the trace of `x`, whose peer and head are known: that of the caller, where the
// configuration believes the caller, else a new one. Requires a generation with `traces`.
void begin_trace(const WorkerContext& worker, Exchange& x);

// Whether the proxy writes a field of this name itself, in place of the client's.
bool is_trace_field(std::string_view name);

// Appends the fields for the upstream; the last try is the parent of what the upstream does.
void append_trace_fields(RequestTrace& trace, std::string& out);

// Whether the spans of a request that has ended so are exported. Counts against the rates of
// `keep`. Requires a trace.
bool is_kept(const Exchange& x, telemetry::Outcome outcome);
// Queues the spans for the exporter. `record` is what the access log gets.
void keep_trace(const WorkerContext& worker, const Exchange& x,
                const telemetry::RequestRecord& record);

}  // namespace tidegate::proxy
