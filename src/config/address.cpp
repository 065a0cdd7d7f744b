#include "config/address.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/ip.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/address_text.hpp"
#include "config/error_message.hpp"

namespace tidegate::config {

namespace {

constexpr std::int64_t kPortMax = 65'535;
constexpr std::size_t kHostBytesMax = 253;
constexpr std::size_t kLabelBytesMax = 63;

bool is_label_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

bool is_label(std::string_view label) {
    return !label.empty() && label.size() <= kLabelBytesMax && label.front() != '-' &&
           label.back() != '-' && std::all_of(label.begin(), label.end(), is_label_character);
}

bool is_name(std::string_view text) {
    if (text.ends_with('.')) text.remove_suffix(1);
    if (text.empty() || text.size() > kHostBytesMax) return false;
    std::string_view label;
    while (true) {
        const std::size_t dot = text.find('.');
        label = text.substr(0, dot);
        if (!is_label(label)) return false;
        if (dot == std::string_view::npos) break;
        text.remove_prefix(dot + 1);
    }
    // A last label of digits is an address that went wrong, `10.0.0` or `256.1.1.1`: a resolver
    // would read some of these as other addresses.
    return !std::all_of(label.begin(), label.end(), [](char c) { return c >= '0' && c <= '9'; });
}

constexpr std::string_view kHttps = "https://";

// The likely meaning of a text that is no address to listen on; ends a message. Empty: unknown.
std::string listen_advice(std::string_view text) {
    constexpr std::string_view kSsl = " ssl";
    const bool is_url = text.starts_with(kHttps);
    if (is_url || text.ends_with(kSsl)) {
        if (is_url) text.remove_prefix(kHttps.size());
        if (text.ends_with(kSsl)) text.remove_suffix(kSsl.size());
        return "; write " + quote("address: " + std::string(text)) +
               " and `tls: {certificate: site.pem, key: site.key}` in a map";
    }
    if (const std::size_t scheme = text.find("://"); scheme != std::string_view::npos) {
        return "; write it without " + quote(text.substr(0, scheme + 3));
    }
    const std::size_t colon = text.rfind(':');
    const bool is_port_alone = colon == std::string_view::npos;
    const std::string_view port = is_port_alone ? text : text.substr(colon + 1);
    if (text.starts_with("*:") && parse_port(port)) {
        return "; write " + quote(port) + " for every address of the machine";
    }
    if (parse_ip(text) && text.find(':') == std::string_view::npos) {
        return "; add a port: " + quote(std::string(text) + ":8080");
    }
    if (text.starts_with('[') && text.ends_with(']') && parse_ip(text.substr(1, text.size() - 2))) {
        return "; add a port: " + quote(std::string(text) + ":8080");
    }
    if (!text.starts_with('[') && colon != std::string_view::npos && colon > 0 &&
        text.find(':') != colon && parse_ip(text.substr(0, colon)) && parse_port(port)) {
        return "; an IPv6 address stands in brackets: " +
               quote("[" + std::string(text.substr(0, colon)) + "]:" + std::string(port));
    }
    if (parse_decimal(port) && !parse_port(port)) return "; a port is a number from 0 to 65535";
    return {};
}

}  // namespace

std::optional<std::uint16_t> parse_port(std::string_view text) {
    const std::optional<std::int64_t> port = parse_decimal(text);
    if (!port || *port > kPortMax) return std::nullopt;
    return static_cast<std::uint16_t>(*port);
}

Result<Address, std::string> unix_address(std::string_view path) {
    if (path.starts_with("///")) path.remove_prefix(2);
    if (path.empty()) return ErrorMessage{"`unix:` needs a path: `unix:/run/tidegate.sock`"};
    if (path.starts_with("//")) {
        return ErrorMessage{quote(path) + " names a host: write `unix:/path` or `unix:///path`"};
    }
    if (path.front() == '@' || path.find('\0') != std::string_view::npos) {
        return ErrorMessage{quote(path) + " is not a path in the file system"};
    }
    if (path.size() > kUnixPathBytesMax) {
        return ErrorMessage{quote(path) + " is too long for a Unix socket: at most " +
                            std::to_string(kUnixPathBytesMax) + " bytes"};
    }
    Address address;
    address.unix_path = path;
    return address;
}

std::string plain_host_name(std::string_view host) {
    std::string name = to_lower(std::string(host));
    if (name.ends_with('.')) name.pop_back();
    return name;
}

bool names_this_machine(std::string_view host) {
    if (const auto ip = parse_ip(host)) {
        constexpr std::uint8_t kNetwork = 127;
        return ip->v4 ? ip->bytes[0] == kNetwork : ip == parse_ip("::1");
    }
    const std::string name = plain_host_name(host);
    return name == kLocalhost || name.ends_with(".localhost");
}

bool Address::overlaps(const Address& other) const {
    if (is_inherited() || other.is_inherited()) return inherited == other.inherited;
    if (is_unix() || other.is_unix()) return unix_path == other.unix_path;
    if (port != other.port || port == 0) return false;
    const auto includes = [](const Address& all, const Address& one) {
        return all.host == kEveryAddress ||
               (all.host == "0.0.0.0" && one.host.find(':') == std::string::npos);
    };
    return host == other.host || includes(*this, other) || includes(other, *this);
}

std::string Address::to_string() const {
    if (is_inherited()) return std::string(kInherited) + inherited;
    if (is_unix()) return std::string(kUnix) + unix_path;
    const bool v6 = host.find(':') != std::string::npos;
    return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool is_host(std::string_view text) {
    return parse_ip(text).has_value() || is_name(text);
}

Result<Address, std::string> parse_listen_address(std::string_view text) {
    if (text.starts_with(kUnix)) return unix_address(text.substr(kUnix.size()));
    if (text.starts_with(kInherited)) {
        return ErrorMessage{quote(text) +
                            " is for `listen` only: write an address, such as "
                            "`127.0.0.1:9901`"};
    }
    const std::size_t colon = text.rfind(':');
    std::string_view host = colon == std::string_view::npos ? "" : text.substr(0, colon);
    const std::string_view port_text =
        colon == std::string_view::npos ? text : text.substr(colon + 1);
    const std::optional<std::uint16_t> port = parse_port(port_text);
    const std::string wrong =
        quote(text) +
        " is not an address such as `8080`, `127.0.0.1:8080`, `[::1]:8080` or "
        "`unix:/run/tidegate.sock`";
    if (!port) return ErrorMessage{wrong + listen_advice(text)};
    if (colon == std::string_view::npos || colon == 0) host = "[::]";

    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    const bool has_colon = host.find(':') != std::string_view::npos;
    if (bracketed != has_colon) return ErrorMessage{wrong + listen_advice(text)};
    const std::optional<IpAddress> ip = parse_ip(host);
    if (!ip && is_name(host)) {
        return ErrorMessage{quote(text) +
                            " names a host: write an IP address, such as `127.0.0.1:" +
                            std::to_string(*port) + "` to listen on this machine only"};
    }
    if (!ip) return ErrorMessage{wrong + listen_advice(text)};
    Address address;
    address.host = ip->to_string();
    address.port = *port;
    return address;
}

Address reachable(Address address) {
    if (address.host == "0.0.0.0" || address.host == kEveryAddress) address.host = "127.0.0.1";
    return address;
}

bool leads_to(const Address& server, const Address& listener) {
    if (listener.is_inherited()) return false;
    if (server.is_unix() || listener.is_unix()) return server.unix_path == listener.unix_path;
    if (plain_host_name(server.host) == kLocalhost) {
        return leads_to({"127.0.0.1", server.port, ""}, listener) ||
               leads_to({"::1", server.port, ""}, listener);
    }
    const std::optional<IpAddress> ip = parse_ip(server.host);
    if (!ip) return false;
    // Linux connects to a wildcard over loopback.
    const std::string loopback = ip->v4 ? "127.0.0.1" : "::1";
    const Address reached{ip->is_unspecified() ? loopback : ip->to_string(), server.port, ""};
    // Of the addresses of this machine, at all of which a wildcard listens, loopback is known.
    return reached == listener || (names_this_machine(reached.host) && listener.overlaps(reached));
}

}  // namespace tidegate::config
