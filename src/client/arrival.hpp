// How a client's connection came in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "identity/client_ip.hpp"
#include "tls/client_auth.hpp"

namespace tidegate::client {

struct Arrival {
    identity::Peer peer{};           // with a PROXY header: the client that it names
    std::uint16_t local_port = 0;    // that the peer connected to; 0: a Unix socket
    bool port_is_published = false;  // local_port is the balancer's, by a PROXY header
    bool is_https = false;           // the client spoke TLS, with us or with the balancer in front
    bool has_proxy_header = false;
    bool takes_http1 = true;   // the listener does
    bool takes_http2 = false;  // in the clear by prior knowledge
    // In HTTP/1, a client that has finished sending still waits for its answers. False: it has
    // left. A FIN does not tell which.
    bool half_close = false;
    // `Strict-Transport-Security: ...\r\n`, for each answer to a client that spoke TLS. Empty or
    // null: off. The listener owns it, and a reload may change it.
    const std::string* hsts_line = nullptr;
    // That the client has shown over TLS; null: none.
    std::shared_ptr<const ClientCertificate> certificate{};
};

}  // namespace tidegate::client
