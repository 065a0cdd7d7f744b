// Keys and signed tokens for tests, made with OpenSSL itself: the program under test checks tokens
// through another library. Throws when OpenSSL refuses.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <openssl/evp.h>

namespace tidegate::test {

std::string base64url(std::string_view bytes);

class SigningKey {
  public:
    static SigningKey secret(std::string bytes);
    static SigningKey rsa(unsigned bits);
    static SigningKey curve(const std::string& name);  // `P-256`
    static SigningKey ed25519();

    // The public part, or the secret, as a JWK. `more` goes before the rest: `"kid":"a",`.
    std::string jwk(std::string_view more = {}) const;
    // Each public parameter alone: of RSA `n`, `e`; of a curve `x`, `y`; big-endian. Of Ed25519
    // `x`.
    std::string number(std::string_view name) const;
    std::string public_pem() const;
    std::string public_der() const;
    std::string private_pem() const;

    // The signature of JWS (RFC 7518 section 3) by an algorithm named as there. For `RS256` and
    // the like with a key of another kind: what OpenSSL makes of it, or an exception.
    std::string sign(std::string_view algorithm, std::string_view input) const;
    // The same of a curve as DER, the form that other protocols use.
    std::string sign_as_der(std::string_view algorithm, std::string_view input) const;

  private:
    struct Release {
        void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    };

    std::unique_ptr<EVP_PKEY, Release> key_;  // null: a secret
    std::string secret_;
    std::string curve_;  // its name; empty: none
    bool is_ed25519_ = false;
};

// `header.payload.signature` of these texts, whatever they say.
std::string token_of(const SigningKey& key, std::string_view algorithm, std::string_view header,
                     std::string_view payload);

}  // namespace tidegate::test
