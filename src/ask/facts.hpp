// What the engine gets of a request: its head and its peer. A plain value; the head's
// views go into the bytes of the caller, which stay until the request has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/head.hpp"
#include "identity/client_ip.hpp"

namespace tidegate::ask {

struct Facts {
    http::RequestHead head;
    std::string_view host;         // the authority of the target, else the Host field
    std::uint64_t body_bytes = 0;  // that the head announces; 0 also for a chunked body
    std::string request_id;        // the caller's name for the request
    identity::Peer peer;           // the other end of the connection
    std::uint16_t local_port = 0;  // of the listener
    std::chrono::system_clock::time_point began_at;

    // Forgets the request. Strings and vectors keep their capacity.
    void reset() {
        head.fields.clear();
        head.method = head.target = head.path = head.query = head.authority = host = {};
    }
};

}  // namespace tidegate::ask
