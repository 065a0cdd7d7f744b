#include "ask/route.hpp"

namespace tidegate::ask {

namespace {

using http::FieldName;
using http::FramingFault;
using routing::MatchOutcome;

std::string_view field_value(const http::Fields& fields, FieldName id) {
    for (const http::Field& field : fields) {
        if (field.id == id) return field.value;
    }
    return {};
}

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

}  // namespace

void check_framing(const config::RequestBounds& bounds, Facts& facts, http::Framing& framing,
                   Decision& decision) {
    http::RequestHead& head = facts.head;
    const FramingFault fault = http::request_framing(head, framing);
    if (fault != FramingFault::none) {
        return decision.refuse(Fault::bad_framing, http::describe(fault));
    }
    if (head.method == "CONNECT") return decision.refuse(Fault::unsupported_method);
    facts.host =
        head.authority.empty() ? field_value(head.fields, FieldName::host) : head.authority;
    if (framing.body == http::BodyKind::length && framing.length > bounds.body_bytes) {
        decision.refuse(Fault::body_too_large);
    }
}

void match_route(const config::Config& config, const Facts& facts, Decision& decision) {
    const http::RequestHead& head = facts.head;
    const auto matched = config.router.match({head.method, head.path, facts.host, &head.fields});
    if (matched.outcome != MatchOutcome::matched) return refuse(matched.outcome, decision);
    decision.route_index = matched.route;
    decision.route = &config.routes[matched.route];
}

}  // namespace tidegate::ask
