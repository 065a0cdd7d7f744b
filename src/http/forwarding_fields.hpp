// The fields by which the upstream learns the way a request took: X-Forwarded-*, Forwarded (RFC
// 7239), X-Real-IP, Via (RFC 9110 section 7.6.3). Pure; any thread.
//
// The writer of a request head copies no field for which is_forwarding_field() holds and calls
// append_forwarding_fields() instead, which continues the fields of a trusted peer and sets anew
// those of any other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ip.hpp"
#include "base/shared_enums.hpp"
#include "http/field.hpp"
#include "http/head.hpp"

namespace tidegate::http {

struct ForwardingSettings {
    bool x_forwarded = true;  // X-Forwarded-For, -Proto, -Host, -Port and X-Real-IP
    bool forwarded = false;
    bool via = true;
};

struct ForwardingInput {
    const Fields& fields;       // of the request as it came, controls already refused
    bool peer_trusted = false;  // Tidegate believes its forwarding fields
    std::optional<IpAddress> peer = std::nullopt;    // nothing: a Unix socket
    std::optional<IpAddress> client = std::nullopt;  // as identified; nothing: it is unknown
    std::uint16_t local_port = 0;                    // 0: a Unix socket
    bool port_is_published = false;                  // a balancer says that clients connect to it
    std::string_view scheme = "http";
    std::string_view host = {};                   // as sent, port and all; empty: none was sent
    HttpVersion version = HttpVersion::http_1_1;  // of the request as it came
    ForwardingSettings settings = {};
};

// Appends whole lines, `Name: value\r\n`. Allocates nothing when `out` has room.
//
// A field whose setting is off is not added; what a trusted peer sent of it is passed on as it is.
// X-Real-IP is always the client as identified: proxies that append to X-Forwarded-For often pass
// a client's own X-Real-IP through, so what a trusted peer sent of it proves nothing.
// Proto, host and port are decided together, in X-Forwarded-* and in an element of Forwarded that
// begins its list. A trusted peer's are kept; where it sends none, those of the last element of its
// Forwarded. A port that is not said is the one that the host names, else the balancer's, else that
// of the scheme; the listener's only where there is no host. A peer that says only the port 443 or
// 80 has said the scheme, too.
// Via is continued for every peer: it guards against loops and identifies no client.
// No peer's X-Forwarded-Client-Cert is passed on: the caller, which knows the client's certificate,
// appends its own.
void append_forwarding_fields(const ForwardingInput& input, std::string& out);

// Fields the writer must not copy, by their known name.
bool is_forwarding_field(FieldName name);

// The same for any field: also other X-Forwarded-* (a trusted peer's are passed on by
// append_forwarding_fields) and spellings with `_` for `-`, which many application servers take
// for the same field (those are never passed on).
bool is_forwarding_field(const Field& field);

// How many proxies a request may still pass (RFC 9110 section 7.6.2).
inline constexpr std::string_view kMaxForwards = "Max-Forwards";

// Returns the value of Max-Forwards. 0: the first server that gets it answers it. Nothing: there is
// no such field, or two, or it is no number; or the method is another than OPTIONS, the only one
// that goes to upstreams and for which the field has a meaning. A number above 64 bits is the
// greatest one.
std::optional<std::uint64_t> max_forwards(const RequestHead& head);

}  // namespace tidegate::http
