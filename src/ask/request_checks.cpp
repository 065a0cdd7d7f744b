#include "ask/request_checks.hpp"

#include "http/query_and_method_override.hpp"
#include "http/websocket.hpp"

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

}  // namespace tidegate::ask
