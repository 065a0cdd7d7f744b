#include "http/request_value.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/ip.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "http/field.hpp"

namespace tidegate::http {

namespace {

constexpr auto kRegistered = std::to_array<std::string_view>({"GET",
                                                              "HEAD",
                                                              "POST",
                                                              "PUT",
                                                              "DELETE",
                                                              "CONNECT",
                                                              "OPTIONS",
                                                              "TRACE",
                                                              "PATCH",
                                                              "ACL",
                                                              "BASELINE-CONTROL",
                                                              "BIND",
                                                              "CHECKIN",
                                                              "CHECKOUT",
                                                              "COPY",
                                                              "LABEL",
                                                              "LINK",
                                                              "LOCK",
                                                              "MERGE",
                                                              "MKACTIVITY",
                                                              "MKCALENDAR",
                                                              "MKCOL",
                                                              "MKREDIRECTREF",
                                                              "MKWORKSPACE",
                                                              "MOVE",
                                                              "ORDERPATCH",
                                                              "PRI",
                                                              "PROPFIND",
                                                              "PROPPATCH",
                                                              "QUERY",
                                                              "REBIND",
                                                              "REPORT",
                                                              "SEARCH",
                                                              "UNBIND",
                                                              "UNCHECKOUT",
                                                              "UNLINK",
                                                              "UNLOCK",
                                                              "UPDATE",
                                                              "UPDATEREDIRECTREF",
                                                              "VERSION-CONTROL"});

template <std::size_t n>
bool has_like(const std::array<std::string_view, n>& names, std::string_view name) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view one) { return equal_as_variable(one, name); });
}

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

// Decodes as forms are (application/x-www-form-urlencoded). False for a malformed `%`, `%00` (at
// which some readers end the text) and what is not UTF-8: some readers keep that as it is, others
// leave it out, others put something in its place.
bool decode_form(std::string_view text, std::string& out) {
    out.clear();
    bool ascii = true;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            ascii = ascii && static_cast<unsigned char>(text[i]) < 0x80;
            out += text[i] == '+' ? ' ' : text[i];
            continue;
        }
        if (text.size() - i < 3) return false;
        const int byte = hex_byte(text[i + 1], text[i + 2]);
        if (byte <= 0) return false;
        ascii = ascii && byte < 0x80;
        out += static_cast<char>(byte);
        i += 2;
    }
    return ascii || is_utf8(out);
}

bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

// The comparison of the least exact servers: PHP takes `.`, a space and a `[` that nothing closes
// for `_`, others ignore case.
char loosely(char c) {
    if (c == '.' || c == ' ' || c == '[') return '_';
    return to_lower(c);
}

bool same_loosely(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return loosely(x) == loosely(y); });
}

// Whether some reader takes `written`, decoded, for `name`. PHP passes over spaces before a name,
// qs and Rack over brackets, others over a `?`; all take what is before a bracket for the name of a
// list.
bool decoded_could_be(std::string_view written, std::string_view name) {
    if (written.size() < name.size()) return false;
    if (same_loosely(written, name)) return true;
    const std::size_t first = written.find_first_not_of(" []?");
    if (first == written.npos) return false;
    written.remove_prefix(first);
    if (same_loosely(written, name)) return true;
    written = written.substr(0, written.find_first_of("[]"));
    return same_loosely(written.substr(0, written.find_last_not_of(' ') + 1), name);
}

// qs ends a name at the first `]=`, however many `=` are before it.
bool is_split_by_bracket(std::string_view value) {
    return value.find("]=") != value.npos || value.find("%5D=") != value.npos ||
           value.find("%5d=") != value.npos;
}

// Reads the parameters of one query for one name.
class QueryReader {
  public:
    explicit QueryReader(std::string_view name) : name_(name) {}

    // `separators` are what ends a parameter.
    RequestValue read(std::string_view query, std::string_view separators) {
        stated_ = {};
        found_ = false;
        for (std::size_t count = 0; !query.empty(); ++count) {
            const std::size_t end = std::min(query.find_first_of(separators), query.size());
            if (count == kParametersMax || !note(query.substr(0, end))) {
                return {RequestValue::How::unclear, {}};
            }
            query.remove_prefix(std::min(end + 1, query.size()));
        }
        return std::move(stated_);
    }

  private:
    // False when the query is unclear.
    bool note(std::string_view parameter) {
        const std::size_t equals = std::min(parameter.find('='), parameter.size());
        if (!decode_form(parameter.substr(0, equals), decoded_) || has_control(decoded_)) {
            return false;
        }
        if (!decoded_could_be(decoded_, name_)) return true;
        if (found_ || decoded_ != name_) return false;
        found_ = true;
        const auto value = parameter.substr(std::min(equals + 1, parameter.size()));
        if (is_split_by_bracket(value) || !decode_form(value, decoded_)) return false;
        if (!decoded_.empty()) stated_ = {RequestValue::How::once, decoded_};
        return true;
    }

    std::string_view name_;
    std::string decoded_;
    RequestValue stated_;
    bool found_ = false;
};

}  // namespace

std::string_view registered_method(std::string_view method) {
    const auto* found = std::find_if(
        kRegistered.begin(), kRegistered.end(),
        [&](std::string_view registered) { return equal_ignoring_case(registered, method); });
    return found == kRegistered.end() ? std::string_view{} : *found;
}

RequestOverride find_override(std::string_view name) {
    if (has_like(kMethodOverrides, name)) return RequestOverride::method;
    return has_like(kTargetOverrides, name) ? RequestOverride::target : RequestOverride::none;
}

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

RequestValue value_in_fields(const Fields& fields, std::string_view name) {
    const Field* found = nullptr;
    for (const Field& field : fields) {
        if (!equal_as_variable(field.name, name)) continue;
        if (field.id == FieldName::named_by_connection) continue;
        if (found != nullptr || !equal_ignoring_case(field.name, name)) {
            return {RequestValue::How::unclear, {}};
        }
        found = &field;
    }
    if (found == nullptr || found->value.empty()) return {};
    return {RequestValue::How::once, std::string(found->value)};
}

bool is_unclear_in_fields(const Fields& fields, std::string_view name) {
    bool found = false;
    for (const Field& field : fields) {
        if (!equal_as_variable(field.name, name)) continue;
        if (found || field.id == FieldName::named_by_connection ||
            !equal_ignoring_case(field.name, name)) {
            return true;
        }
        found = true;
    }
    return false;
}

bool could_be_read_as(std::string_view written, std::string_view name) {
    const std::size_t encoded = written.find_first_of("%+");
    if (encoded == written.npos) return decoded_could_be(written, name);
    std::string decoded;
    if (decode_form(written, decoded)) return decoded_could_be(decoded, name);
    return decoded_could_be(written.substr(0, written.find('%')), name);
}

RequestValue value_in_query(std::string_view query, std::string_view name) {
    if (query.starts_with('?')) query.remove_prefix(1);
    QueryReader reader(name);
    RequestValue stated = reader.read(query, "&");
    if (stated.how == RequestValue::How::unclear || query.find(';') == query.npos) return stated;
    const RequestValue other = reader.read(query, "&;");
    if (other.how == stated.how && other.value == stated.value) return stated;
    return {RequestValue::How::unclear, {}};
}

}  // namespace tidegate::http
