#include "http/forwarding_fields.hpp"

#include <charconv>
#include <cstddef>
#include <limits>
#include <system_error>

#include "base/text.hpp"
#include "http/field.hpp"

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

// Here and below, `peer` is the peer's address, which several fields have; empty: it has none.
void append_x_forwarded_for(const ForwardingInput& input, std::string_view peer, std::string& out) {
    const bool continued =
        input.peer_trusted && append_joined(input.fields, FieldName::x_forwarded_for, out);
    // A Unix socket has no address to add; the last address in the list is still that of its
    // client.
    if (peer.empty()) return;
    if (continued) out += ", ";
    out += peer;
}

// What the client's URL begins with. Views go into the fields, or are constants.
struct ClientUrl {
    std::string_view proto{};
    std::string_view host{};       // may have a port; empty: none was sent
    std::string_view port{};       // that a trusted peer says or `host` names; may be empty
    std::uint16_t known_port = 0;  // without `port`: what follows from the rest; 0: nothing
};

// The first item of a list, as the proxy nearest to the client wrote it.
std::string_view first_item(std::string_view list) {
    list = list.substr(0, list.find(','));
    while (list.ends_with(' ') || list.ends_with('\t')) list.remove_suffix(1);
    return list;
}

// The port that a host names, without its colon; empty: none.
std::string_view port_of(std::string_view host) {
    const std::size_t first = host.find(':');
    if (first == host.npos) return {};
    const std::size_t colon = host.rfind(':');
    const std::string_view port = host.substr(colon + 1);
    // Otherwise the colon is a part of an IPv6 address.
    const bool ends_name = host.front() == '[' ? host[colon - 1] == ']' : first == colon;
    return ends_name && parse_number<std::uint16_t>(port) ? port : std::string_view{};
}

constexpr std::uint16_t kHttp = 80;
constexpr std::uint16_t kHttps = 443;

// The port of URLs that name none. Requires `http` or `https`.
std::uint16_t usual_port_of(std::string_view scheme) {
    return scheme == "https" ? kHttps : kHttp;
}

// The same of what a peer says; 0: not known.
std::uint16_t usual_port(std::string_view proto) {
    if (equal_ignoring_case(proto, "http") || equal_ignoring_case(proto, "ws")) return kHttp;
    return equal_ignoring_case(proto, "https") || equal_ignoring_case(proto, "wss") ? kHttps : 0;
}

// A parameter of an element of Forwarded (RFC 7239 section 4); empty where it is not there or would
// have to be unescaped.
std::string_view forwarded_parameter(std::string_view element, std::string_view name) {
    while (!element.empty()) {
        std::string_view pair = take_until(element, ';');
        while (pair.starts_with(' ')) pair.remove_prefix(1);
        while (pair.ends_with(' ')) pair.remove_suffix(1);
        const std::size_t equals = pair.find('=');
        if (equals == pair.npos || !equal_ignoring_case(pair.substr(0, equals), name)) continue;
        std::string_view value = pair.substr(equals + 1);
        if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
            value = value.substr(1, value.size() - 2);
        }
        return value.find_first_of("\"\\") == value.npos ? value : std::string_view{};
    }
    return {};
}

// What a trusted peer says of the client's URL: in X-Forwarded-*, else in the element of Forwarded
// that it has added.
ClientUrl told_by_peer(const Fields& fields) {
    ClientUrl told{.proto = last_value(fields, FieldName::x_forwarded_proto),
                   .host = last_value(fields, FieldName::x_forwarded_host),
                   .port = last_value(fields, FieldName::x_forwarded_port)};
    if (told.proto.empty() && told.host.empty() && told.port.empty()) {
        std::string_view element = last_value(fields, FieldName::forwarded);
        // What a comma inside of quotes leaves has neither parameter.
        element.remove_prefix(element.rfind(',') + 1);
        told.proto = forwarded_parameter(element, "proto");
        told.host = forwarded_parameter(element, "host");
    }
    if (told.port.empty()) told.port = port_of(first_item(told.host));
    if (!told.proto.empty()) return told;
    const std::string_view port = first_item(told.port);
    if (port == "443") told.proto = "https";
    if (port == "80") told.proto = "http";
    return told;
}

// Decided together, so that they make one URL: what a trusted peer says, what follows from that,
// and only then what the proxy sees itself. Clients need not use the listener's port, which a
// container or a balancer may publish under another number.
ClientUrl client_url_of(const ForwardingInput& input) {
    ClientUrl url;
    if (input.peer_trusted) url = told_by_peer(input.fields);
    const bool is_our_proto = url.proto.empty();
    if (is_our_proto) url.proto = input.scheme;
    if (url.host.empty()) {
        url.host = input.host;
        if (url.port.empty()) url.port = port_of(input.host);
    }
    if (!url.port.empty()) return url;
    if (is_our_proto && (url.host.empty() || input.port_is_published)) {
        url.known_port = input.local_port;
    } else {
        // A URL without a port has that of its scheme.
        url.known_port =
            is_our_proto ? usual_port_of(input.scheme) : usual_port(first_item(url.proto));
    }
    return url;
}

void append_x_real_ip(const ForwardingInput& input, std::string_view peer, std::string& out) {
    if (input.client == input.peer) {
        out += peer;
    } else {
        input.client->append_to(out);
    }
}

void append_x_forwarded(const ForwardingInput& input, const ClientUrl& url, std::string_view peer,
                        std::string& out) {
    append_line("X-Forwarded-For", out, [&] { append_x_forwarded_for(input, peer, out); });
    append_field("X-Forwarded-Proto", url.proto, out);
    if (!url.host.empty()) append_field("X-Forwarded-Host", url.host, out);
    if (!url.port.empty()) {
        append_field("X-Forwarded-Port", url.port, out);
    } else if (url.known_port != 0) {
        append_field("X-Forwarded-Port", std::uint64_t{url.known_port}, out);
    }
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

// A token, or between quotes what a peer has made up.
void append_forwarded_proto(std::string_view proto, std::string& out) {
    const bool is_scheme = std::all_of(proto.begin(), proto.end(), is_alphanumeric);
    out += ";proto=";
    if (is_scheme && !proto.empty()) {
        out += proto;
    } else {
        append_quoted_string(proto, out);
    }
}

// Appends the port, too, if it is another than the URL would have without one.
void append_forwarded_host(const ClientUrl& url, std::string& out) {
    const std::string_view host = first_item(url.host);
    const std::uint16_t port = url.known_port != 0
                                   ? url.known_port
                                   : parse_number<std::uint16_t>(first_item(url.port)).value_or(0);
    const bool needs_port =
        port != 0 && port != usual_port(first_item(url.proto)) && port_of(host).empty();
    out += ";host=";
    if (needs_port) {
        append_quoted_string(std::string(host).append(":").append(std::to_string(port)), out);
    } else {
        append_quoted_string(host, out);
    }
}

// The element that begins a list says what the client's URL was, like X-Forwarded-*; a further one,
// how the request came here from the proxy before (RFC 7239 section 5).
void append_forwarded(const ForwardingInput& input, const ClientUrl& url, std::string_view peer,
                      std::string& out) {
    const bool continued =
        input.peer_trusted && append_joined(input.fields, FieldName::forwarded, out);
    if (continued && !input.peer) return;  // as for X-Forwarded-For
    if (continued) out += ", ";
    out += "for=";
    if (input.peer)
        append_forwarded_for(*input.peer, peer, out);
    else
        out += "unknown";
    const ClientUrl seen = continued ? ClientUrl{.proto = input.scheme, .host = input.host} : url;
    append_forwarded_proto(first_item(seen.proto), out);
    if (!seen.host.empty()) append_forwarded_host(seen, out);
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
    const bool needs_url = input.settings.x_forwarded || input.settings.forwarded;
    const ClientUrl url = needs_url ? client_url_of(input) : ClientUrl{};
    if (input.settings.x_forwarded)
        append_x_forwarded(input, url, peer, out);
    else
        pass_on_x_forwarded(input, out);
    if (input.settings.forwarded)
        append_line("Forwarded", out, [&] { append_forwarded(input, url, peer, out); });
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

std::optional<std::uint64_t> max_forwards(const RequestHead& head) {
    if (head.method != "OPTIONS") return {};
    const std::string_view text = single_value(head.fields, kMaxForwards);
    if (text.empty()) return {};
    const char* const end = text.data() + text.size();
    std::uint64_t number = 0;
    const auto [stop, fault] = std::from_chars(text.data(), end, number);
    if (stop != end) return {};
    if (fault == std::errc::result_out_of_range) return std::numeric_limits<std::uint64_t>::max();
    return number;
}

}  // namespace tidegate::http
