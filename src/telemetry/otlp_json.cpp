#include "telemetry/otlp_json.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/json_escape.hpp"
#include "base/json_tree.hpp"
#include "base/numbers.hpp"
#include "telemetry/trace_hex.hpp"

namespace tidegate::telemetry {

namespace {

using std::chrono::nanoseconds;

// SpanKind.
constexpr int kServer = 2;
constexpr int kClient = 3;
constexpr int kStatusError = 2;
// The flags of a span: sampled.
constexpr int kSampledFlag = 1;
constexpr int kServerFault = 500;
constexpr int kClientFault = 400;

template <std::size_t kBytes>
void append_bytes(const std::array<unsigned char, kBytes>& bytes, std::string& out) {
    std::array<char, 2 * kBytes + 2> text;
    text.front() = text.back() = '"';
    write_hex(bytes, text.data() + 1);
    out.append(text.data(), text.size());
}

// 64-bit integers are strings in the JSON of protobuf.
void append_time(nanoseconds since_epoch, std::string& out) {
    out += '"';
    append_number(since_epoch.count(), out);
    out += '"';
}

class Attributes {
  public:
    explicit Attributes(std::string& out) : out_(out) { out_ += "\"attributes\":["; }

    void text(std::string_view key, std::string_view value) {
        begin(key);
        out_ += R"("stringValue":)";
        append_json_string(value, out_);
        end();
    }
    // Nothing where there is no value.
    void known(std::string_view key, std::string_view value) {
        if (!value.empty()) text(key, value);
    }
    void number(std::string_view key, std::int64_t value) {
        begin(key);
        out_ += R"("intValue":")";
        append_number(value, out_);
        out_ += '"';
        end();
    }
    template <class List, class Write>
    void list(std::string_view key, const List& values, Write write) {
        begin(key);
        out_ += R"("arrayValue":{"values":[)";
        bool is_first = true;
        for (const auto& value : values) {
            out_ += is_first ? R"({"stringValue":)" : R"(,{"stringValue":)";
            write(value);
            out_ += '}';
            is_first = false;
        }
        out_ += "]}";
        end();
    }
    // A host, and a port behind it: `127.0.0.1:80`, `[::1]:80`, `unix:/path`.
    void place(std::string_view address_key, std::string_view port_key,
               std::string_view authority) {
        constexpr std::string_view kUnix = "unix:";
        if (authority.starts_with(kUnix)) {
            return known(address_key, authority.substr(kUnix.size()));
        }
        const std::size_t colon = authority.rfind(':');
        const std::size_t bracket = authority.rfind(']');
        const bool has_port = colon != std::string_view::npos &&
                              (bracket == std::string_view::npos || bracket < colon);
        std::string_view host = has_port ? authority.substr(0, colon) : authority;
        if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
        known(address_key, host);
        if (!has_port) return;
        const auto port = parse_number<std::uint16_t>(authority.substr(colon + 1));
        if (port) number(port_key, *port);
    }
    void finish() { out_ += ']'; }

  private:
    void begin(std::string_view key) {
        out_ += is_first_ ? R"({"key":")" : R"(,{"key":")";
        out_.append(key).append(R"(","value":{)");
        is_first_ = false;
    }
    void end() { out_ += "}}"; }

    std::string& out_;
    bool is_first_ = true;
};

// Methods that the convention knows; others would be names without a bound.
bool is_known_method(std::string_view method) {
    constexpr auto kKnown = std::to_array<std::string_view>(
        {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"});
    return std::find(kKnown.begin(), kKnown.end(), method) != kKnown.end();
}

void put_method(std::string_view method, Attributes& attributes) {
    if (method.empty() || is_known_method(method)) {
        return attributes.text("http.request.method", method.empty() ? "_OTHER" : method);
    }
    attributes.text("http.request.method", "_OTHER");
    attributes.text("http.request.method_original", method);
}

std::string_view protocol_version(HttpVersion version) {
    return version == HttpVersion::http_2 ? "2" : number_of(version);
}

// What `error.type` says: Tidegate's own name of the fault, else the status. Empty: no error.
std::string error_type(std::string_view fault, int status, int error_from) {
    if (!fault.empty()) return std::string(fault);
    return status >= error_from ? std::to_string(status) : std::string();
}

// One span in the making: what all of them have.
class SpanWriter {
  public:
    SpanWriter(const TraceRecord& record, const SpanId& id, const SpanId* parent,
               std::string_view name, int kind, std::string& out)
        : record_(record), out_(out) {
        out_ += R"({"traceId":)";
        append_bytes(record.trace, out_);
        out_ += R"(,"spanId":)";
        append_bytes(id, out_);
        if (!record.state.empty()) {
            out_ += R"(,"traceState":)";
            append_json_string(record.state, out_);
        }
        if (parent != nullptr) {
            out_ += R"(,"parentSpanId":)";
            append_bytes(*parent, out_);
        }
        out_ += R"(,"flags":)";
        append_number(record.is_sampled ? kSampledFlag : 0, out_);
        out_.append(R"(,"name":")").append(name).append(R"(","kind":)");
        append_number(kind, out_);
    }

    void times(nanoseconds after, nanoseconds took) {
        const nanoseconds began =
            std::chrono::duration_cast<nanoseconds>(record_.began.time_since_epoch()) + after;
        out_ += R"(,"startTimeUnixNano":)";
        append_time(began, out_);
        out_ += R"(,"endTimeUnixNano":)";
        append_time(began + took, out_);
        out_ += ',';
    }
    void finish(bool is_error) {
        if (is_error) {
            out_ += R"(,"status":{"code":)";
            append_number(kStatusError, out_);
            out_ += '}';
        }
        out_ += '}';
    }

  private:
    const TraceRecord& record_;
    std::string& out_;
};

void put_request(const TraceRecord& record, std::string& out) {
    SpanWriter span(record, record.span, record.parent ? &*record.parent : nullptr, "request",
                    kServer, out);
    span.times(nanoseconds{0}, record.took);
    const bool has_failed = record.outcome == Outcome::failed ||
                            record.outcome == Outcome::unavailable || record.status >= kServerFault;
    Attributes attributes(out);
    put_method(record.method, attributes);
    attributes.known("url.path", record.path);
    attributes.text("url.scheme", record.scheme);
    attributes.place("server.address", "server.port", record.host);
    attributes.text("network.protocol.version", protocol_version(record.version));
    attributes.known("http.route", record.route);
    if (record.status != 0) attributes.number("http.response.status_code", record.status);
    if (record.grpc_status >= 0) attributes.number("rpc.grpc.status_code", record.grpc_status);
    if (has_failed) {
        attributes.known("error.type", error_type(record.error, record.status, kServerFault));
    }
    attributes.text("tidegate.request_id", record.request_id);
    attributes.text("tidegate.face", to_string(record.face));
    attributes.text("tidegate.outcome", to_string(record.outcome));
    attributes.known("tidegate.error", record.error);
    attributes.finish();
    span.finish(has_failed);
}

void put_decide(const TraceRecord& record, std::string& out) {
    const TraceRecord::Decide& decide = *record.decide;
    out += ',';
    SpanWriter span(record, decide.id, &record.span, "decide", kClient, out);
    span.times(decide.after, decide.took);
    Attributes attributes(out);
    attributes.known("tidegate.store", decide.store);
    attributes.known("tidegate.verdict", decide.verdict);
    attributes.known("tidegate.limit", decide.limited_by);
    attributes.known("tidegate.shadow_limit", decide.shadow_limited_by);
    attributes.list("tidegate.policies", decide.policies,
                    [&](const std::string& name) { append_json_string(name, out); });
    attributes.list("tidegate.identifiers", decide.identifiers,
                    [&](const auto& digest) { append_bytes(digest, out); });
    attributes.finish();
    span.finish(decide.verdict == "unavailable");
}

void put_forward(const TraceRecord& record, std::size_t position, std::string& out) {
    const TraceRecord::Forward& forward = record.forwards[position];
    out += ',';
    SpanWriter span(record, forward.id, &record.span, "forward", kClient, out);
    span.times(forward.after, forward.took);
    const std::string error = error_type(forward.error, forward.status, kClientFault);
    Attributes attributes(out);
    put_method(record.method, attributes);
    attributes.place("server.address", "server.port", forward.server);
    attributes.place("network.peer.address", "network.peer.port", forward.address);
    if (forward.status != 0) attributes.number("http.response.status_code", forward.status);
    if (position > 0) {
        attributes.number("http.request.resend_count", static_cast<std::int64_t>(position));
    }
    attributes.known("error.type", error);
    attributes.finish();
    span.finish(!error.empty());
}

}  // namespace

OtlpBatch::OtlpBatch(const TraceResource& resource) {
    text_ = R"({"resourceSpans":[{"resource":{)";
    Attributes attributes(text_);
    attributes.text("service.name", resource.service);
    attributes.text("service.version", resource.version);
    attributes.text("service.instance.id", resource.instance);
    attributes.finish();
    text_ += R"(},"scopeSpans":[{"scope":{"name":"tidegate","version":)";
    append_json_string(resource.version, text_);
    text_ += R"(},"spans":[)";
    head_bytes_ = text_.size();
}

void OtlpBatch::add(const TraceRecord& record) {
    if (spans_ > 0) text_ += ',';
    put_request(record, text_);
    if (record.decide) put_decide(record, text_);
    for (std::size_t i = 0; i < record.forwards.size(); ++i) put_forward(record, i, text_);
    spans_ += record.spans();
}

const std::string& OtlpBatch::finish() {
    text_ += "]}]}]}";
    return text_;
}

void OtlpBatch::clear() {
    text_.resize(head_bytes_);
    spans_ = 0;
}

std::uint64_t rejected_spans(std::string_view answer) {
    const auto json = read_json_tree(answer);
    if (!json || json->root().kind != JsonNode::Kind::object) return 0;
    const JsonNode* const partial = json->member(json->root(), "partialSuccess");
    if (partial == nullptr || partial->kind != JsonNode::Kind::object) return 0;
    const JsonNode* const rejected = json->member(*partial, "rejectedSpans");
    if (rejected == nullptr) return 0;
    if (rejected->kind == JsonNode::Kind::whole) return rejected->number;
    if (rejected->kind != JsonNode::Kind::string) return 0;
    return parse_number<std::uint64_t>(rejected->text).value_or(0);
}

}  // namespace tidegate::telemetry
