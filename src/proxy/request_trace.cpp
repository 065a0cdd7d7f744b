#include "proxy/request_trace.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>

#include "http/field.hpp"
#include "identity/digest.hpp"
#include "proxy/exchange.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

namespace {

using http::Field;
using telemetry::TraceRecord;

constexpr std::size_t kTraceMethodMax = 64;
constexpr std::size_t kTracePathMax = 1'024;
constexpr std::size_t kTraceHostMax = 256;

constexpr std::string_view kTraceParentBegin = "traceparent: ";
// The line of the field, but for its value.
constexpr auto kTraceParentLine = [] {
    std::array<char, kTraceParentBegin.size() + telemetry::kTraceParentBytes + 2> line{};
    std::copy(kTraceParentBegin.begin(), kTraceParentBegin.end(), line.begin());
    line[line.size() - 2] = '\r';
    line[line.size() - 1] = '\n';
    return line;
}();

// Empty if it is there twice: which one is meant is unknown.
std::string_view trace_parent_in(const http::Fields& fields) {
    return http::single_value_where(
        fields, [](const Field& field) { return is_named(field, telemetry::kTraceParent); });
}

// Only for trusted peers: else any client could have the proxy record and export.
bool continues_callers(const Exchange& x) {
    return x.facts.peer.trusted || x.config().tracing->accept_anyone;
}

// False: there is no context, or a malformed one.
bool continue_trace(const http::Fields& fields, RequestTrace& trace) {
    const auto caller = telemetry::parse_traceparent(trace_parent_in(fields));
    if (!caller) return false;
    trace.self = *caller;
    trace.parent = caller->span;
    telemetry::TraceStateReader state(trace.state);
    for (const Field& field : fields) {
        if (is_named(field, telemetry::kTraceState)) state.add(field.value);
    }
    state.finish();
    return true;
}

int upstream_status(const Exchange& x) {
    constexpr int kSwitchingProtocols = 101;
    if (x.relay.tunnel_end) return kSwitchingProtocols;
    return x.relay.upstream_status;
}

// The path of a route as OpenTelemetry calls it: `/orders/{id}`, `/v1/**`; of a regular expression
// the expression itself.
std::string_view template_of(const config::Route& route) {
    constexpr std::string_view kRegex = "regex:";
    std::string_view path = route.path;
    if (path.starts_with(kRegex)) path.remove_prefix(kRegex.size());
    return path;
}

TraceRecord::Decide decide_of(RequestTrace& trace, const Exchange& x,
                              std::span<const std::string_view> identifiers) {
    TraceRecord::Decide decide;
    decide.id = trace.ids->next_span();
    decide.after = x.decision.charged_at - x.relay.began;
    for (const limit::ChargeItem& item : x.decision.charge.items) {
        auto& names = decide.policies;
        if (std::find(names.begin(), names.end(), item.policy->name) == names.end()) {
            names.push_back(item.policy->name);
        }
    }
    for (const std::string_view identifier : identifiers) {
        decide.identifiers.push_back(identity::sha256(identifier));
    }
    return decide;
}

std::vector<TraceRecord::Forward> forwards_of(const RequestTrace& trace, const Exchange& x,
                                              std::chrono::nanoseconds took) {
    std::vector<TraceRecord::Forward> forwards;
    forwards.reserve(trace.tries.size());
    for (const RequestTrace::Try& one : trace.tries) {
        const bool is_last = &one == &trace.tries.back();
        TraceRecord::Forward& forward = forwards.emplace_back();
        forward.id = one.id;
        forward.after = one.began - x.relay.began;
        forward.took = one.ended.value_or(x.relay.began + took) - one.began;
        forward.server = one.server->name();
        forward.address = one.server->address();
        const bool is_of_request = is_last && one.fault == ask::Fault::none;
        forward.error = ask::traits(is_of_request ? x.decision.fault : one.fault).name;
        if (is_last) forward.status = upstream_status(x);
    }
    return forwards;
}

}  // namespace

const telemetry::SpanId& RequestTrace::own_span() {
    if (!has_span) self.span = ids->next_span();
    has_span = true;
    return self.span;
}

void RequestTrace::begin_try(const upstream::ServerPtr& server, SteadyTime now) {
    if (tries.size() == kTriesMax) tries.pop_back();
    Try& one = tries.emplace_back();
    one.id = ids->next_span();
    one.server = server;
    one.began = now;
}

void RequestTrace::fail_try(ask::Fault fault) {
    if (tries.empty()) return;
    tries.back().fault = fault;
    tries.back().ended = steady_now();
}

void RequestTrace::end_try() {
    if (!tries.empty() && !tries.back().ended) tries.back().ended = steady_now();
}

void begin_trace(const WorkerContext& worker, Exchange& x) {
    if (!x.trace_room) x.trace_room = std::make_unique<RequestTrace>();
    RequestTrace& trace = *x.trace_room;
    telemetry::TraceQueue& traces = *x.generation->traces;
    trace.ids = &traces.ids(worker.thread);
    trace.parent.reset();
    trace.state.clear();
    trace.tries.clear();
    if (!continues_callers(x) || !continue_trace(x.facts.head.fields, trace)) {
        trace.self.trace = trace.ids->next_trace();
        trace.self.is_sampled = traces.sampler().takes(trace.self.trace);
    }
    trace.has_span = false;
    x.trace = &trace;
}

bool is_trace_field(std::string_view name) {
    // Few names pass, and this is asked of every field.
    constexpr std::size_t kLetters = telemetry::kTraceState.size();
    static_assert(telemetry::kTraceParent.size() == kLetters + 1);
    if (name.size() < kLetters || name.size() > kLetters + 1 || (name[0] | 0x20) != 't') {
        return false;
    }
    return http::equal_ignoring_case(name, telemetry::kTraceParent) ||
           http::equal_ignoring_case(name, telemetry::kTraceState);
}

void append_trace_fields(RequestTrace& trace, std::string& out) {
    telemetry::TraceParent forward = trace.self;
    forward.span = trace.tries.empty() ? trace.own_span() : trace.tries.back().id;
    auto line = kTraceParentLine;
    telemetry::write_traceparent(forward, line.data() + kTraceParentBegin.size());
    out.append(line.data(), line.size());
    if (!trace.state.empty()) http::append_field(telemetry::kTraceState, trace.state, out);
}

// The caller's decision holds, also that a trace is not recorded.
bool is_kept(const Exchange& x, telemetry::Outcome outcome) {
    constexpr int kServerFault = 500;
    if (x.trace->self.is_sampled) return true;
    if (x.trace->parent) return false;
    telemetry::TraceQueue& traces = *x.generation->traces;
    if (outcome == telemetry::Outcome::limited) return traces.limited().takes(steady_now());
    const bool has_failed = outcome == telemetry::Outcome::failed ||
                            outcome == telemetry::Outcome::unavailable ||
                            x.relay.status >= kServerFault;
    return has_failed && traces.failed().takes(steady_now());
}

void keep_trace(const WorkerContext& worker, const Exchange& x,
                const telemetry::RequestRecord& record) {
    RequestTrace& trace = *x.trace;
    auto kept = std::make_unique<TraceRecord>();
    kept->trace = trace.self.trace;
    kept->parent = trace.parent;
    kept->state = trace.state;
    kept->is_sampled = trace.self.is_sampled;
    kept->span = trace.own_span();
    kept->scheme = x.facts.scheme;
    if (x.decision.route != nullptr) kept->path_template = template_of(*x.decision.route);
    telemetry::RequestRecord shown = record;
    shown.method = record.method.substr(0, kTraceMethodMax);
    shown.path = record.path.substr(0, kTracePathMax);
    shown.host = record.host.substr(0, kTraceHostMax);
    kept->set_request(shown);
    const store::LimitDecision& charge = x.decision.charge;
    if (!charge.items.empty() && charge.result != store::LimitDecision::Result::pending) {
        kept->decide = decide_of(trace, x, record.identifiers);
    }
    kept->forwards = forwards_of(trace, x, record.duration);
    x.generation->traces->push(worker.thread, std::move(kept));
}

}  // namespace tidegate::proxy
