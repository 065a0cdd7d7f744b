#include "certificates.hpp"

#include <atomic>
#include <stdexcept>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

namespace tidegate::test {

namespace {

// Impossible here.
void require(bool good, const char* what) {
    if (!good) throw std::runtime_error(std::string("certificates: ") + what);
}

EVP_PKEY* new_key(KeyKind kind) {
    switch (kind) {
        case KeyKind::p256:
            return EVP_EC_gen("P-256");
        case KeyKind::p384:
            return EVP_EC_gen("P-384");
        case KeyKind::rsa: {
            static EVP_PKEY* const rsa = EVP_RSA_gen(2'048);
            require(rsa != nullptr && EVP_PKEY_up_ref(rsa) == 1, "no RSA key");
            return rsa;
        }
        case KeyKind::short_rsa:
            return EVP_RSA_gen(1'024);
        case KeyKind::ed25519:
            return EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
        case KeyKind::secp256k1:
            return EVP_EC_gen("secp256k1");
    }
    return nullptr;
}

Certificate new_certificate(const std::string& common_name, Validity validity,
                            KeyKind kind = KeyKind::p256) {
    Certificate made;
    made.key.reset(new_key(kind));
    made.certificate.reset(X509_new());
    require(made.key && made.certificate, "no key");
    X509* const x509 = made.certificate.get();
    static std::atomic<long> serial{1};
    X509_set_version(x509, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), serial++);
    X509_gmtime_adj(X509_getm_notBefore(x509), validity.from);
    X509_gmtime_adj(X509_getm_notAfter(x509), validity.to);
    X509_set_pubkey(x509, made.key.get());
    X509_NAME_add_entry_by_NID(X509_get_subject_name(x509), NID_commonName, MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(common_name.data()),
                               static_cast<int>(common_name.size()), -1, 0);
    return made;
}

void extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
    X509V3_CTX context{};
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
    require(extension != nullptr, "an extension is wrong");
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

void sign(const Certificate& certificate, const Certificate& issuer) {
    X509* const x509 = certificate.certificate.get();
    X509_set_issuer_name(x509, X509_get_subject_name(issuer.certificate.get()));
    require(X509_sign(x509, issuer.key.get(), EVP_sha256()) > 0, "cannot sign");
}

// No two authorities are called the same, or one would be blamed for the other's signatures.
std::string new_name() {
    static std::atomic<int> number{1};
    return "Tidegate test authority " + std::to_string(number++);
}

// What `write` puts into a BIO.
template <class Write>
std::string written(Write write) {
    BIO* const memory = BIO_new(BIO_s_mem());
    write(memory);
    char* text = nullptr;
    const long size = BIO_get_mem_data(memory, &text);
    std::string pem(text, static_cast<std::size_t>(size));
    BIO_free(memory);
    return pem;
}

}  // namespace

std::string Certificate::pem() const {
    return written([this](BIO* out) { PEM_write_bio_X509(out, certificate.get()); });
}

std::string Certificate::key_pem(const std::string& password) const {
    return written([&](BIO* out) {
        PEM_write_bio_PKCS8PrivateKey(
            out, key.get(), password.empty() ? nullptr : EVP_aes_128_cbc(), password.data(),
            static_cast<int>(password.size()), nullptr, nullptr);
    });
}

Authority::Authority(Validity validity) : self_(new_certificate(new_name(), validity)) {
    extend(self_.certificate.get(), self_.certificate.get(), NID_basic_constraints,
           "critical,CA:TRUE");
    sign(self_, self_);
}

Certificate Authority::issue(const std::string& names, Validity validity) const {
    Certificate made = new_certificate(names.empty() ? "localhost" : "server", validity);
    complete(made, names);
    return made;
}

Certificate Authority::issue(KeyKind kind, const std::string& names) const {
    Certificate made = new_certificate(names.empty() ? "localhost" : "server", {}, kind);
    complete(made, names);
    return made;
}

void Authority::complete(Certificate& made, const std::string& names) const {
    if (!names.empty()) {
        extend(made.certificate.get(), self_.certificate.get(), NID_subject_alt_name, names);
    }
    sign(made, self_);
}

}  // namespace tidegate::test
