// The certificates and authorities of a listener, parsed once from its settings.
//
// Immutable, any thread. The workers' TlsServers share it.
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
#include "tls/certificate_key.hpp"
#include "tls/certificate_names.hpp"
#include "tls/client_auth.hpp"
#include "tls/server_settings.hpp"

// <openssl/types.h> leaves this one to the large <openssl/x509.h>.
struct stack_st_X509;

namespace tidegate {

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
    using Choice = std::array<std::optional<std::uint16_t>, kKeyTypes>;

    const std::vector<Pair>& pairs() const { return pairs_; }
    // For a client that asks for `name`, as it is written in the handshake, or for no name: that
    // client knows an address only. Null: no certificate has the name.
    const Choice* choice_for(std::optional<std::string_view> name) const;
    // Of the first certificate.
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

}  // namespace tidegate
