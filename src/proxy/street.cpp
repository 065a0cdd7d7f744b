#include "proxy/street.hpp"

#include <chrono>
#include <string>

#include "http/head.hpp"
#include "identity/user_tiers.hpp"
#include "proxy/unauthorized.hpp"
#include "telemetry/log.hpp"
#include "telemetry/log_interval.hpp"

namespace tidegate::proxy {

namespace {

using http::FieldName;
using http::FramingFault;
using identity::Finding;

constexpr std::size_t kRequestIdBytesMax = 128;
constexpr std::string_view kUnclearHeader =
    "A header field that chooses the route is there twice, has `_` or `.` for `-` in its name, or "
    "is named by Connection.";

bool is_usable_request_id(std::string_view text) {
    return text.size() <= kRequestIdBytesMax && http::is_token(text);
}

std::string_view field_value(const http::Fields& fields, FieldName id) {
    for (const http::Field& field : fields) {
        if (field.id == id) return field.value;
    }
    return {};
}

}  // namespace

void check_framing(Exchange& exchange) {
    http::RequestHead& request = exchange.request;
    const FramingFault fault = http::request_framing(request, exchange.framing);
    if (fault != FramingFault::none) {
        exchange.fault = Fault::bad_framing;
        exchange.fault_detail = http::describe(fault);
        return;
    }
    exchange.body.start(exchange.framing);
    if (request.method == "CONNECT") {
        exchange.fault = Fault::unsupported_method;
        return;
    }
    exchange.keep_alive = exchange.framing.keep_alive;
    exchange.host = request.authority.empty() ? field_value(request.fields, FieldName::host)
                                              : request.authority;
    const auto& bounds = exchange.config().limits_on_requests;
    if (exchange.framing.body == http::BodyKind::length &&
        exchange.framing.length > bounds.body_bytes) {
        exchange.fault = Fault::body_too_large;
    }
}

void match_route(Exchange& exchange) {
    const http::RequestHead& request = exchange.request;
    const auto matched = exchange.config().router.match(
        {request.method, request.path, exchange.host, &request.fields});
    switch (matched.outcome) {
        case routing::MatchOutcome::matched:
            exchange.route_index = matched.route;
            exchange.route = &exchange.config().routes[matched.route];
            break;
        case routing::MatchOutcome::no_route:
            exchange.fault = Fault::no_route;
            break;
        case routing::MatchOutcome::bad_path:
            exchange.fault = Fault::bad_path;
            break;
        case routing::MatchOutcome::ambiguous_path:
            exchange.fault = Fault::ambiguous_path;
            break;
        case routing::MatchOutcome::other_case:
            exchange.fault = Fault::ambiguous_path;
            exchange.fault_detail =
                "The path takes another route if the case of its letters is ignored.";
            break;
        case routing::MatchOutcome::other_method:
            exchange.fault = Fault::bad_head;
            exchange.fault_detail = "The method differs from a known one only in case.";
            break;
        case routing::MatchOutcome::ambiguous_headers:
            exchange.fault = Fault::ambiguous_name;
            exchange.fault_detail = kUnclearHeader;
            break;
    }
}

void identify(const Http1Client& client, Exchange& exchange) {
    const config::Config& config = exchange.config();
    const http::Fields& fields = exchange.request.fields;
    exchange.client = identity::client_address(client.peer(), fields, config.client_ip, nullptr,
                                               &exchange.chain_fault);
    if (!config.user_methods.empty()) {
        // Not when it began: its head may have been on the way for longer than a token lasts.
        exchange.generation->authenticator->look(client.peer(), fields,
                                                 std::chrono::system_clock::now(), exchange.who);
    }
    if (!is_unproved(exchange)) conclude_identity(exchange);
    exchange.peer_trusted = client.peer().trusted;
    if (client.peer().trusted) {
        const std::string_view id = http::single_value(fields, "x-request-id");
        if (is_usable_request_id(id)) exchange.request_id = id;
    }
}

void report_chain_fault(WorkerContext& worker, const identity::Peer& peer,
                        const Exchange& exchange) {
    static telemetry::LogInterval said{std::chrono::hours{1}};
    worker.metrics.count_forwarding_invalid();
    if (!said.is_due(std::chrono::steady_clock::now())) return;
    const auto text = [](const std::optional<IpAddress>& address, const char* otherwise) {
        return address ? address->to_string() : std::string(otherwise);
    };
    telemetry::log(telemetry::Level::warn,
                   "the field {} from {} {}: Tidegate counts all such requests as the client {}. "
                   "Correct the proxy that writes the field, or identity.client_ip.header. Counted "
                   "in tidegate_forwarding_invalid_total; logged once an hour",
                   identity::field_of(exchange.config().client_ip),
                   text(peer.address, "a Unix socket"), identity::describe(exchange.chain_fault),
                   text(exchange.client, "one without an address"));
}

bool is_unproved(const Exchange& exchange) {
    return exchange.who.result == Finding::Result::unchecked ||
           exchange.who.result == Finding::Result::refused;
}

void conclude_identity(Exchange& exchange) {
    const config::Config& config = exchange.config();
    const Finding& who = exchange.who;
    switch (who.result) {
        case Finding::Result::nobody:
            break;
        case Finding::Result::user:
            exchange.user = who.user;
            // What the operator wrote down here counts more than what a credential says.
            exchange.tier = identity::tier_of(exchange.user, config.user_tiers);
            if (exchange.tier.empty()) exchange.tier = who.tier;
            break;
        case Finding::Result::refused:
            if (config.anonymous_on_invalid) break;
            exchange.fault = Fault::bad_credentials;
            exchange.fault_detail = told_about(who.fault);
            break;
        case Finding::Result::ambiguous:
            exchange.fault = Fault::ambiguous_credentials;
            break;
        case Finding::Result::unchecked:
        case Finding::Result::unavailable:
            exchange.fault = Fault::credentials_unchecked;
            break;
    }
}

}  // namespace tidegate::proxy
