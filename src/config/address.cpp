#include "config/address.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

#include "base/ip.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/config.hpp"
#include "config/value.hpp"

namespace tidegate::config {

namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kLocalhost = "localhost";
constexpr std::int64_t kPortMax = 65'535;
constexpr std::size_t kHostBytesMax = 253;
constexpr std::size_t kLabelBytesMax = 63;

// 0 to 65535, in decimal.
std::optional<std::uint16_t> parse_port(std::string_view text) {
    const std::optional<std::int64_t> port = parse_decimal(text);
    if (!port || *port > kPortMax) return std::nullopt;
    return static_cast<std::uint16_t>(*port);
}

// `path` is the text behind `unix:`; `unix:///run/x` is the same path.
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

// In lower case, without the root's dot.
std::string plain_host_name(std::string_view host) {
    std::string name = to_lower(std::string(host));
    if (name.ends_with('.')) name.pop_back();
    return name;
}

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

// URLs of servers, of keys, of collectors and of Redis.

namespace {

namespace urls = boost::urls;

constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;
constexpr std::int64_t kDatabaseMax = 65'535;
constexpr std::string_view kHttpsScheme = "https://";
constexpr const char* kWrongPort = "a port is a number from 1 to 65535";
constexpr const char* kWriteHttps =
    "write `https://`: anyone on the network path can replace keys fetched over `http://`, which "
    "is for this machine only (127.0.0.1, ::1, localhost). Inside a network that you trust, such "
    "as that of a cluster, write `insecure: on` beside the URL";

// Whether Boost.URL refuses `text`, a URL, for what follows the colon of its host, or could.
bool has_wrong_port(std::string_view text) {
    const std::size_t scheme = text.find("://");
    if (scheme == std::string_view::npos) return false;
    text.remove_prefix(scheme + 3);
    std::string_view authority = text.substr(0, text.find_first_of("/?#"));
    if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
        authority.remove_prefix(at + 1);
    } else if (text.find('@') != std::string_view::npos) {
        return false;  // a password with a `/` in it, more likely
    }
    const std::size_t address = authority.starts_with('[') ? authority.find(']') : 0;
    if (address == std::string_view::npos) return false;
    const std::size_t colon = authority.find(':', address);
    if (colon == std::string_view::npos || colon != authority.rfind(':')) return false;
    return parse_port(authority.substr(colon + 1)).value_or(0) == 0;
}

// The host and port of `url`. Requires an authority without user information, or one whose user
// information has been taken.
Result<Address, std::string> url_address(const urls::url_view& url, std::uint16_t default_port) {
    Address address;
    // Boost.URL 1.81 reads `10.0.0.1.example` as the host 10.0.0.1 and a path, and `h:80x` as the
    // port 80 and a path. 1.83 reads the first as a name, and refuses the second.
    const auto path = url.encoded_path();
    if (!path.empty() && path.front() != '/') {
        if (url.has_port()) return ErrorMessage{kWrongPort};
        return ErrorMessage{"the host in the URL is not an IP address or a host name"};
    }
    const auto host = url.host_address();
    address.host.assign(host.data(), host.size());
    if (url.host_type() == urls::host_type::ipvfuture || !is_host(address.host)) {
        return ErrorMessage{quote(address.host) + " is not an IP address or a host name"};
    }
    address.port = default_port;
    if (url.has_port()) {
        const auto text = url.port();
        const auto port = parse_port({text.data(), text.size()});
        if (!port || *port == 0) return ErrorMessage{kWrongPort};
        address.port = *port;
    }
    return address;
}

// The authority for Host, made of the parts: percent-encoding has no place in it.
std::string authority_of(const urls::url_view& url, const Address& address) {
    std::string authority = address.to_string();
    if (!url.has_port()) authority.resize(authority.rfind(':'));
    return authority;
}

Result<int, std::string> database_of(std::string_view path) {
    if (path.empty() || path == "/") return 0;
    const std::optional<std::int64_t> database = parse_decimal(path.substr(1));
    if (!database || *database > kDatabaseMax) {
        return ErrorMessage{
            "a Redis URL ends with the number of a database, from 0 to 65535: "
            "`redis://host:6379/0`"};
    }
    return static_cast<int>(*database);
}

constexpr std::pair<std::string_view, std::string_view> kSchemesOfHttp2[] = {
    {"h2://", kHttpsScheme}, {"grpcs://", kHttpsScheme}, {"grpc://", "h2c://"}};

// `localhost:3000` and `3000`: the likely URL, as the end of a message. Empty: unknown. No text
// that may hold a password is repeated.
std::string server_advice(std::string_view text) {
    // Spellings of HTTP/2 in other programs: `h2://`, and `grpc://` for its main use.
    for (const auto& [theirs, ours] : kSchemesOfHttp2) {
        if (!text.starts_with(theirs)) continue;
        const std::string meant = std::string(ours) + std::string(text.substr(theirs.size()));
        return parse_server_url(meant)
                   ? "; write " + quote(meant) +
                         (ours == kHttpsScheme ? " and `http: h2` in the upstream" : "")
                   : std::string();
    }
    if (text.empty() || text.find("://") != std::string_view::npos) return {};
    const std::string host = parse_port(text) ? "127.0.0.1:" : "";
    const std::string meant = "http://" + host + std::string(text);
    return parse_server_url(meant) ? "; write " + quote(meant) : std::string();
}

// `localhost:6379`, which has no place for a password.
bool is_host_and_port(std::string_view text) {
    const std::size_t colon = text.find(':');
    if (colon == 0 || colon == std::string_view::npos || colon + 1 == text.size()) return false;
    const std::string_view host = text.substr(0, colon);
    const std::string_view port = text.substr(colon + 1);
    return port.size() <= 5 && std::all_of(port.begin(), port.end(), is_digit) &&
           std::all_of(host.begin(), host.end(),
                       [](char c) { return is_alphanumeric(c) || c == '.' || c == '-'; });
}

// A URL such as `example`, of either scheme and any host.
Result<HttpsUrl, std::string> parse_https_url(std::string_view text, const std::string& example) {
    if (is_blanked_url(text)) return ErrorMessage{std::string(kWriteTheSecret)};
    // The text may hold a secret: messages do not repeat it.
    const auto parsed = urls::parse_uri({text.data(), text.size()});
    if (!parsed) {
        return ErrorMessage{has_wrong_port(text) ? kWrongPort
                                                 : "this is not a URL such as " + quote(example)};
    }
    const urls::url_view& url = *parsed;
    const bool is_tls = url.scheme_id() == urls::scheme::https;
    if ((!is_tls && url.scheme_id() != urls::scheme::http) || !url.has_authority()) {
        return ErrorMessage{"expected a URL such as " + quote(example)};
    }
    if (url.has_userinfo()) {
        return ErrorMessage{
            "remove the user and password from the URL: Tidegate does not send them"};
    }
    if (url.has_fragment())
        return ErrorMessage{"remove the fragment (`#...`) from the URL: Tidegate does not send it"};
    auto address = url_address(url, is_tls ? kHttpsPort : kHttpPort);
    if (!address) return ErrorMessage{address.error()};
    HttpsUrl https;
    https.is_tls = is_tls;
    https.authority = authority_of(url, *address);
    https.address = std::move(*address);
    const auto target = url.encoded_target();
    https.target.assign(target.data(), target.size());
    if (!https.target.starts_with('/')) https.target.insert(0, "/");
    return https;
}

}  // namespace

bool is_blanked_url(std::string_view text) {
    return text.find(std::string(kBlanked) + "@") != text.npos || text.ends_with(kBlanked);
}

Result<ServerUrl, std::string> parse_server_url(std::string_view text) {
    if (is_blanked_url(text)) return ErrorMessage{std::string(kWriteTheSecret)};
    if (text.starts_with(kUnix)) {
        auto address = unix_address(text.substr(kUnix.size()));
        if (!address) return ErrorMessage{address.error()};
        return ServerUrl{std::move(*address), "localhost"};
    }
    const auto parsed = urls::parse_uri({text.data(), text.size()});
    if (!parsed) {
        if (has_wrong_port(text)) return ErrorMessage{kWrongPort};
        return ErrorMessage{
            "this is not a URL such as `http://10.0.0.5:3000` or "
            "`unix:/run/app.sock`" +
            server_advice(text)};
    }
    const urls::url_view& url = *parsed;
    const bool is_tls = url.scheme_id() == urls::scheme::https;
    const bool is_h2c = url.scheme() == "h2c";
    if ((!is_tls && !is_h2c && url.scheme_id() != urls::scheme::http) || !url.has_authority()) {
        return ErrorMessage{
            "an upstream is `http://host:port`, `https://host:port`, `h2c://host:port` or "
            "`unix:/path`" +
            server_advice(text)};
    }
    if (url.has_userinfo()) {
        return ErrorMessage{
            "remove the user and password from the URL: Tidegate does not send them to an "
            "upstream"};
    }
    auto address = url_address(url, is_tls ? kHttpsPort : kHttpPort);
    if (!address) return ErrorMessage{address.error()};
    if ((!url.encoded_path().empty() && url.encoded_path() != "/") || url.has_query() ||
        url.has_fragment()) {
        return ErrorMessage{
            "remove what follows the port: the path and the query come from each request"};
    }
    std::string authority = authority_of(url, *address);
    return ServerUrl{std::move(*address), std::move(authority), is_tls, is_h2c};
}

std::string HttpsUrl::shown() const {
    return (is_tls ? "https://" : "http://") + authority + target.substr(0, target.find('?'));
}

Result<HttpsUrl, std::string> parse_key_url(std::string_view text, bool is_insecure) {
    auto url = parse_https_url(text, "https://idp.example/keys");
    if (url && !url->is_tls && !is_insecure && !names_this_machine(url->address.host)) {
        return ErrorMessage{kWriteHttps};
    }
    if (url) url->is_insecure = is_insecure;
    return url;
}

Result<HttpsUrl, std::string> parse_collector_url(std::string_view text) {
    auto url = parse_https_url(text, "http://127.0.0.1:4318/v1/traces");
    if (url && url->target == "/") {
        return ErrorMessage{"write the whole path, " + quote(url->shown() + "v1/traces") +
                            " with most collectors"};
    }
    return url;
}

Result<HttpsUrl, std::string> parse_issuer_url(std::string_view text, bool is_insecure) {
    auto url = parse_key_url(text, is_insecure);
    if (url && url->target.find('?') != std::string::npos) {
        return ErrorMessage{
            "remove the query (`?...`): an issuer has none, such as `https://idp.example`"};
    }
    return url;
}

Result<RedisUrl, std::string> parse_redis_url(std::string_view text, std::uint16_t default_port) {
    if (is_blanked_url(text)) return ErrorMessage{std::string(kWriteTheSecret)};
    RedisUrl redis;
    if (text.starts_with(kUnix)) {
        auto address = unix_address(text.substr(kUnix.size()));
        if (!address) return ErrorMessage{address.error()};
        redis.address = std::move(*address);
        return redis;
    }
    if (is_host_and_port(text)) {
        return ErrorMessage{quote(text) + " is not a Redis URL: write " +
                            quote("redis://" + std::string(text))};
    }
    // The text may hold a password: messages do not repeat it.
    const auto parsed = urls::parse_uri({text.data(), text.size()});
    if (!parsed) {
        if (has_wrong_port(text)) return ErrorMessage{kWrongPort};
        return ErrorMessage{
            "this is not a URL such as `redis://host:6379/0` or "
            "`unix:///run/redis.sock` (in a password, `@`, `:`, `/` and `%` are "
            "written as `%40`, `%3A`, `%2F`, `%25`)"};
    }
    const urls::url_view& url = *parsed;
    redis.tls = url.scheme() == "rediss";
    if ((url.scheme() != "redis" && !redis.tls) || !url.has_authority()) {
        return ErrorMessage{
            "a Redis URL is `redis://host:6379/0`, `rediss://host:6379/0` (TLS) or "
            "`unix:///run/redis.sock`"};
    }
    if (url.has_query() || url.has_fragment()) {
        return ErrorMessage{
            "remove what follows the number of the database: `redis://host:6379/0`"};
    }
    auto address = url_address(url, default_port);
    if (!address) return ErrorMessage{address.error()};
    redis.address = std::move(*address);
    redis.username = url.user();
    redis.password = url.password();
    const auto path = url.encoded_path();
    const auto database = database_of({path.data(), path.size()});
    if (!database) return ErrorMessage{database.error()};
    redis.database = *database;
    return redis;
}

// `systemd:NAME` in `listen`.

Result<Address, std::string> parse_listener(std::string_view text) {
    if (!text.starts_with(kInherited)) return parse_listen_address(text);
    const std::string_view name = text.substr(kInherited.size());
    if (name.empty()) {
        return ErrorMessage{
            "`systemd:` needs the name of a socket, `FileDescriptorName=` of its .socket unit: "
            "`systemd:web`"};
    }
    constexpr std::size_t kSocketNameBytesMax = 255;  // systemd.socket(5), FileDescriptorName=
    const bool is_name = name.size() <= kSocketNameBytesMax &&
                         std::all_of(name.begin(), name.end(),
                                     [](char c) { return c > ' ' && c != '\x7f' && c != ':'; });
    if (!is_name) {
        return ErrorMessage{quote(text) +
                            " is not the name of a socket: at most 255 bytes, without `:`, spaces "
                            "and control characters"};
    }
    Address address;
    address.inherited = name;
    return address;
}

}  // namespace tidegate::config
