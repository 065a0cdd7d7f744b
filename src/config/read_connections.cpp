// The bounds on clients: `connections`, `limits_on_requests` and `timeouts`.
#include <algorithm>
#include <limits>

#include "base/quote.hpp"
#include "base/units.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

using std::chrono::hours;

constexpr std::chrono::seconds kShutdownDelayInKubernetes{5};
constexpr std::int64_t kHeadBytesMax = 1'048'576;
constexpr std::int64_t kBodyRateMax = 1'073'741'824;

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

}  // namespace

void read_connections(const Value& value, Config& config) {
    Section section(value);
    section.integer("max", config.connections.max, {1, 10'000'000});
    section.integer("per_ip", config.connections.per_ip, {0, 10'000'000});
    if (config.connections.per_ip > config.connections.max) {
        section.find("per_ip")->warn("has no effect: it is larger than connections.max");
    }
    if (const auto rate = section.find("new_per_ip")) read_new_per_ip(*rate, config.connections);
    section.refuse_others();
}

void read_limits_on_requests(const Value& value, Config& config) {
    RequestBounds& bounds = config.limits_on_requests;
    Section section(value);
    section.size("header_bytes", bounds.header_bytes, {1'024, kHeadBytesMax});
    section.integer("headers", bounds.headers, {1, 10'000});
    section.size("uri_bytes", bounds.uri_bytes, {64, kHeadBytesMax});
    if (const auto body = section.find("body_bytes")) {
        const auto bytes = body->size({0, std::numeric_limits<std::int64_t>::max()}, true);
        if (bytes) bounds.body_bytes = *bytes;
    }
    if (const auto rate = section.find("body_rate")) read_body_rate(*rate, bounds);
    section.refuse_others();
}

void set_default_shutdown_delay(const Context& context, Config& config) {
    const auto service_host = context.environment("KUBERNETES_SERVICE_HOST");
    if (!service_host || service_host->empty()) return;
    config.timeouts.shutdown_delay = kShutdownDelayInKubernetes;
    config.timeouts.shutdown_delay_origin = Timeouts::Origin::in_kubernetes;
}

void read_timeouts(const Value& value, Config& config) {
    Timeouts& timeouts = config.timeouts;
    Section section(value);
    section.duration("request_head", timeouts.request_head);
    section.duration("request_body", timeouts.request_body);
    if (const auto total = section.find("request_body_total"); total && total->is_off()) {
        timeouts.request_body_total = milliseconds{0};
    } else if (total) {
        timeouts.request_body_total =
            total->duration({}, true).value_or(timeouts.request_body_total);
    }
    section.duration("client_write", timeouts.client_write);
    section.duration("client_idle", timeouts.client_idle);
    if (const auto hold = section.find("hold_aborted"); hold && hold->is_off()) {
        hold->fault("`off` is not a duration: write `0s` to free such slots at once");
    } else {
        section.duration("hold_aborted", timeouts.hold_aborted, {milliseconds{0}, hours{1}});
    }
    section.duration("drain", timeouts.drain);
    section.duration("shutdown_delay", timeouts.shutdown_delay, {milliseconds{0}, hours{1}});
    if (section.find("shutdown_delay")) timeouts.shutdown_delay_origin = Timeouts::Origin::written;
    section.duration("tls_handshake", timeouts.tls_handshake);
    const auto waits_first = [](const Listen& one) { return one.proxy_protocol || one.tls; };
    const auto handshake = section.find("tls_handshake");
    if (handshake && std::none_of(config.listen.begin(), config.listen.end(), waits_first)) {
        handshake->warn("has no effect: no listener has `tls` or `proxy_protocol`");
    }
    section.duration("tunnel_idle", timeouts.tunnel_idle);
    section.duration("drain_tunnels", timeouts.drain_tunnels, {milliseconds{0}, hours{24}});
    warn_without_tunnels(section, config);
    section.refuse_others();
}

}  // namespace tidegate::config
