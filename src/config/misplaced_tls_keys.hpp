// Advice for keys of TLS, HTTP/2, PROXY headers and redirects as nginx, Caddy, Traefik and others
// call them. Pure.
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

// They live as long as the program.
std::span<const MisplacedKey> misplaced_tls_keys();

}  // namespace tidegate::config
