// Owners of OpenSSL's connections and sessions.
#pragma once

#include <memory>

#include <openssl/types.h>

// <openssl/types.h> leaves this one to the large <openssl/ssl.h>.
using SSL_SESSION = struct ssl_session_st;

namespace tidegate {

struct FreeTls {
    void operator()(SSL* tls) const;
};
struct FreeTlsSession {
    void operator()(SSL_SESSION* session) const;
};
using TlsPtr = std::unique_ptr<SSL, FreeTls>;
// What lets a later connection skip most of the handshake.
using TlsSessionPtr = std::unique_ptr<SSL_SESSION, FreeTlsSession>;

}  // namespace tidegate
