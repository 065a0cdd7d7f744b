// The bounds on clients: `connections`, `limits_on_requests`, `timeouts` and `http2`.
#include <algorithm>
#include <chrono>
#include <string>

#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

using std::chrono::hours;

constexpr std::chrono::seconds kShutdownDelayInKubernetes{5};
constexpr std::int64_t kHeadBytesMax = 1'048'576;
constexpr DurationRange kHoldAborted{milliseconds{0}, hours{1}};
constexpr std::int64_t kBodyRateMax = 1'073'741'824;

constexpr const char* kNoTunnels = "no route has `upgrade: [websocket]`";

bool waits_first(const Config& config) {
    return std::any_of(config.listen.begin(), config.listen.end(),
                       [](const Listen& one) { return one.proxy_protocol || one.tls; });
}

void read_body_rate(const Value& value, RequestBounds& bounds) {
    if (value.is_off()) {
        bounds.body_rate = 0;
    } else if (const auto text = value.text("a size such as `240`, or `off`")) {
        const auto rate = parse_size(*text);
        if (!rate || *rate < 1 || *rate > static_cast<std::uint64_t>(kBodyRateMax)) {
            value.fault(quote(*text) +
                        " is not a rate in bytes a second: write `1` to `1GiB`, such as `240` or "
                        "`8KiB`, or `off`");
            return;
        }
        bounds.body_rate = *rate;
    }
}

// Of each address, the table keeps only a bucket of one second.
void read_new_per_ip(const Value& value, Connections& connections) {
    constexpr std::int64_t kNewPerIpMax = 1'000'000;
    if (value.is_off()) return;
    const auto rate = value.parsed("a rate such as `20/s`, or `off`", parse_rate);
    if (!rate) return;
    if (rate->per != std::chrono::seconds{1} || rate->quota < 1 || rate->quota > kNewPerIpMax) {
        value.fault(
            "write how many connections an address may open in a second, from `1/s` to "
            "`1000000/s`, or `off`");
        return;
    }
    connections.new_per_ip = static_cast<std::uint32_t>(rate->quota);
}

void read_hold_aborted(const Value& value, Timeouts& timeouts) {
    if (value.is_off()) {
        value.fault("`off` is not a duration: write `0s` to free such slots at once");
        return;
    }
    timeouts.hold_aborted = value.duration(kHoldAborted).value_or(timeouts.hold_aborted);
}

}  // namespace

const Keys<Connections>& connections_keys() {
    static const auto keys =
        Keys<Connections>()
            .integer("max", &Connections::max, {1, 10'000'000},
                     {"from clients; then an address with more than a quarter makes room for "
                      "others, else 503 and closed"})
            .live(Live::next_connection)
            .integer("per_ip", &Connections::per_ip, {0, 10'000'000},
                     {"connections of one address; one more is refused (503)", "`0`: no bound"})
            .live(Live::next_connection)
            .idle_unless(
                [](const Config& config) {
                    return config.connections.per_ip <= config.connections.max;
                },
                "it is larger than connections.max")
            .own("new_per_ip", kind::off_or(kind::type("rate")), read_new_per_ip,
                 {"connections that an address may open in a second, such as `20/s`; more are "
                  "closed before any handshake",
                  "`off`", "1/s to 1,000,000/s"})
            .live(Live::next_connection);
    return keys;
}

const Keys<RequestBounds>& request_bounds_keys() {
    static const auto keys =
        Keys<RequestBounds>()
            .size("header_bytes", &RequestBounds::header_bytes, {1'024, kHeadBytesMax},
                  {"the whole head, of requests and of the upstream's answers (502)"})
            .live(Live::next_connection_of_http2)
            .integer("headers", &RequestBounds::headers, {1, 10'000}, {"how many fields, likewise"})
            .live(Live::next_connection_of_http2)
            .size("uri_bytes", &RequestBounds::uri_bytes, {64, kHeadBytesMax},
                  {"the target of a request"})
            .live(Live::next_connection_of_http2)
            .size_or_unlimited("body_bytes", &RequestBounds::body_bytes, 0,
                               {"a body; a route may have its own", "`unlimited`"})
            .own(
                "body_rate",
                kind::off_or(kind::any(
                    {kind::written(R"({"type":"integer","minimum":1,"maximum":1073741824})"),
                     kind::written(
                         R"({"type":"string","pattern":"^[1-9][0-9]*(k|K|KiB|m|M|MiB|g|G|GiB)?$|\\$\\{"})")})),
                read_body_rate,
                {"bytes a second that a body must bring, beyond `timeouts.request_body`", "`240`",
                 "1 B to 1 GiB, or `off`"})
            .size("held_bodies", &RequestBounds::held_bodies, {1'048'576, 1'099'511'627'776},
                  {"all bodies together that are held [until their requests are "
                   "decided](#bodies-that-are-inspected); then 503"});
    return keys;
}

const Keys<Timeouts>& timeouts_keys() {
    static const auto keys =
        Keys<Timeouts>()
            .duration("request_head", &Timeouts::request_head, {}, {"to receive a head"})
            .live(Live::next_connection_of_http2)
            .duration("request_body", &Timeouts::request_body, {},
                      {"silence inside a body while the client [has room to "
                       "send](http2.md#memory), and the head start that `body_rate` allows"})
            .duration_or_off("request_body_total", &Timeouts::request_body_total, {},
                             {"for a whole body, also without room to send"})
            .duration("client_write", &Timeouts::client_write, {},
                      {"for a client to take 4 KiB of its answer, or all that waits for it"})
            .duration("client_idle", &Timeouts::client_idle, {},
                      {"between requests; longer than balancers in front keep an unused "
                       "connection, most of them 60 to 75 s"})
            .own("hold_aborted", kind::duration(kHoldAborted), read_hold_aborted,
                 {"how long a slot of `concurrency` is kept when the request ends before the "
                  "upstream has answered",
                  "`5s`", "0 to 1 h"})
            .duration("drain", &Timeouts::drain, {}, {"for requests in flight when stopping"})
            .duration("shutdown_delay", &Timeouts::shutdown_delay, {milliseconds{0}, hours{1}},
                      {"how long to go on accepting, not ready, before draining",
                       "`0s`; `5s` in Kubernetes"})
            .duration("tls_handshake", &Timeouts::tls_handshake, {},
                      {"for a [PROXY header](#behind-a-balancer-that-does-not-speak-http) and the "
                       "handshake of TLS together"})
            .live(Live::next_connection)
            .idle_unless(waits_first, "no listener has `tls` or `proxy_protocol`")
            .duration("tunnel_idle", &Timeouts::tunnel_idle, {},
                      {"silence of both ends of a [WebSocket](tunnels.md), after which Tidegate "
                       "closes it"})
            .idle_unless(has_tunnels, kNoTunnels)
            .duration(
                "drain_tunnels", &Timeouts::drain_tunnels, {milliseconds{0}, hours{24}},
                {"over which Tidegate closes the WebSockets, one after the other, when stopping"})
            .idle_unless(has_tunnels, kNoTunnels);
    return keys;
}

void read_connections(const Value& value, Config& config) {
    connections_keys().read(value, config.connections);
}

void read_limits_on_requests(const Value& value, Config& config) {
    request_bounds_keys().read(value, config.limits_on_requests);
}

std::optional<std::size_t> read_held_bytes(const Value& value) {
    // Memory that each request may take: a larger body is not worth that.
    constexpr std::uint64_t kHeldBytesMax = 16'777'216;
    if (value.is_off()) return 0;
    const auto text = value.text("a size such as `64KiB`, or `off`");
    if (!text) return std::nullopt;
    const auto bytes = parse_size(*text);
    if (bytes && *bytes >= 1 && *bytes <= kHeldBytesMax) return static_cast<std::size_t>(*bytes);
    value.fault(quote(*text) +
                " is not a size from `1` to `16MiB`, nor `off`: each request may take that much "
                "memory, and Tidegate streams larger bodies");
    return std::nullopt;
}

void set_default_shutdown_delay(const Context& context, Config& config) {
    const auto service_host = context.environment("KUBERNETES_SERVICE_HOST");
    if (!service_host || service_host->empty()) return;
    config.timeouts.shutdown_delay = kShutdownDelayInKubernetes;
    config.timeouts.shutdown_delay_origin = Timeouts::Origin::in_kubernetes;
}

void read_timeouts(const Value& value, Config& config) {
    Section section = timeouts_keys().read(value, config.timeouts);
    if (section.find("shutdown_delay")) {
        config.timeouts.shutdown_delay_origin = Timeouts::Origin::written;
    }
}

// Which versions of HTTP a listener takes, and what a connection in HTTP/2 may cost: `http` of a
// listener, and `http2`.

namespace {

constexpr std::int64_t kWindowMax = 2'147'483'647;  // RFC 9113 section 6.9.1
// That every connection begins with: only streams have less (section 6.9.2).
constexpr std::int64_t kConnectionWindowMin = 65'535;
constexpr std::int64_t kStreamWindowMin = 1'024;
constexpr std::int64_t kBufferedMax = 68'719'476'736;

// The nearest of the valid words would be `http1`.

struct Bound {
    std::string_view key;
    std::size_t bytes;

    std::string shown() const {
        return quote(key) + ", which is " + std::to_string(bytes) + " bytes";
    }
};

// Reports an `inner` that is larger than `outer`, where one of them is written.
void check_fits(Section& section, const Bound& inner, const Bound& outer, const std::string& why) {
    if (inner.bytes <= outer.bytes) return;
    if (const auto value = section.find(inner.key)) {
        value->fault("is larger than " + outer.shown() + ": " + why + ". Lower this, or raise " +
                     quote(outer.key));
    } else if (const auto other = section.find(outer.key)) {
        other->fault("is smaller than " + inner.shown() + ": " + why + ". Raise this, or lower " +
                     quote(inner.key));
    }
}

void read_abuse_rate(const Value& value, Http2& http2) {
    using std::chrono::microseconds;
    constexpr microseconds kIntervalMax = std::chrono::minutes{1};
    const auto rate = value.parsed("a rate such as `100/s`", parse_rate);
    if (!rate) return;
    const bool is_some = rate->quota > 0;
    const microseconds interval = is_some ? rate->per / rate->quota : microseconds{0};
    if (interval < microseconds{1} || interval > kIntervalMax) {
        value.fault(
            "write how many such frames a connection may send in a time, from `1/min` to "
            "`1000000/s`");
        return;
    }
    http2.abuse_per = *rate;
}

const Keys<Http2>& abuse_keys() {
    static const auto keys =
        Keys<Http2>("a map: `{burst: 1000, per: 100/s}`")
            .integer("burst", &Http2::abuse_burst, {1, 1'000'000}, {"how many at once"})
            .own("per", kind::type("rate"), read_abuse_rate,
                 {"how many come back in a time; one more for each answer that ends well",
                  "`100/s`", "1/min to 1,000,000/s"});
    return keys;
}

}  // namespace

const Keys<Http2>& http2_keys() {
    static const auto keys =
        Keys<Http2>("a map: `{streams: 100}`")
            .integer("streams", &Http2::streams, {1, 10'000},
                     {"requests that an HTTP/2 connection may have in service at a time; more are "
                      "refused (`REFUSED_STREAM`) and not counted"})
            .live(Live::next_connection)
            .size("stream_window", &Http2::stream_window, {kStreamWindowMin, kWindowMax},
                  {"how much of a request's body may be on its way (the stream's window)", "",
                   "1 KiB to 2 GiB - 1; at most `connection_window`"})
            .live(Live::next_connection)
            .size("connection_window", &Http2::connection_window,
                  {kConnectionWindowMin, kWindowMax},
                  {"the same for all bodies of a connection together", "",
                   "65,535 B to 2 GiB - 1; at most `buffered`"})
            .live(Live::next_connection)
            .size("buffered", &Http2::buffered, {kConnectionWindowMin, kBufferedMax},
                  {"bodies that a thread holds for all its HTTP/2 connections; beyond, Tidegate "
                   "lets clients of addresses with more than their share send no more until "
                   "upstreams have taken some"})
            .integer("cookie_crumbs", &Http2::cookie_crumbs, {1, 10'000},
                     {"`cookie` fields of a request that count as one in "
                      "`limits_on_requests.headers`; more: 431"})
            .live(Live::next_connection)
            .own("abuse", kind::map(abuse_keys()),
                 [](const Value& abuse, Http2& http2) { abuse_keys().read(abuse, http2); },
                 {"`{burst, per}`: frames of a connection that serve no request, such as resets, "
                  "`SETTINGS`, `PING`; beyond, Tidegate closes it (`ENHANCE_YOUR_CALM`)",
                  "`{burst: 1000, per: 100/s}`"})
            .live(Live::next_connection);
    return keys;
}

void read_http2(const Value& value, Config& config) {
    if (value.is_off() || value.is_on()) {
        value.fault(
            "which listeners take HTTP/2 is written for each of them, in `listen`: `http: [h2, "
            "http1]` or `http: [http1]`");
        return;
    }
    const std::size_t faults_before = value.context().faults.size();
    Http2& http2 = config.http2;
    Section section = http2_keys().read(value, http2);
    if (value.context().faults.size() != faults_before) return;
    const Bound connection{"connection_window", http2.connection_window};
    check_fits(section, {"stream_window", http2.stream_window}, connection,
               "the streams of a connection share its window");
    check_fits(section, connection, {"buffered", http2.buffered},
               "a thread holds the bodies of all its connections in it");
}

}  // namespace tidegate::config
