#include <memory>
#include <string>
#include <tuple>

#include <doctest/doctest.h>

#include "tls/certificate.hpp"
#include "unit/made_certificates.hpp"

namespace tidegate::tls_certificate_key_test {

namespace {

using Fault = CertificateKey::Fault;

CertificateKey key_of_kind(const std::string& kind) {
    return key_of(*test::make_site_certificate({.key = kind}).certificate);
}

}  // namespace

TEST_CASE("certificate_key: keys that a listener may have are described by type and size") {
    for (const auto& [kind, type, text] : {std::tuple{"P-256", KeyType::ecdsa, "ECDSA P-256"},
                                           {"P-384", KeyType::ecdsa, "ECDSA P-384"},
                                           {"P-521", KeyType::ecdsa, "ECDSA P-521"},
                                           {"ED25519", KeyType::ed25519, "Ed25519"},
                                           {"RSA-2048", KeyType::rsa, "RSA 2048"}}) {
        CAPTURE(kind);
        const CertificateKey key = key_of_kind(kind);
        CHECK(key.fault == Fault::none);
        CHECK(key.type == type);
        CHECK(key.text == text);
        CHECK(key.text.starts_with(name_of(type)));
    }
    CHECK(key_of_kind("P-256").curve == "prime256v1");
}

TEST_CASE("certificate_key: keys that a listener may not have are described by their fault") {
    const CertificateKey weak = key_of_kind("RSA-1024");
    CHECK(weak.fault == Fault::bits);
    CHECK(weak.bits == 1'024);
    const CertificateKey odd = key_of_kind("secp256k1");
    CHECK(odd.fault == Fault::curve);
    CHECK(odd.curve == "secp256k1");
    CHECK(odd.text == "ECDSA secp256k1");
    CHECK(key_of_kind("P-224").fault == Fault::curve);
    const CertificateKey other = key_of_kind("ED448");
    CHECK(other.fault == Fault::type);
    CHECK_FALSE(other.type.has_value());
    CHECK(other.text == "Ed448");
}

TEST_CASE("certificate_key: a certificate without a key that can be read has none") {
    const std::unique_ptr<X509, test::ReleaseOpenSsl> empty(X509_new());
    CHECK(key_of(*empty).fault == Fault::type);
    CHECK(key_of(*empty).text == "of an unknown kind");
}

}  // namespace tidegate::tls_certificate_key_test
