// What TLS connections to a server are made with: whom we believe, who we are, which versions.
//
// Made once from a configuration, as reading authorities and keys is dear; connections are then
// cheap. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <openssl/types.h>

#include "base/result.hpp"
#include "net/asio.hpp"
#include "tls/tls_settings.hpp"

namespace tidegate {

struct FreeTls {
    void operator()(SSL* tls) const;
};
using TlsPtr = std::unique_ptr<SSL, FreeTls>;

class TlsClient {
  public:
    // Or what is wrong with the settings, as a sentence. Reads the system's authorities if those
    // are meant (SSL_CERT_FILE and SSL_CERT_DIR replace them).
    static Result<std::shared_ptr<TlsClient>, std::string> make(const TlsSettings& settings);

    // The client's side of a connection to `host`, a name or an IP address, for asio::ssl::stream.
    // TLS 1.2 or later; the certificate is verified, and held to the name (RFC 9525): a subject
    // that is no alternative name means nothing. Null when OpenSSL has no memory or the name cannot
    // be asked for in TLS.
    TlsPtr connection_to(const std::string& host) const;

    // Connections that are made from now on are made as by `other`: certificates run out, and are
    // replaced while the program runs.
    void become(const TlsClient& other);

  private:
    struct FreeContext {
        void operator()(SSL_CTX* context) const;
    };
    using ContextPtr = std::unique_ptr<SSL_CTX, FreeContext>;

    TlsClient(ContextPtr context, std::string server_name);

    mutable std::mutex mutex_;  // of both
    ContextPtr context_;
    std::string server_name_;  // empty: that of the host
};

// What went wrong in a handshake or after it; a clause for an operator, about the server.
struct TlsFault {
    // One side does not accept the other: it will go on so until somebody changes something.
    bool refused = false;
    // The server asked for a client certificate and ended the connection, and none is configured.
    bool wants_certificate = false;
    std::string message;
};

// Of a connection that connection_to() made, and that ended with `ec`. `heard`: something of what
// is spoken over TLS has come from the server. Until then a server may still refuse the client's
// certificate: in TLS 1.3 the client's handshake is over before the server has looked at it, and
// what the server says to it may be lost with the connection.
TlsFault tls_fault(SSL* tls, const error_code& ec, bool heard);

}  // namespace tidegate
