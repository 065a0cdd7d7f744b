#include "telemetry/trace_export.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <variant>

#include "base/json.hpp"
#include "base/text.hpp"
#include "telemetry/trace_context.hpp"

namespace tidegate::telemetry {

namespace {

// Calls `visit` with each text of `record` and the row of its field.
template <class Visit>
void for_each_text(RequestRecord& record, Visit visit) {
    for (const RequestField& field : kRequestFields) {
        const auto* const member = std::get_if<std::string_view RequestRecord::*>(&field.member);
        if (member != nullptr) visit(record.**member, field);
    }
}

// Each thread has room for a request of many tries, however many threads share the queue.
constexpr std::size_t kShareMin = 32;

}  // namespace

void TraceRecord::set_request(const RequestRecord& from) {
    request = from;
    request.identifiers = {};  // `decide` has digests of them
    std::size_t bytes = 0;
    for_each_text(request, [&](std::string_view& text, const RequestField& field) {
        if (field.attribute.span == SpanName::none) text = {};
        bytes += text.size();
    });
    texts = std::make_unique_for_overwrite<char[]>(bytes);
    char* copy = texts.get();
    for_each_text(request, [&](std::string_view& text, const RequestField&) {
        char* const end = std::copy_n(text.data(), text.size(), copy);
        text = {copy, text.size()};
        copy = end;
    });
}

KeepRate::KeepRate(Rate rate)
    : emission_ns_(
          rate.quota == 0
              ? 0
              : std::max<std::int64_t>(1, std::chrono::nanoseconds(rate.per).count() / rate.quota)),
      burst_ns_(emission_ns_ * (rate.quota - 1)) {}

bool KeepRate::takes(Time now) {
    if (emission_ns_ == 0) return false;
    const std::int64_t at = now.time_since_epoch().count();
    std::int64_t due = due_.load(std::memory_order_relaxed);
    while (due == 0 || due - burst_ns_ <= at) {
        const std::int64_t next = (due == 0 ? at : std::max(due, at)) + emission_ns_;
        if (due_.compare_exchange_weak(due, next, std::memory_order_relaxed)) return true;
    }
    return false;
}

TraceQueue::TraceQueue(const Options& options, std::size_t threads)
    : sampler_(options.sample),
      failed_(options.keep_failed),
      limited_(options.keep_limited),
      share_(std::max(kShareMin, options.spans / std::max<std::size_t>(1, threads))) {
    for (std::size_t i = 0; i < threads; ++i) {
        producers_.push_back(std::make_unique<Producer>(share_));
    }
}

TraceQueue::~TraceQueue() {
    while (take()) {
    }
}

void TraceQueue::push(std::size_t thread, std::unique_ptr<TraceRecord> record) {
    Producer& producer = *producers_[thread];
    const std::uint64_t spans = record->spans();
    const std::uint64_t waiting = producer.pushed - producer.taken.load(std::memory_order_acquire);
    TraceRecord* const raw = record.get();
    const auto bytes = std::bit_cast<std::array<char, kPointerBytes>>(raw);
    if (waiting + spans > share_ || !producer.ring.push({bytes.data(), bytes.size()})) {
        producer.dropped.store(producer.dropped.load(std::memory_order_relaxed) + spans,
                               std::memory_order_relaxed);
        return;
    }
    static_cast<void>(record.release());  // NOLINT(bugprone-unused-return-value): the ring has it
    producer.pushed += spans;
    if (waiting + spans < share_ / 4 || !on_much_) return;
    if (!has_called_.load(std::memory_order_relaxed) && !has_called_.exchange(true)) on_much_();
}

std::unique_ptr<TraceRecord> TraceQueue::take() {
    has_called_.store(false, std::memory_order_relaxed);
    for (std::size_t i = 0; i < producers_.size(); ++i) {
        Producer& producer = *producers_[next_++ % producers_.size()];
        // The ring's capacity is a whole number of pointers, so the ring never splits one.
        const std::string_view waiting = producer.ring.peek()[0];
        if (waiting.empty()) continue;
        TraceRecord* raw = nullptr;
        std::memcpy(&raw, waiting.data(), kPointerBytes);
        producer.ring.pop(kPointerBytes);
        std::unique_ptr<TraceRecord> record(raw);
        producer.taken.fetch_add(record->spans(), std::memory_order_release);
        return record;
    }
    return nullptr;
}

std::uint64_t TraceQueue::dropped() const {
    std::uint64_t sum = 0;
    for (const auto& producer : producers_) {
        sum += producer->dropped.load(std::memory_order_relaxed);
    }
    return sum;
}

namespace {

using std::chrono::nanoseconds;

// OpenTelemetry gives SpanKind and the status of a span these numbers.
constexpr int kServer = 2;
constexpr int kClient = 3;
constexpr int kStatusError = 2;
// This bit of a span's flags says that it is sampled.
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
    // Writes nothing if there is no value.
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
    // `number` is a number of JSON.
    void decimal(std::string_view key, std::string_view number) {
        begin(key);
        out_.append(R"("doubleValue":)").append(number);
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
    // Writes a host, and the port behind it: `127.0.0.1:80`, `[::1]:80`, `unix:/path`.
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

// Says whether the convention knows the method; other methods would be values without a bound.
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

// Returns what `error.type` says: Tidegate's own name of the fault, else the status. Empty: the
// span has no error.
std::string error_type(std::string_view fault, int status, int error_from) {
    if (!fault.empty()) return std::string(fault);
    return status >= error_from ? std::to_string(status) : std::string();
}

// Writes the parts that all spans have.
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
        out_ += R"(,"name":)";
        append_json_string(name, out_);
        out_ += R"(,"kind":)";
        append_number(kind, out_);
    }

    void times(nanoseconds after, nanoseconds took) {
        const nanoseconds began =
            std::chrono::duration_cast<nanoseconds>(record_.request.time.time_since_epoch()) +
            after;
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

// Shows a field of the access log as an attribute, by the type of its value.
struct FieldWriter {
    const RequestField& field;
    const TraceRecord& record;
    Attributes& attributes;
    std::string& out;

    void put(std::string_view text) const {
        switch (field.attribute.form) {
            case AttributeForm::method:
                return put_method(text, attributes);
            case AttributeForm::authority:
                return attributes.place(field.attribute.name, "server.port", text);
            case AttributeForm::plain:
                break;
        }
        attributes.known(field.attribute.name, text);
    }
    void put(std::span<const std::string_view> /*identifiers*/) const {
        attributes.list(field.attribute.name, record.decide->identifiers,
                        [&](const auto& digest) { append_bytes(digest, out); });
    }
    void put(Outcome outcome) const { attributes.text(field.attribute.name, to_string(outcome)); }
    void put(Face face) const { attributes.text(field.attribute.name, to_string(face)); }
    void put(HttpVersion version) const {
        attributes.text(field.attribute.name, protocol_version(version));
    }
    void put(int number) const {
        const bool is_known = field.is_optional ? number >= 0 : number > 0;
        if (is_known) attributes.number(field.attribute.name, number);
    }
    void put(std::int64_t number) const {
        if (number >= 0) attributes.number(field.attribute.name, number);
    }
    void put(Amount amount) const {
        if (amount.units < 0) return;
        if (!amount.in_money) return attributes.number(field.attribute.name, amount.units);
        attributes.decimal(field.attribute.name, shown_amount(amount));
    }
    void put(std::uint64_t number) const {
        attributes.number(field.attribute.name, static_cast<std::int64_t>(number));
    }
    void put(nanoseconds took) const {
        attributes.number(field.attribute.name, took / std::chrono::microseconds(1));
    }
    void put(std::chrono::system_clock::time_point) const {}  // a span has its own times
};

void put_fields(const TraceRecord& record, SpanName span, Attributes& attributes,
                std::string& out) {
    for (const RequestField& field : kRequestFields) {
        if (field.attribute.span != span) continue;
        const FieldWriter writer{field, record, attributes, out};
        std::visit([&](const auto member) { writer.put(record.request.*member); }, field.member);
    }
}

// As the convention has it: `GET /orders/{id}`, `GET` where no route matches, and `HTTP` for a
// method that it does not know.
std::string name_of_request(const TraceRecord& record) {
    const std::string_view method = record.request.method;
    std::string name(is_known_method(method) ? method : "HTTP");
    if (!record.path_template.empty()) name.append(" ").append(record.path_template);
    return name;
}

void put_request(const TraceRecord& record, std::string& out) {
    const RequestRecord& request = record.request;
    SpanWriter span(record, record.span, record.parent ? &*record.parent : nullptr,
                    name_of_request(record), kServer, out);
    span.times(nanoseconds{0}, request.duration);
    const bool has_failed = request.outcome == Outcome::failed ||
                            request.outcome == Outcome::unavailable ||
                            request.status >= kServerFault;
    Attributes attributes(out);
    put_fields(record, SpanName::request, attributes, out);
    attributes.known("http.route", record.path_template);
    attributes.text("url.scheme", record.scheme);
    if (has_failed) {
        attributes.known("error.type", error_type(request.error, request.status, kServerFault));
    }
    attributes.finish();
    span.finish(has_failed);
}

void put_decide(const TraceRecord& record, std::string& out) {
    const TraceRecord::Decide& decide = *record.decide;
    out += ',';
    SpanWriter span(record, decide.id, &record.span, "decide", kClient, out);
    span.times(decide.after, record.request.decision);
    Attributes attributes(out);
    put_fields(record, SpanName::decide, attributes, out);
    attributes.list("tidegate.policies", decide.policies,
                    [&](const std::string& name) { append_json_string(name, out); });
    attributes.finish();
    span.finish(record.request.verdict == to_string(RecordedVerdict::unavailable));
}

void put_forward(const TraceRecord& record, std::size_t position, std::string& out) {
    const TraceRecord::Forward& forward = record.forwards[position];
    out += ',';
    SpanWriter span(record, forward.id, &record.span, "forward", kClient, out);
    span.times(forward.after, forward.took);
    const std::string error = error_type(forward.error, forward.status, kClientFault);
    Attributes attributes(out);
    put_method(record.request.method, attributes);
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
