#include "proxy/heads.hpp"

#include <algorithm>
#include <string_view>

#include "ask/verdict.hpp"
#include "http/field.hpp"
#include "http/forwarding_fields.hpp"
#include "http/framing.hpp"
#include "http/query_and_method_override.hpp"
#include "http/ratelimit_fields.hpp"
#include "http/websocket.hpp"
#include "proxy/identity_and_trailer_fields.hpp"
#include "proxy/request_trace.hpp"
#include "routing/path_pattern.hpp"

namespace tidegate::proxy {

namespace {

using http::append_field;
using http::BodyKind;
using http::Field;
using http::FieldName;
using http::Fields;

// Whether an upstream could take the field for one that names the client or user, though the proxy
// does not trust it: any from a peer that is not trusted, and from a trusted peer those that come
// twice or in another spelling. The peer may have added its own to what its client sent.
bool is_forged(const Exchange& exchange, const Field& field) {
    const IdentityFields& fields = exchange.generation->identity_fields;
    if (!fields.include(field.name)) return false;
    return !exchange.facts.peer.trusted || !fields.is_believed(field.name) ||
           http::single_value(exchange.facts.head.fields, field.name).empty();
}

bool goes_to_upstream(const Exchange& exchange, const Field& field) {
    if (field.id == FieldName::host || field.id == FieldName::x_request_id) return false;
    if (http::is_hop_by_hop(field)) return false;
    if (!exchange.facts.protocol.empty() && http::is_websocket_key(field)) return false;
    if (field.id == FieldName::expect) {
        return exchange.client->framing().expects_continue && !exchange.upstream->is_inspected;
    }
    if (field.id != FieldName::other) return !http::is_forwarding_field(field);
    if (exchange.trace != nullptr && is_trace_field(field.name)) return false;
    if (exchange.decision.route->has_soft_policies &&
        http::equal_as_variable(field.name, "x-tidegate-over")) {
        return false;
    }
    return !http::is_forwarding_field(field) && !http::looks_like_framing(field.name) &&
           !http::equal_as_variable(field.name, "x-request-id") &&
           !exchange.config().removed_overrides.include(http::override_of(field.name)) &&
           !is_forged(exchange, field);
}

// The client takes trailers, which servers of gRPC insist on (RFC 9110 section 10.1.4).
bool takes_trailers(const http::Fields& fields) {
    return std::any_of(fields.begin(), fields.end(), [](const Field& field) {
        return http::equal_ignoring_case(field.name, "te") && http::lists(field.value, "trailers");
    });
}

bool had_content_length(const http::Fields& fields) {
    for (const Field& field : fields) {
        if (field.id == FieldName::content_length) return true;
    }
    return false;
}

// Whether the proxy's own field takes the place of this one of the upstream's, about limits or the
// name of the request.
bool is_replaced(const config::Response& response, const Exchange& exchange, const Field& field) {
    if (field.id == FieldName::x_request_id) return response.request_id;
    return response.limit_fields.replaces(field.id) && !exchange.decision.ratelimit.empty();
}

// Strict-Transport-Security: the upstream's is dropped where the listener has its own. A browser
// goes by the first of two, and by the last answer it got, so all answers of the host need the same
// field (RFC 6797 sections 7.1 and 8.1).
bool is_hsts(const Field& field) {
    return field.id == FieldName::other &&
           http::equal_ignoring_case(field.name, "Strict-Transport-Security");
}

// Appends the client and the user, in the fields of `identity.forward_as`.
void append_identity(const Exchange& exchange, std::string& out) {
    const config::Config& config = exchange.config();
    const config::ForwardAs& names = config.forward_as;
    if (!names.user.empty() && exchange.decision.user)
        append_field(names.user, *exchange.decision.user, out);
    if (!names.tier.empty() && !exchange.decision.tier.empty())
        append_field(names.tier, exchange.decision.tier, out);
    const bool is_there = config.forwarding.x_forwarded && names.client_ip == "x-real-ip";
    if (names.client_ip.empty() || is_there || !exchange.decision.client) return;
    out.append(names.client_ip).append(": ");
    exchange.decision.client->append_to(out);
    out += "\r\n";
}

constexpr std::string_view kOver = "X-Tidegate-Over";

// The names of the soft policies that are over, with commas between them. No client may say so.
void append_over(const Exchange& exchange, std::string& out) {
    const limit::Policy* last = nullptr;
    ask::for_each_limit(exchange.decision.charge, [&](const limit::ChargeItem& item, std::size_t,
                                                      const limit::LimitVerdict& one) {
        if (!one.denied || !item.policy->soft || item.policy == last) return;
        out.append(last == nullptr ? kOver : ",");
        out.append(last == nullptr ? ": " : " ").append(item.policy->name);
        last = item.policy;
    });
    if (last != nullptr) out += "\r\n";
}

// Methods that give their content a meaning: a server may refuse one without a length (411), also
// where there is no body (RFC 9110 section 8.6). HTTP/2 needs none for that.
bool anticipates_content(std::string_view method) {
    return method.front() == 'P' && (method == "POST" || method == "PUT" || method == "PATCH");
}

void end_request_head(Exchange& exchange, std::optional<std::uint64_t> whole_body) {
    const http::RequestHead& request = exchange.facts.head;
    const http::Framing& framing = exchange.client->framing();
    BodyKind body = framing.body;
    std::optional<std::uint64_t> length;
    if (whole_body && (body == BodyKind::chunked || exchange.upstream->is_rewritten)) {
        body = *whole_body > 0 ? BodyKind::length : BodyKind::none;
        length = whole_body;
    } else if (body == BodyKind::length || had_content_length(request.fields)) {
        length = framing.length;
    } else if (body == BodyKind::none && !exchange.upstream->stream.is_http2() &&
               anticipates_content(request.method)) {
        length = 0;
    }
    exchange.upstream->stream.end_head(body, length);
}

constexpr std::string_view kExposeHeaders = "Access-Control-Expose-Headers";
constexpr std::string_view kMaxAge = "Access-Control-Max-Age";

// One line: clients that take only the last of several fields lose none.
void append_merged(const Fields& fields, std::string_view ours, std::string& out) {
    const auto is_listed = [&](std::string_view name) {
        return std::any_of(fields.begin(), fields.end(), [&](const Field& field) {
            return is_named(field, kExposeHeaders) && http::lists(field.value, name);
        });
    };
    out.append(kExposeHeaders).append(": ");
    std::string_view between;
    for (const Field& field : fields) {
        if (!is_named(field, kExposeHeaders) || field.value.empty()) continue;
        out.append(between).append(field.value);
        between = ", ";
    }
    std::string_view name;
    while (http::next_list_item(ours, name)) {
        if (is_listed(name)) continue;
        out.append(between).append(name);
        between = ", ";
    }
    out += "\r\n";
}

// Whether append_forwarded_cors_fields() takes the place of this field of the upstream's answer.
// Requires a route with cors.
bool is_merged_for_cors(const Exchange& exchange, const Field& field) {
    return !exchange.decision.is_preflight && is_named(field, kExposeHeaders);
}

// Appends what the proxy adds to the upstream's answer, whose own fields about origins stay: the
// fields that scripts may read, behind those that the upstream lists; to a preflight, how long a
// browser may remember it, if the upstream does not say. `fields` are the upstream's. Requires a
// route with cors.
void append_forwarded_cors_fields(const Exchange& exchange, const Fields& fields,
                                  std::string& out) {
    if (!exchange.decision.is_preflight) {
        return append_merged(fields, exchange.config().response.exposed_fields, out);
    }
    const std::chrono::seconds max_age = exchange.decision.route->cors->max_age;
    const bool says = std::any_of(fields.begin(), fields.end(),
                                  [](const Field& field) { return is_named(field, kMaxAge); });
    if (says || max_age.count() == 0) return;
    append_field(kMaxAge, static_cast<std::uint64_t>(max_age.count()), out);
}

}  // namespace

void append_limit_fields(const Exchange& exchange, std::string& out) {
    const auto& items = exchange.decision.ratelimit;
    if (items.empty()) return;
    const http::LimitFieldsChoice& groups = exchange.config().response.limit_fields;
    // What the items say begins when the store was asked, for which a body may have been read
    // first. Only Anthropic's fields say moments.
    auto begin = exchange.facts.began_at;
    if (groups.has(http::LimitFields::anthropic)) {
        begin += std::max(exchange.decision.charged_at - exchange.relay.began, {});
    }
    groups.append(items, begin, out);
}

const std::string& write_request_head(Exchange& exchange, const std::string& authority,
                                      std::optional<std::uint64_t> whole_body) {
    const http::RequestHead& request = exchange.facts.head;
    const config::Forwarding& forwarding = exchange.config().forwarding;
    const std::size_t stripped = exchange.decision.route->strip_prefix.size();
    std::string& out = exchange.upstream->stream.begin_head(
        request.method, routing::without_prefix(request.path, stripped), request.query);
    const bool ours = !forwarding.preserve_host || exchange.facts.host.empty();
    append_field("Host", ours ? std::string_view(authority) : exchange.facts.host, out);
    const std::optional<std::uint64_t> forwards = http::max_forwards(request);
    for (const Field& field : request.fields) {
        if (!goes_to_upstream(exchange, field)) continue;
        if (forwards && http::equal_ignoring_case(field.name, http::kMaxForwards)) {
            append_field(field.name, *forwards - 1, out);  // of 0, the request ends here
        } else {
            append_field(field.name, field.value, out);
        }
    }
    // The proxy says it for this hop, where it can: HTTP/1 needs a Connection beside it.
    if (exchange.upstream->stream.is_http2() && takes_trailers(request.fields)) {
        append_field("TE", "trailers", out);
    }
    http::append_forwarding_fields(
        {.fields = request.fields,
         .peer_trusted = exchange.facts.peer.trusted,
         .peer = exchange.facts.peer.address,
         .client = exchange.decision.client,
         .local_port = exchange.facts.local_port,
         .port_is_published = exchange.facts.port_is_published,
         .scheme = exchange.facts.scheme,
         .host = exchange.facts.host,
         .version = exchange.facts.version(),
         .settings = {forwarding.x_forwarded, forwarding.forwarded, forwarding.via}},
        out);
    if (forwarding.client_certificate && exchange.facts.certificate != nullptr) {
        append_client_certificate(*exchange.facts.certificate, out);
    }
    append_field("X-Request-Id", exchange.facts.request_id, out);
    if (exchange.trace != nullptr) append_trace_fields(*exchange.trace, out);
    append_identity(exchange, out);
    if (exchange.decision.route->has_soft_policies) append_over(exchange, out);
    if (exchange.relay.is_upgrade) {
        if (!exchange.upstream->websocket_key.empty()) {
            append_field("Sec-WebSocket-Key", exchange.upstream->websocket_key, out);
        }
        out += http::kSwitchLines;
    }
    end_request_head(exchange, whole_body);
    return out;
}

const std::string& write_answer_head(Exchange& exchange, const http::ResponseHead& answer,
                                     const http::Framing& framing, std::string_view date_line) {
    constexpr int kNoContent = 204;
    const config::Response& response = exchange.config().response;
    const bool has_cors = exchange.decision.route->cors != nullptr;
    const bool has_hsts = exchange.client->sends_hsts();
    bool has_date = false;
    std::string& out = exchange.client->begin_head(answer.status, answer.reason);
    for (const Field& field : answer.fields) {
        if (http::is_hop_by_hop(field) || is_replaced(response, exchange, field) ||
            http::looks_like_framing(field.name) ||
            (has_cors && is_merged_for_cors(exchange, field)) || (has_hsts && is_hsts(field))) {
            continue;
        }
        has_date = has_date || field.id == FieldName::date;
        append_field(field.name, field.value, out);
    }
    if (!has_date) out += date_line;
    if (response.request_id) append_field("X-Request-Id", exchange.facts.request_id, out);
    if (has_cors) append_forwarded_cors_fields(exchange, answer.fields, out);
    append_limit_fields(exchange, out);
    // To HEAD and in a 304, the length describes the body that is not there; 204 must have none.
    std::optional<std::uint64_t> length;
    if (framing.body == BodyKind::length ||
        (answer.status != kNoContent && had_content_length(answer.fields))) {
        length = framing.length;
    }
    exchange.client->end_head(framing.body, length);
    return out;
}

const std::string& write_switch_head(Exchange& exchange, const http::ResponseHead& answer) {
    const config::Response& response = exchange.config().response;
    // In HTTP/2 any success opens the tunnel, and the key was the proxy's (RFC 8441 section 5).
    constexpr int kOpened = 200;
    const bool is_http2 = exchange.facts.is_http2;
    std::string& out = is_http2 ? exchange.client->begin_head(kOpened, "OK")
                                : exchange.client->begin_head(answer.status, answer.reason);
    for (const Field& field : answer.fields) {
        if (http::is_hop_by_hop(field) || is_replaced(response, exchange, field) ||
            http::looks_like_framing(field.name) ||
            (is_http2 && http::is_websocket_accept(field)) ||
            (exchange.client->sends_hsts() && is_hsts(field))) {
            continue;
        }
        append_field(field.name, field.value, out);
    }
    if (response.request_id) append_field("X-Request-Id", exchange.facts.request_id, out);
    append_limit_fields(exchange, out);
    if (!is_http2) out += http::kSwitchLines;
    return out;
}

const std::string& write_interim_head(client::Stream& client, const http::ResponseHead& head) {
    std::string& out = client.begin_head(head.status, head.reason);
    for (const Field& field : head.fields) {
        if (http::is_hop_by_hop(field) || http::looks_like_framing(field.name)) {
            continue;
        }
        append_field(field.name, field.value, out);
    }
    return out;
}

// RFC 9110 sections 6.5.1 and 7.6.1: fields that Connection names are removed from the trailers,
// too.
void filter_request_trailers(const Exchange& exchange, http::Fields& trailers) {
    if (trailers.empty()) return;
    // The proxy identifies no client by a trailer, so it trusts none.
    const IdentityFields& names = exchange.generation->identity_fields;
    const RefusedTrailers& refused = exchange.generation->refused_trailers;
    const http::ListedNames named = http::connection_names(exchange.facts.head.fields);
    std::erase_if(trailers, [&](const Field& field) {
        return http::is_forwarding_field(field) || names.include(field.name) ||
               (exchange.trace != nullptr && is_trace_field(field.name)) ||
               names.is_credential(field.name) || refused.include(field.name) ||
               http::equal_as_variable(field.name, "x-request-id") || named.include(field.name);
    });
}

void filter_answer_trailers(const Exchange& exchange, http::Fields& trailers) {
    if (trailers.empty()) return;
    std::erase_if(trailers, [&](const Field& field) {
        return field.id == FieldName::retry_after ||
               is_replaced(exchange.config().response, exchange, field) ||
               (exchange.client->sends_hsts() && is_hsts(field));
    });
}

void append_cors_fields(const Exchange& exchange, std::string& out) {
    const config::Response& response = exchange.config().response;
    const config::Route* const route = exchange.decision.route;
    const config::Cors* const cors = route != nullptr ? route->cors : response.cors;
    if (cors == nullptr) return;
    // Also where no origin is named: a cache must not give this answer to a page of another origin.
    append_field("Vary", "Origin", out);
    if (cors->origins.any) {
        append_field("Access-Control-Allow-Origin", "*", out);
    } else {
        const std::string_view origin = http::single_value(exchange.facts.head.fields, "origin");
        if (!cors->origins.include(origin)) return;
        append_field("Access-Control-Allow-Origin", origin, out);
        if (cors->credentials) append_field("Access-Control-Allow-Credentials", "true", out);
    }
    append_field(kExposeHeaders, response.exposed_fields, out);
}

}  // namespace tidegate::proxy
