// Addresses as people write them: where to listen, what to connect to. Pure; nothing is resolved.
// Errors are sentences that say what would be right and never show user information of a URL.
#pragma once

#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace tidegate::config {

// A listener with this host takes connections over IPv6 and over IPv4; over IPv4 alone where the
// kernel has no IPv6.
inline constexpr const char* kEveryAddress = "::";

// Where a socket listens or connects: `host:port`, or a path for `unix:`; for `systemd:`, the name
// of a listening socket that the process inherits.
struct Address {
    std::string host;  // an IP address or a name; brackets removed
    std::uint16_t port = 0;
    std::string unix_path;    // set: host and port are not
    std::string inherited{};  // likewise; of listeners only

    bool is_unix() const { return !unix_path.empty(); }
    bool is_inherited() const { return !inherited.empty(); }
    // `127.0.0.1:80`, `[::1]:80`, `unix:/run/x.sock`, `systemd:web`
    std::string to_string() const;
    // Whether one socket cannot listen here while another listens at `other`. Port 0 is any free
    // port, which no other socket has. Of an inherited socket only the name is known.
    bool overlaps(const Address& other) const;

    bool operator==(const Address&) const = default;
};

// Something to be asked over TLS, or without.
struct HttpsUrl {
    bool is_tls = true;
    Address address;
    std::string authority;     // for Host
    std::string target;        // for the request line: path and query, percent-encoded
    bool is_insecure = false;  // an http:// URL may lead to another machine

    // For logs and metrics: without the query, which may hold a secret.
    std::string shown() const;

    bool operator==(const HttpsUrl&) const = default;
};

inline constexpr std::size_t kUnixPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

// Begins the name of a socket that the process inherits.
inline constexpr std::string_view kInherited = "systemd:";

// `8080`, `:8080`, `0.0.0.0:8080`, `[::1]:8080`, `unix:/path`. A host is an IP address; port 0
// lets the system choose. Without a host: kEveryAddress.
Result<Address, std::string> parse_listen_address(std::string_view text);

// The same for an item of `listen`, which may be `systemd:NAME`: a socket that systemd passes.
Result<Address, std::string> parse_listener(std::string_view text);

// Where a program of this machine reaches what listens at `address`: a wildcard as 127.0.0.1.
Address reachable(Address address);

// Whether a connection to `server` comes to what listens at `listener` on this machine: the same
// address, or a loopback address of a listener at all addresses. `localhost` is 127.0.0.1 and ::1;
// no other name is resolved.
bool leads_to(const Address& server, const Address& listener);

// A loopback address, or `localhost` and names under it (RFC 6761 section 6.3).
bool names_this_machine(std::string_view host);

struct ServerUrl {
    Address address;
    std::string authority;  // for Host: as written, `localhost` for a Unix socket
    bool is_tls = false;
    bool is_h2c = false;  // `h2c://`: HTTP/2 in the clear
};

// Whether `tidegate config` blanked a part of this URL or path. The parsers below refuse those.
bool is_blanked_url(std::string_view text);

// `http://host`, `http://host:port`, the same with `https` and `h2c`, `unix:/path`.
Result<ServerUrl, std::string> parse_server_url(std::string_view text);

struct RedisUrl {
    Address address;
    std::string username;
    std::string password;
    int database = 0;
    bool tls = false;
};

// `redis://user:password@host:6379/0`, `rediss://...` for TLS, `unix:///path`.
Result<RedisUrl, std::string> parse_redis_url(std::string_view text,
                                              std::uint16_t default_port = 6379);

// `https://host/path`, `https://host:port/path?query`. Or `http://` with a host that is this
// machine: an address such as 127.0.0.1 or ::1, or `localhost`; the one who connects sees whether
// that name resolves to this machine. With `is_insecure`, `http://` with any host.
Result<HttpsUrl, std::string> parse_key_url(std::string_view text, bool is_insecure = false);

// Where spans are sent: `http://host:4318/v1/traces`, or `https`. Any host.
Result<HttpsUrl, std::string> parse_collector_url(std::string_view text);

// The same as parse_key_url() for an issuer of tokens (OpenID Connect Discovery 1.0 section 4),
// which has no query.
Result<HttpsUrl, std::string> parse_issuer_url(std::string_view text, bool is_insecure = false);

// An IP address or a name that may stand in DNS (RFC 1123; `_` is let through, as compose files
// have it), at most 253 bytes.
bool is_host(std::string_view text);

}  // namespace tidegate::config
