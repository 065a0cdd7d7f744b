#include "tls/throwaway_certificate.hpp"

#include <ctime>
#include <memory>
#include <utility>

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "tls/certificate.hpp"
#include "tls/openssl.hpp"

namespace tidegate {

namespace {

using boost::system::in_place_error;
using std::chrono::system_clock;

// Clocks of one machine and its containers may differ a little.
constexpr std::chrono::minutes kClockSlack{5};
constexpr int kSerialBits = 127;

struct FreeThrowawayPart {
    void operator()(BIGNUM* number) const { BN_free(number); }
    void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
};
template <class Part>
using PartPtr = std::unique_ptr<Part, FreeThrowawayPart>;

bool set_random_serial(X509* certificate) {
    const PartPtr<BIGNUM> serial(BN_new());
    return serial != nullptr &&
           BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
           BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_validity(X509* certificate, system_clock::time_point now) {
    const std::time_t from = system_clock::to_time_t(now - kClockSlack);
    const std::time_t until = system_clock::to_time_t(now + kThrowawayValidity);
    return ASN1_TIME_set(X509_getm_notBefore(certificate), from) != nullptr &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), until) != nullptr;
}

// Its own issuer.
bool set_names(X509* certificate) {
    static constexpr unsigned char kName[] = "Tidegate quickstart";
    X509_NAME* const name = X509_get_subject_name(certificate);
    return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_ASC, kName, sizeof kName - 1,
                                      -1, 0) == 1 &&
           X509_set_issuer_name(certificate, name) == 1;
}

bool add_extension(X509* certificate, int id, const char* value) {
    X509V3_CTX context{};
    X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
    const PartPtr<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, &context, id, value));
    return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool add_extensions(X509* certificate) {
    return add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, NID_ext_key_usage, "serverAuth") &&
           add_extension(certificate, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1");
}

CertificatePtr make_certificate(EVP_PKEY* key, system_clock::time_point now) {
    CertificatePtr made(X509_new());
    X509* const certificate = made.get();
    const bool good = certificate != nullptr &&
                      X509_set_version(certificate, X509_VERSION_3) == 1 &&
                      set_random_serial(certificate) && set_validity(certificate, now) &&
                      set_names(certificate) && X509_set_pubkey(certificate, key) == 1 &&
                      add_extensions(certificate) && X509_sign(certificate, key, EVP_sha256()) > 0;
    return good ? std::move(made) : nullptr;
}

// What `write` puts into a BIO; empty when it cannot.
template <class Write>
std::string pem_of(Write write) {
    const BioPtr memory = open_memory();
    return memory != nullptr && write(memory.get()) == 1 ? written(*memory) : std::string();
}

}  // namespace

Result<ThrowawayCertificate, std::string> make_throwaway_certificate(system_clock::time_point now) {
    ThrowawayCertificate made;
    const PrivateKeyPtr key(EVP_EC_gen("P-256"));
    if (key != nullptr) {
        const CertificatePtr certificate = make_certificate(key.get(), now);
        if (certificate != nullptr) {
            made.certificate =
                pem_of([&](BIO* out) { return PEM_write_bio_X509(out, certificate.get()); });
            made.key = pem_of([&](BIO* out) {
                return PEM_write_bio_PKCS8PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr,
                                                     nullptr);
            });
        }
    }
    if (!made.certificate.empty() && !made.key.empty()) return made;
    return {in_place_error, "OpenSSL cannot make a certificate: " + openssl_reason()};
}

}  // namespace tidegate
