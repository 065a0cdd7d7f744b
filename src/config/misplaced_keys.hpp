// Keys that belong elsewhere, or that other proxies call so, and what to write instead. Pure.
#pragma once

#include <span>
#include <string_view>

namespace tidegate::config {

// A key that is unknown in its section, and what to write instead.
struct MisplacedKey {
    std::string_view section;  // without what the user chose: `listen[]`, `upstreams.*`
    std::string_view key;
    std::string_view advice;  // follows the word "write"
};

// The tables live as long as the program. The second one has TLS, HTTP/2, PROXY headers and
// redirects as nginx, Caddy, Traefik and others call them; the first one all else.
std::span<const MisplacedKey> misplaced_keys();
std::span<const MisplacedKey> misplaced_tls_keys();

}  // namespace tidegate::config
