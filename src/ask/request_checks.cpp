#include "ask/request_checks.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "http/query_and_method_override.hpp"
#include "http/websocket.hpp"
#include "routing/path_pattern.hpp"

namespace tidegate::ask {

namespace {

using http::FieldName;
using http::FramingFault;

std::string_view field_value(const http::Fields& fields, FieldName id) {
    for (const http::Field& field : fields) {
        if (field.id == id) return field.value;
    }
    return {};
}

// RFC 8441: what follows the head of an extended CONNECT is the tunnel, whose length no field says.
void check_tunnel(const Facts& facts, Decision& decision) {
    for (const http::Field& field : facts.head.fields) {
        if (field.id != FieldName::content_length) continue;
        return decision.refuse(Fault::bad_framing, "A CONNECT must not have Content-Length.");
    }
    if (http::websocket_connect(facts.head, facts.protocol) == http::WebSocketRequest::none) {
        decision.refuse(Fault::unsupported_method,
                        "The only protocol of CONNECT that is supported is `websocket`.");
    }
}

}  // namespace

void check_framing(Facts& facts, http::Framing& framing, Decision& decision) {
    http::RequestHead& head = facts.head;
    const FramingFault fault = http::request_framing(head, framing);
    if (fault != FramingFault::none) {
        return decision.refuse(Fault::bad_framing, http::describe(fault));
    }
    check_method(head.method, decision);
    if (!decision.goes_on()) return;
    if (!facts.protocol.empty()) check_tunnel(facts, decision);
    facts.host =
        head.authority.empty() ? field_value(head.fields, FieldName::host) : head.authority;
    facts.body_bytes = framing.body == http::BodyKind::length ? framing.length : 0;
    facts.has_body = framing.body != http::BodyKind::none;
}

// CONNECT asks for a tunnel. TRACE asks for the request as the upstream got it, so the answer would
// show scripts in a browser the cookies, and clients the fields that Tidegate adds for the upstream
// (RFC 9110 section 9.3.8). Some servers take `trace` for TRACE.
void check_method(std::string_view method, Decision& decision) {
    if (method == "CONNECT" || http::equal_ignoring_case(method, "TRACE")) {
        decision.refuse(Fault::unsupported_method);
    }
}

namespace {

using http::Field;
using routing::MatchOutcome;

void refuse(MatchOutcome outcome, Decision& decision) {
    switch (outcome) {
        case MatchOutcome::matched:
            return;
        case MatchOutcome::no_route:
            return decision.refuse(Fault::no_route);
        case MatchOutcome::bad_path:
            return decision.refuse(Fault::bad_path);
        case MatchOutcome::ambiguous_path:
            return decision.refuse(Fault::ambiguous_path);
        case MatchOutcome::other_case:
            return decision.refuse(
                Fault::ambiguous_path,
                "The path takes another route if the case of its letters is ignored.");
        case MatchOutcome::other_method:
            return decision.refuse(Fault::bad_head,
                                   "The method differs from a known one only in case.");
        case MatchOutcome::ambiguous_headers:
            return decision.refuse(
                Fault::ambiguous_name,
                "A header field that chooses the route is there twice, has `_` or `.` for `-` in "
                "its name, or is named by Connection.");
    }
}

// The limits hold for the path that chose the route, so the upstream must read the rest of it as
// the route did.
void check_strip_prefix(const config::Config& config, const config::Route& route,
                        std::string_view path, Decision& decision) {
    const bool ignoring_case = config.route_case == routing::RouteCase::ignore;
    if (routing::can_strip(path, route.strip_prefix, ignoring_case, route.passes_encoded_slash)) {
        return;
    }
    decision.refuse(Fault::ambiguous_path,
                    "The route removes the beginning of the path, which this path spells in "
                    "another way; or servers could read the rest of it in more than one way.");
}

// Without the scheme and the host that `url` begins with, if it does.
std::string_view without_origin(std::string_view url) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (!url.starts_with(scheme)) continue;
        const std::size_t end = url.find_first_of("/?#;\\", scheme.size());
        return end == url.npos || url[end] != '/' ? std::string_view() : url.substr(end);
    }
    return url;
}

// Whether an override names what the request line has anyway; a target also behind scheme and host,
// as ingress controllers of Kubernetes write it in the requests by which they ask.
bool says_the_same(const http::RequestHead& head, http::RequestOverride kind,
                   std::string_view value) {
    if (kind == http::RequestOverride::method) return value == head.method;
    value = without_origin(value);
    return value.size() == head.path.size() + head.query.size() && value.starts_with(head.path) &&
           value.ends_with(head.query);
}

// The proxy takes these fields off a request. Where nothing does, the application that gets it may
// act upon another method or target than the one that chose the route.
void check_overrides(const config::Config& config, const http::RequestHead& head,
                     Decision& decision) {
    for (const http::Field& field : head.fields) {
        const http::RequestOverride kind = http::override_of(field.name);
        if (!config.removed_overrides.include(kind)) continue;
        if (says_the_same(head, kind, field.value)) continue;
        return decision.refuse(
            Fault::ambiguous_name,
            "A header field names another method or target, by which the limits differ, and "
            "Tidegate cannot remove it from this request: see `method_override`.");
    }
}

}  // namespace

void match_route(const config::Config& config, const Facts& facts, Decision& decision) {
    const http::RequestHead& head = facts.head;
    const auto matched = config.router.match({head.method, head.path, facts.host, &head.fields});
    if (matched.outcome != MatchOutcome::matched) return refuse(matched.outcome, decision);
    const config::Route& route = config.routes[matched.route];
    decision.route_index = matched.route;
    decision.route = &route;
    decision.is_preflight = route.cors != nullptr && is_preflight(facts, config.credential_fields);
    if (facts.body_bytes > route.body_bytes) return decision.refuse(Fault::body_too_large);
    if (facts.keeps_fields) check_overrides(config, head, decision);
    if (!decision.goes_on()) return;
    if (!route.strip_prefix.empty()) check_strip_prefix(config, route, head.path, decision);
}

bool is_preflight(const Facts& facts, std::span<const std::string> credential_fields) {
    if (facts.head.method != "OPTIONS" || facts.has_body) return false;
    bool has_origin = false;
    bool has_method = false;
    for (const Field& field : facts.head.fields) {
        if (is_named(field, "origin")) {
            if (without_outer_blanks(field.value).empty()) return false;
            has_origin = true;
        } else if (is_named(field, "access-control-request-method")) {
            if (!http::is_token(field.value)) return false;
            has_method = true;
        } else if (http::override_of(field.name) != http::RequestOverride::none ||
                   std::any_of(credential_fields.begin(), credential_fields.end(),
                               [&](const std::string& name) {
                                   return http::equal_as_variable(name, field.name);
                               })) {
            return false;
        }
    }
    return has_origin && has_method;
}

}  // namespace tidegate::ask
