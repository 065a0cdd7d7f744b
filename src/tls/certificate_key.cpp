#include "tls/certificate_key.hpp"

#include <algorithm>
#include <array>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/x509.h>

namespace tidegate {

namespace {

using Fault = CertificateKey::Fault;

// In TLS 1.3, a signature names the curve of its key, and there are three.
constexpr std::array<std::string_view, 3> kCurvesOfTls{"prime256v1", "secp384r1", "secp521r1"};

std::string curve_of(const EVP_PKEY* key) {
    std::array<char, 64> name{};
    std::size_t size = 0;
    if (EVP_PKEY_get_group_name(key, name.data(), name.size(), &size) != 1) return {};
    return {name.data(), size};
}

// `P-256`; the name itself where there is no such one.
std::string usual_curve_name(const std::string& curve) {
    const char* const name = EC_curve_nid2nist(OBJ_txt2nid(curve.c_str()));
    return name != nullptr ? name : curve;
}

void read_key(const EVP_PKEY* key, CertificateKey& into) {
    into.bits = EVP_PKEY_get_bits(key);
    const std::string bits = std::to_string(into.bits);
    switch (EVP_PKEY_get_base_id(key)) {
        case EVP_PKEY_EC: {
            into.type = KeyType::ecdsa;
            into.curve = curve_of(key);
            into.text = "ECDSA " + usual_curve_name(into.curve);
            const bool is_of_tls = std::find(kCurvesOfTls.begin(), kCurvesOfTls.end(),
                                             into.curve) != kCurvesOfTls.end();
            into.fault = is_of_tls ? Fault::none : Fault::curve;
            return;
        }
        case EVP_PKEY_ED25519:
            into.type = KeyType::ed25519;
            into.text = "Ed25519";
            into.fault = Fault::none;
            return;
        case EVP_PKEY_RSA:
            into.type = KeyType::rsa;
            into.text = "RSA " + bits;
            into.fault = into.bits < kRsaBitsMin ? Fault::bits : Fault::none;
            return;
        case EVP_PKEY_RSA_PSS:
            into.text = "RSA-PSS " + bits;
            return;
        case EVP_PKEY_ED448:
            into.text = "Ed448";
            return;
        default:
            if (const char* const name = EVP_PKEY_get0_type_name(key)) into.text = name;
    }
}

}  // namespace

std::string_view name_of(KeyType type) {
    switch (type) {
        case KeyType::ecdsa:
            return "ECDSA";
        case KeyType::ed25519:
            return "Ed25519";
        case KeyType::rsa:
            return "RSA";
    }
    return {};
}

CertificateKey key_of(const X509& certificate) {
    CertificateKey read;
    if (const EVP_PKEY* const key = X509_get0_pubkey(&certificate)) read_key(key, read);
    ERR_clear_error();
    return read;
}

}  // namespace tidegate
