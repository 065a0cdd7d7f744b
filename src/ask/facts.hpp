// What the engine gets of a request: its head and its peer. A plain value; the head's
// views go into the bytes of the caller, which stay until the request has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/shared_enums.hpp"
#include "http/head.hpp"
#include "identity/client_ip.hpp"
#include "tls/client_auth.hpp"

namespace tidegate::ask {

struct Facts {
    http::RequestHead head;
    std::string_view host;             // the authority of the target, else the Host field
    std::uint64_t body_bytes = 0;      // that the head announces; 0 also for a chunked body
    bool has_body = false;             // of known length or not, as far as the caller knows
    std::string request_id;            // the caller's name for the request
    identity::Peer peer;               // the other end of the connection
    std::uint16_t local_port = 0;      // that the client connected to
    bool port_is_published = false;    // a PROXY header says so: at the balancer in front
    std::string_view scheme = "http";  // that the client spoke
    bool is_http2 = false;             // the head is as HTTP/1.1 would have it all the same
    // A gateway or program passes the request on, and no answer of ours takes a field off it.
    bool keeps_fields = false;
    std::string_view protocol;  // of an extended CONNECT (RFC 8441), whose head says GET
    // That the client has shown over TLS; null: none. The connection owns it.
    const ClientCertificate* certificate = nullptr;
    std::chrono::system_clock::time_point began_at;

    // Forgets the request. Strings and vectors keep their capacity.
    void reset() {
        head.clear();
        host = protocol = {};
        has_body = is_http2 = keeps_fields = false;
    }

    HttpVersion version() const {
        if (is_http2) return HttpVersion::http_2;
        return head.minor_version == 0 ? HttpVersion::http_1_0 : HttpVersion::http_1_1;
    }
};

}  // namespace tidegate::ask
