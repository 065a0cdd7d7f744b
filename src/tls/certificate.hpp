// Certificates and private keys: read from PEM (RFC 7468), which is how files have them, or shown
// by a peer. Pure.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/types.h>

#include "base/result.hpp"

namespace tidegate {

struct FreeCertificate {
    void operator()(X509* certificate) const;
};
struct FreePrivateKey {
    void operator()(EVP_PKEY* key) const;
};
using CertificatePtr = std::unique_ptr<X509, FreeCertificate>;
using PrivateKeyPtr = std::unique_ptr<EVP_PKEY, FreePrivateKey>;

// All certificates of `pem`, at least one, in their order; what else stands there is passed over.
// Or why not: a clause that goes on from the name of a file.
Result<std::vector<CertificatePtr>, std::string> parse_certificates(std::string_view pem);

// The first private key of `pem`. One that is locked by a password is refused: Tidegate asks for
// none.
Result<PrivateKeyPtr, std::string> parse_private_key(std::string_view pem);

// Whether `key` is that of the public key in `certificate`.
bool belong_together(const X509& certificate, const EVP_PKEY& key);

// Whether the names and keys of both fit, and `issuer` may sign certificates.
bool has_issued(const X509& issuer, const X509& certificate);

// The hash of its DER form, in lower-case hex.
std::string sha256_of(const X509& certificate);

std::chrono::system_clock::time_point valid_from(const X509& certificate);
std::chrono::system_clock::time_point valid_until(const X509& certificate);

using SharedCertificate = std::shared_ptr<X509>;

// The certificates that the server at the other end of `tls` has shown, its own first; none when it
// has shown none, or `tls` is null.
std::vector<SharedCertificate> shown_chain(const SSL* tls);
// Of the peer's; nothing when it has shown none, or `tls` is null.
std::optional<std::chrono::system_clock::time_point> peer_valid_until(const SSL* tls);

}  // namespace tidegate
