// URLs of servers, of keys, of collectors and of Redis; address.hpp declares their readers.
#include <algorithm>
#include <cstddef>
#include <utility>

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/address_text.hpp"
#include "config/error_message.hpp"

namespace tidegate::config {

namespace {

namespace urls = boost::urls;

constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;
constexpr std::int64_t kDatabaseMax = 65'535;
constexpr std::string_view kHttpsScheme = "https://";
constexpr const char* kWrongPort = "a port is a number from 1 to 65535";
constexpr const char* kWriteHttps =
    "write `https://`: anyone on the network path can replace keys fetched over `http://`, which "
    "is "
    "for this machine only (127.0.0.1, ::1, localhost)";

// The host and port of `url`. Requires an authority without user information, or one whose user
// information has been taken.
Result<Address, std::string> url_address(const urls::url_view& url, std::uint16_t default_port) {
    Address address;
    // Boost.URL 1.81 reads `10.0.0.1.example` as the host 10.0.0.1 and a path, and `h:80x` as the
    // port 80 and a path.
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
    // The text may hold a secret: messages do not repeat it.
    const auto parsed = urls::parse_uri({text.data(), text.size()});
    if (!parsed) return ErrorMessage{"this is not a URL such as " + quote(example)};
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

Result<ServerUrl, std::string> parse_server_url(std::string_view text) {
    if (text.starts_with(kUnix)) {
        auto address = unix_address(text.substr(kUnix.size()));
        if (!address) return ErrorMessage{address.error()};
        return ServerUrl{std::move(*address), "localhost"};
    }
    const auto parsed = urls::parse_uri({text.data(), text.size()});
    if (!parsed) {
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

Result<HttpsUrl, std::string> parse_key_url(std::string_view text) {
    auto url = parse_https_url(text, "https://idp.example/keys");
    if (url && !url->is_tls && !names_this_machine(url->address.host)) {
        return ErrorMessage{kWriteHttps};
    }
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

Result<HttpsUrl, std::string> parse_issuer_url(std::string_view text) {
    auto url = parse_key_url(text);
    if (url && url->target.find('?') != std::string::npos) {
        return ErrorMessage{
            "remove the query (`?...`): an issuer has none, such as `https://idp.example`"};
    }
    return url;
}

Result<RedisUrl, std::string> parse_redis_url(std::string_view text, std::uint16_t default_port) {
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

}  // namespace tidegate::config
