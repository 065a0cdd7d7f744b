#include "http/cors_origin.hpp"

#include <algorithm>

#include "base/ip.hpp"
#include "base/text.hpp"
#include "http/field.hpp"

namespace tidegate::http {

namespace {

constexpr std::string_view kSchemeEnd = "://";
constexpr std::string_view kWildcard = "*.";

bool is_letter(char c) {
    return is_alphanumeric(c) && !is_digit(c);
}

// RFC 3986 section 3.1.
bool is_scheme(std::string_view text) {
    return !text.empty() && is_letter(text.front()) &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return is_alphanumeric(c) || c == '+' || c == '-' || c == '.';
           });
}

// Labels of letters, digits, `-` and `_` with a dot between them.
bool is_name(std::string_view text) {
    bool label_is_empty = true;
    for (const char c : text) {
        if (c == '.') {
            if (label_is_empty) return false;
            label_is_empty = true;
        } else if (is_alphanumeric(c) || c == '-' || c == '_') {
            label_is_empty = false;
        } else {
            return false;
        }
    }
    return !label_is_empty;
}

bool is_bracketed(std::string_view host) {
    return host.starts_with('[');
}

bool is_bracketed_address(std::string_view text) {
    if (text.size() < 2 || !is_bracketed(text) || text.back() != ']') return false;
    const auto address = parse_ip(text.substr(1, text.size() - 2));
    return address && !address->v4;
}

std::uint16_t default_port(std::string_view scheme) {
    constexpr std::uint16_t kHttp = 80;
    constexpr std::uint16_t kHttps = 443;
    if (equal_ignoring_case(scheme, "https")) return kHttps;
    return equal_ignoring_case(scheme, "http") ? kHttp : 0;
}

// Digits without a leading zero: browsers write no other.
std::optional<std::uint16_t> read_port(std::string_view text) {
    if (text.empty() || !is_digit(text.front()) || text.front() == '0') return std::nullopt;
    return parse_number<std::uint16_t>(text);
}

// The mistake in a text that is no origin, if it is a known one.
std::string mistake_in(std::string_view text) {
    const std::size_t end = text.find(kSchemeEnd);
    if (end == std::string_view::npos) {
        return "has no scheme: write `https://app.example.com`";
    }
    const std::string_view rest = text.substr(end + kSchemeEnd.size());
    if (rest == "*") return "allows every host: write `*` alone, or `https://*.example.org`";
    if (rest.find('@') != std::string_view::npos) return "has a user: an origin has none";
    const std::size_t path = rest.find_first_of("/?#");
    if (path != std::string_view::npos) {
        return "has a path: an origin ends with its host or port: write `" +
               std::string(text.substr(0, end + kSchemeEnd.size() + path)) + "`";
    }
    if (rest.find('*') != std::string_view::npos) {
        return "has `*` in another place than before the host: write `https://*.example.org`";
    }
    return "is not an origin such as `https://app.example.com` or `https://*.example.org:8443`";
}

}  // namespace

std::optional<Origin> parse_origin(std::string_view text) {
    if (text.size() > kOriginBytesMax) return std::nullopt;
    const std::size_t end = text.find(kSchemeEnd);
    if (end == std::string_view::npos) return std::nullopt;
    Origin origin;
    origin.scheme = text.substr(0, end);
    origin.host = text.substr(end + kSchemeEnd.size());
    // Behind the brackets of an address, else the first.
    const std::size_t address_end = is_bracketed(origin.host) ? origin.host.find(']') : 0;
    if (address_end == std::string_view::npos) return std::nullopt;
    const std::size_t colon = origin.host.find(':', address_end);
    origin.port = default_port(origin.scheme);
    if (colon != std::string_view::npos) {
        const auto port = read_port(origin.host.substr(colon + 1));
        if (!port) return std::nullopt;
        origin.port = *port;
        origin.host = origin.host.substr(0, colon);
    }
    const bool is_host =
        is_bracketed(origin.host) ? is_bracketed_address(origin.host) : is_name(origin.host);
    if (!is_scheme(origin.scheme) || !is_host) return std::nullopt;
    return origin;
}

bool OriginPattern::matches(const Origin& origin) const {
    if (origin.port != port || !equal_ignoring_case(origin.scheme, scheme)) return false;
    if (!subdomains) return equal_ignoring_case(origin.host, host);
    // The host has at least a character and the dot more. The labels are those of a name, so none
    // is empty.
    if (origin.host.size() < host.size() + 2) return false;
    const std::size_t at = origin.host.size() - host.size();
    return origin.host[at - 1] == '.' && equal_ignoring_case(origin.host.substr(at), host);
}

Result<OriginPattern, std::string> parse_origin_pattern(std::string_view text) {
    OriginPattern pattern;
    std::string written(text);
    const std::size_t end = text.find(kSchemeEnd);
    if (end != std::string_view::npos) {
        const std::size_t host = end + kSchemeEnd.size();
        pattern.subdomains = text.substr(host).starts_with(kWildcard);
        if (pattern.subdomains) written.erase(host, kWildcard.size());
    }
    const auto origin = parse_origin(written);
    if (!origin) return {boost::system::in_place_error, mistake_in(text)};
    pattern.scheme = to_lower(std::string(origin->scheme));
    pattern.host = to_lower(std::string(origin->host));
    pattern.port = origin->port;
    if (is_bracketed(pattern.host)) {
        // Writes the address as browsers do.
        const auto address =
            parse_ip(std::string_view(pattern.host).substr(1, pattern.host.size() - 2));
        pattern.host = "[" + address->to_string() + "]";
    }
    if (pattern.subdomains && (is_bracketed(pattern.host) || parse_ip(pattern.host))) {
        return {boost::system::in_place_error,
                "is an address, which has no subdomains: remove `*.`"};
    }
    return pattern;
}

bool OriginList::include(std::string_view text) const {
    if (text.empty()) return false;
    if (any) return true;
    if (text == "null") return opaque;
    const auto origin = parse_origin(text);
    return origin &&
           std::any_of(patterns.begin(), patterns.end(),
                       [&](const OriginPattern& pattern) { return pattern.matches(*origin); });
}

}  // namespace tidegate::http
