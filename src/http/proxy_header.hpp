// The PROXY header, version 1 (text) and 2 (binary), in which a balancer names the client of a
// connection that it opens. Pure; any thread.
//
// The header is the first thing on a connection, before anything of the client. The reader is
// strict: what two readers could take for different headers is malformed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ip.hpp"

namespace tidegate::http {

// A header of version 2 may have 64 KiB. What balancers add to the addresses is much less.
inline constexpr std::size_t kProxyHeaderBytesMax = 4'096;

struct ProxyHeader {
    enum class State : std::uint8_t {
        complete,
        incomplete,  // more has to come before anything can be said
        malformed,   // no header, whatever comes
    };
    // The two ends of the client's connection to the balancer.
    struct Ends {
        IpAddress source;
        IpAddress destination;
        std::uint16_t source_port = 0;
        std::uint16_t destination_port = 0;

        bool operator==(const Ends&) const = default;
    };

    State state = State::incomplete;
    std::size_t bytes = 0;  // of a complete header; what follows is the client's
    // Not set: the header names no client by an IP address, and the connection is taken as the
    // balancer's own (a health check of the balancer, a client of its Unix socket, or UNKNOWN).
    std::optional<Ends> ends;
    std::string_view fault;  // of a malformed one; ends a sentence: `has an unknown version`
};

// Reads the header that `bytes` begin with. The extensions behind the addresses are passed over.
ProxyHeader read_proxy_header(std::string_view bytes);

// Whether a request that begins so, and cannot be read, is a PROXY header. `bytes` may lack the
// empty line that is passed over before a request.
bool looks_like_proxy_header(std::string_view bytes);

}  // namespace tidegate::http
