// A TlsServer makes the TLS connections of a listener: it has its certificates by name, its
// versions, its tickets, and the authorities of clients.
//
// OpenSSL locks what threads share, so each worker makes a TlsServer of its own for each listener
// that speaks TLS, from certificates that are parsed once. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/types.h>

#include "base/result.hpp"
#include "tls/certificate.hpp"
#include "tls/client_auth.hpp"
#include "tls/openssl.hpp"
#include "tls/tls_settings.hpp"

// <openssl/types.h> leaves this one to the large <openssl/x509.h>.
struct stack_st_X509;

namespace tidegate {

// Which versions, ciphers, groups and habits a listener has in TLS. There is no setting for them
// but the oldest version, and which versions of HTTP are spoken over it.
struct FreeTlsContext {
    void operator()(SSL_CTX* context) const;
};
using TlsContextPtr = std::unique_ptr<SSL_CTX, FreeTlsContext>;

// Makes a context without a certificate, tickets or client authentication. Throws std::bad_alloc
// when OpenSSL has no memory.
TlsContextPtr make_server_context(TlsVersion min_version, HttpVersions http);

// The certificates and authorities of a listener, parsed once from its settings.
//
// Immutable, any thread. The workers' TlsServers share it.
struct FreeCertificateChain {
    void operator()(stack_st_X509* chain) const;
};
using CertificateChainPtr = std::unique_ptr<stack_st_X509, FreeCertificateChain>;

class ServerCredentials {
  public:
    struct Pair {
        CertificatePtr certificate;
        CertificateChainPtr chain;  // of the certificate, without it
        PrivateKeyPtr key;
        KeyType type;
        std::string file;                // of the certificate
        std::vector<std::string> names;  // all that the pair is shown for, normal
    };
    // The pairs of one name by type of their keys, as indices of pairs(): the client's abilities
    // decide between them. At least one.
    using Choice = std::array<std::optional<std::uint16_t>, kEnumerators<KeyType>.size()>;

    const std::vector<Pair>& pairs() const { return pairs_; }
    // For a client that asks for `name`, as it is written in the handshake, or for no name: that
    // client knows an address only. Null: no certificate has the name.
    const Choice* choice_for(std::optional<std::string_view> name) const;
    // The choice of the first certificate.
    const Choice& first() const { return first_; }
    UnknownNames unknown_names() const { return unknown_names_; }
    TlsVersion min_version() const { return min_version_; }
    HttpVersions http() const { return http_; }
    const std::shared_ptr<const ParsedClientAuth>& client_auth() const { return client_auth_; }

  private:
    friend Result<std::shared_ptr<const ServerCredentials>, std::string> parse_credentials(
        const TlsServerSettings& settings);

    // Empty, or a fault. `context` tries the pair out.
    std::string add(const ServerCertificate& settings, SSL_CTX* context);
    std::string add_name(const std::string& name, std::uint16_t pair);
    void choose_first();

    std::vector<Pair> pairs_;
    CertificateNames names_;
    std::vector<Choice> choices_;  // by the number of their name
    Choice first_;
    std::optional<std::size_t> first_address_;  // the number of a name
    UnknownNames unknown_names_ = UnknownNames::first;
    TlsVersion min_version_ = TlsVersion::tls_1_2;
    HttpVersions http_ = HttpVersions::both;
    std::shared_ptr<const ParsedClientAuth> client_auth_;
};

class TicketKeys;         // shared by all threads and kept over a reload (tls/ticket_keys.hpp)
class ServerCredentials;  // certificates, keys and authorities, parsed; immutable, any thread

// Or what is wrong with `settings`, as a sentence that names the file.
Result<std::shared_ptr<const ServerCredentials>, std::string> parse_credentials(
    const TlsServerSettings& settings);

class TlsServer {
  public:
    // Throws std::bad_alloc when OpenSSL has no memory.
    TlsServer(std::shared_ptr<const ServerCredentials> credentials,
              std::shared_ptr<TicketKeys> tickets);
    ~TlsServer();
    TlsServer(const TlsServer&) = delete;
    TlsServer& operator=(const TlsServer&) = delete;

    // The server's side of a connection, for Connection::begin_tls(). It keeps what it needs of
    // this server, which may go before it. Null when OpenSSL has no memory.
    TlsPtr connection() const;

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

}  // namespace tidegate
