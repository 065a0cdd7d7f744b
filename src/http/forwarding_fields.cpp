#include "http/forwarding_fields.hpp"

#include <cstddef>

#include "base/numbers.hpp"
#include "http/field_lines.hpp"
#include "http/structured_field.hpp"

namespace tidegate::http {
namespace {

constexpr std::string_view kPseudonym = "tidegate";
constexpr std::string_view kOtherPrefix = "x-forwarded-";

// Appends the values of all fields of that name that hold something, joined in their order (RFC
// 9110 section 5.3). Returns whether there was one.
bool append_joined(const Fields& fields, FieldName name, std::string& out) {
    bool any = false;
    for (const Field& field : fields) {
        if (field.id != name || field.value.empty()) continue;
        if (any) out += ", ";
        any = true;
        out += field.value;
    }
    return any;
}

// The value nearest to us: of several fields, the last was written by the last proxy.
std::string_view last_value(const Fields& fields, FieldName name) {
    std::string_view value;
    for (const Field& field : fields)
        if (field.id == name) value = field.value;
    return value;
}

// Appends one line whose value `write` appends; nothing when it appends nothing.
template <class Write>
void append_line(std::string_view name, std::string& out, Write write) {
    const std::size_t start = out.size();
    out += name;
    out += ": ";
    const std::size_t value = out.size();
    write();
    if (out.size() == value)
        out.resize(start);
    else
        out += "\r\n";
}

// A list as a trusted peer sent it, without us.
void pass_on(const ForwardingInput& input, FieldName id, std::string_view name, std::string& out) {
    if (!input.peer_trusted) return;
    append_line(name, out, [&] { append_joined(input.fields, id, out); });
}

// Here and below, `peer` is its address, which several fields have; empty: it has none.
void append_x_forwarded_for(const ForwardingInput& input, std::string_view peer, std::string& out) {
    const bool continued =
        input.peer_trusted && append_joined(input.fields, FieldName::x_forwarded_for, out);
    // A Unix socket has no address to add; the last address in the list is still that of its
    // client.
    if (peer.empty()) return;
    if (continued) out += ", ";
    out += peer;
}

// The view of the first proxy in the chain: kept from a trusted peer, else the proxy's own.
void append_first_seen(const ForwardingInput& input, FieldName id, std::string_view name,
                       std::string_view ours, std::string& out) {
    const std::string_view theirs =
        input.peer_trusted ? last_value(input.fields, id) : std::string_view{};
    const std::string_view value = theirs.empty() ? ours : theirs;
    if (!value.empty()) append_field(name, value, out);
}

void append_x_real_ip(const ForwardingInput& input, std::string_view peer, std::string& out) {
    if (input.client == input.peer) {
        out += peer;
    } else {
        input.client->append_to(out);
    }
}

void append_x_forwarded(const ForwardingInput& input, std::string_view peer, std::string& out) {
    append_line("X-Forwarded-For", out, [&] { append_x_forwarded_for(input, peer, out); });
    append_first_seen(input, FieldName::x_forwarded_proto, "X-Forwarded-Proto", input.scheme, out);
    append_first_seen(input, FieldName::x_forwarded_host, "X-Forwarded-Host", input.host, out);
    std::string port;
    if (input.local_port != 0) append_number(input.local_port, port);
    append_first_seen(input, FieldName::x_forwarded_port, "X-Forwarded-Port", port, out);
    if (input.client) append_line("X-Real-IP", out, [&] { append_x_real_ip(input, peer, out); });
}

void pass_on_x_forwarded(const ForwardingInput& input, std::string& out) {
    pass_on(input, FieldName::x_forwarded_for, "X-Forwarded-For", out);
    pass_on(input, FieldName::x_forwarded_proto, "X-Forwarded-Proto", out);
    pass_on(input, FieldName::x_forwarded_host, "X-Forwarded-Host", out);
    pass_on(input, FieldName::x_forwarded_port, "X-Forwarded-Port", out);
    pass_on(input, FieldName::x_real_ip, "X-Real-IP", out);
}

// RFC 7239 section 6: an IPv6 address is in brackets, and these need quotes.
void append_forwarded_for(const IpAddress& ip, std::string_view text, std::string& out) {
    if (!ip.v4) out += "\"[";
    out += text;
    if (!ip.v4) out += "]\"";
}

void append_forwarded(const ForwardingInput& input, std::string_view peer, std::string& out) {
    const bool continued =
        input.peer_trusted && append_joined(input.fields, FieldName::forwarded, out);
    if (continued && !input.peer) return;  // as for X-Forwarded-For
    if (continued) out += ", ";
    out += "for=";
    if (input.peer)
        append_forwarded_for(*input.peer, peer, out);
    else
        out += "unknown";
    out += ";proto=";
    out += input.scheme;
    if (input.host.empty()) return;
    out += ";host=";
    append_quoted_string(input.host, out);
}

void append_via(const ForwardingInput& input, std::string& out) {
    if (append_joined(input.fields, FieldName::via, out) && input.settings.via) out += ", ";
    if (!input.settings.via) return;
    out += number_of(input.version);
    out += ' ';
    out += kPseudonym;
}

// The fields that gateways write for `forward_auth`. The proxy does not write them itself.
bool is_of_gateway(FieldName name) {
    return name == FieldName::x_forwarded_method || name == FieldName::x_forwarded_uri;
}

bool is_other_forwarding_field(const Field& field) {
    if (is_of_gateway(field.id)) return true;
    return field.id == FieldName::other && field.name.size() > kOtherPrefix.size() &&
           equal_ignoring_case(field.name.substr(0, kOtherPrefix.size()), kOtherPrefix) &&
           field.name.find('_') == field.name.npos;
}

// X-Forwarded-Prefix and its like, which trusted peers may send. Not X-Forwarded-Client-Cert, which
// many proxies hand on as their client wrote it.
void pass_on_others(const ForwardingInput& input, std::string& out) {
    if (!input.peer_trusted) return;
    for (const Field& field : input.fields) {
        if (!is_other_forwarding_field(field) || field.value.empty()) continue;
        append_field(field.name, field.value, out);
    }
}

}  // namespace

void append_forwarding_fields(const ForwardingInput& input, std::string& out) {
    std::string peer;
    if (input.peer) input.peer->append_to(peer);
    if (input.settings.x_forwarded)
        append_x_forwarded(input, peer, out);
    else
        pass_on_x_forwarded(input, out);
    if (input.settings.forwarded)
        append_line("Forwarded", out, [&] { append_forwarded(input, peer, out); });
    else
        pass_on(input, FieldName::forwarded, "Forwarded", out);
    append_line("Via", out, [&] { append_via(input, out); });
    pass_on_others(input, out);
}

bool is_forwarding_field(FieldName name) {
    switch (name) {
        case FieldName::forwarded:
        case FieldName::via:
        case FieldName::x_forwarded_client_cert:
        case FieldName::x_forwarded_for:
        case FieldName::x_forwarded_host:
        case FieldName::x_forwarded_port:
        case FieldName::x_forwarded_proto:
        case FieldName::x_real_ip:
            return true;
        default:
            return false;
    }
}

bool is_forwarding_field(const Field& field) {
    if (field.id != FieldName::other) {
        return is_forwarding_field(field.id) || is_of_gateway(field.id);
    }
    // Nearly all fields end here.
    if (field.name.size() < 9 || (field.name[0] | 0x20) != 'x') return false;
    if (field.name.size() == 9) return equal_as_variable(field.name, "x-real-ip");
    return field.name.size() > kOtherPrefix.size() &&
           equal_as_variable(field.name.substr(0, kOtherPrefix.size()), kOtherPrefix);
}

}  // namespace tidegate::http
