// Why a TLS connection to a server failed, in words for an operator. Any thread.
#pragma once

#include <string>

#include <openssl/types.h>

#include "net/asio.hpp"
#include "tls/channel.hpp"

namespace tidegate {

// Says what went wrong in a handshake or after it, as a clause about the server for an operator.
struct TlsFault {
    // One side does not accept the other, and will not until a configuration changes.
    bool refused = false;
    // The server asked for a client certificate and ended the connection, and none is configured.
    bool wants_certificate = false;
    std::string message;
};

// Explains the end, with `ec`, of a connection that TlsClient::connection_to() made. `heard`: data
// of the protocol above TLS have come from the server. Until then a server may still refuse the
// client's certificate: in TLS 1.3 the client's handshake is over before the server has looked at
// it, and the server's alert may be lost with the connection.
TlsFault tls_fault(SSL* tls, const error_code& ec, bool heard);
// The same for a connection of a channel that failed or was cut off.
TlsFault tls_fault(const TlsChannel& channel, bool heard);

// Whether `error`, of OpenSSL, is the other side's alert that it does not accept our certificate.
bool rejects_certificate(unsigned long error);

}  // namespace tidegate
