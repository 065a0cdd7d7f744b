// Certificates made by a test, and the authority that issues them.
#pragma once

#include <memory>
#include <string>

#include <openssl/ssl.h>

namespace tidegate::test {

struct ReleaseOpenSsl {
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* tls) const { SSL_free(tls); }
};

// A certificate and its key.
struct Certificate {
    std::string pem() const;
    // Locked by `password` unless that is empty.
    std::string key_pem(const std::string& password = "") const;

    std::unique_ptr<X509, ReleaseOpenSsl> certificate;
    std::unique_ptr<EVP_PKEY, ReleaseOpenSsl> key;
};

// Seconds from now.
struct Validity {
    long from = -3600;
    long to = 3600;
};

// RSA keys have 2048 bits, and all are one key: making one takes long.
enum class KeyKind { p256, p384, rsa, short_rsa, ed25519, secp256k1 };

class Authority {
  public:
    explicit Authority(Validity validity = {-7200, 7200});

    // For programs that read SSL_CERT_FILE.
    std::string pem() const { return self_.pem(); }
    X509* certificate() const { return self_.certificate.get(); }
    const Certificate& own() const { return self_; }
    // `names` as OpenSSL writes them: `DNS:localhost,IP:127.0.0.1`. Empty: `localhost` stands in
    // the subject alone.
    Certificate issue(const std::string& names = "DNS:localhost,IP:127.0.0.1",
                      Validity validity = {}) const;
    // The same, with a key of another kind than P-256.
    Certificate issue(KeyKind kind, const std::string& names) const;

  private:
    void complete(Certificate& made, const std::string& names) const;

    Certificate self_;
};

}  // namespace tidegate::test
