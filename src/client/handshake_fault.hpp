// Why a TLS handshake with a client failed, for metrics and in words for an operator. Any thread.
#pragma once

#include <string>

#include "client/metrics.hpp"
#include "tls/channel.hpp"

namespace tidegate::client {

struct HandshakeFault {
    TlsHandshakeFailure reason = TlsHandshakeFailure::other;
    std::string message;  // ends a sentence about the client
};

// Of a handshake that failed or was cut off.
HandshakeFault handshake_fault(const TlsChannel& channel);

}  // namespace tidegate::client
