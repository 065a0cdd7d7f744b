// The address of a listener or of a server. A value; nothing here is resolved.
#pragma once

#include <cstdint>
#include <string>

namespace tidegate::config {

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
    std::string authority;  // for Host
    std::string target;     // for the request line: path and query, percent-encoded

    // For logs and metrics: without the query, which may hold a secret.
    std::string shown() const;

    bool operator==(const HttpsUrl&) const = default;
};

}  // namespace tidegate::config
