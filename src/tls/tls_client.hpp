// Makes TLS connections to a server: the authorities to trust, the own certificate, the versions.
//
// A client is made once from a configuration, as reading authorities and keys costs much;
// connections are then cheap. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <openssl/types.h>

#include "base/result.hpp"
#include "tls/openssl.hpp"
#include "tls/tls_settings.hpp"

namespace tidegate {

class TlsClient {
  public:
    // Or what is wrong with the settings, as a sentence. Reads the system's authorities if those
    // are meant (SSL_CERT_FILE and SSL_CERT_DIR replace them).
    static Result<std::shared_ptr<TlsClient>, std::string> make(const TlsSettings& settings);

    // The same, for another thread: OpenSSL locks what connections of one client share, and makes
    // them wait for each other. The authorities are read once and shared. Null when OpenSSL has no
    // memory.
    std::shared_ptr<TlsClient> copy() const;

    // The client's side of a connection to `host`, a name or an IP address, for asio::ssl::stream
    // or TlsChannel. The certificate is verified, unless the settings say otherwise, and held to
    // the name (RFC 9525): a subject that is no alternative name means nothing. Null when OpenSSL
    // has no memory or the name cannot be asked for in TLS.
    //
    // `session`, if it is not null, shortens the handshake. It must come from a connection to the
    // same host, and a client of the same settings.
    //
    // `offer` says what the client offers in ALPN (RFC 7301): no protocol, or HTTP/2 alone.
    enum class Offer : unsigned char { nothing, http2 };
    TlsPtr connection_to(const std::string& host, const TlsSessionPtr& session = nullptr,
                         Offer offer = Offer::nothing) const;

    // Makes connections as `other` does from now on: certificates expire, and are replaced while
    // the program runs.
    void replace_with(const TlsClient& other);

  private:
    TlsClient(TlsContextPtr context, TlsSettings settings);

    mutable std::mutex mutex_;  // of both
    TlsContextPtr context_;
    TlsSettings settings_;
};

// Whether both sides of `tls` agreed on HTTP/2 (ALPN), once the handshake is over.
bool speaks_http2(const SSL* tls);

// Whether `error`, of OpenSSL, is the server's alert that it speaks nothing of what was offered.
bool refuses_protocol(unsigned long error);

// Whether the server asked for a client certificate on `tls`, which connection_to() made.
bool server_wants_certificate(const SSL* tls);

}  // namespace tidegate
