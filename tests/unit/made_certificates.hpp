// Certificates of every kind, good and bad, with their keys: what test::Authority does not make.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include "certificates.hpp"

namespace tidegate::test {

inline constexpr long kDay = 86'400;

struct Wanted {
    std::string subject = "site";
    std::string names = "DNS:site.example";  // empty: none
    std::string key = "P-256";               // or `RSA-2048`, another curve, `ED25519`, `ED448`
    Validity validity{-kDay, 90 * kDay};
    const Certificate* issuer = nullptr;  // null: signs itself
    bool is_authority = false;
    std::string issuer_location{};  // for the extension that says where it is
};

inline EVP_PKEY* make_site_key(const std::string& kind) {
    if (kind.starts_with("RSA-"))
        return EVP_RSA_gen(static_cast<unsigned>(std::stoi(kind.substr(4))));
    if (kind.starts_with("ED")) return EVP_PKEY_Q_keygen(nullptr, nullptr, kind.c_str());
    return EVP_EC_gen(kind.c_str());
}

inline void add_site_extension(X509* certificate, X509* issuer, int nid, const std::string& text) {
    X509V3_CTX context{};
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* const made = X509V3_EXT_conf_nid(nullptr, &context, nid, text.c_str());
    if (made == nullptr) throw std::runtime_error("made_certificates: an extension is wrong");
    X509_add_ext(certificate, made, -1);
    X509_EXTENSION_free(made);
}

inline Certificate make_site_certificate(const Wanted& wanted) {
    Certificate made;
    made.key.reset(make_site_key(wanted.key));
    made.certificate.reset(X509_new());
    if (!made.key) throw std::runtime_error("made_certificates: no key");
    X509* const x509 = made.certificate.get();
    static long serial = 1'000;
    X509_set_version(x509, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), serial++);
    X509_gmtime_adj(X509_getm_notBefore(x509), wanted.validity.from);
    X509_gmtime_adj(X509_getm_notAfter(x509), wanted.validity.to);
    X509_set_pubkey(x509, made.key.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(wanted.subject.c_str()), -1,
                               -1, 0);
    X509* const issuer = wanted.issuer != nullptr ? wanted.issuer->certificate.get() : x509;
    X509_set_issuer_name(x509, X509_get_subject_name(issuer));
    if (wanted.is_authority) {
        add_site_extension(x509, issuer, NID_basic_constraints, "critical,CA:TRUE");
    } else if (!wanted.names.empty()) {
        add_site_extension(x509, issuer, NID_subject_alt_name, wanted.names);
    }
    if (!wanted.issuer_location.empty()) {
        add_site_extension(x509, issuer, NID_info_access,
                           "caIssuers;URI:" + wanted.issuer_location);
    }
    EVP_PKEY* const signer = wanted.issuer != nullptr ? wanted.issuer->key.get() : made.key.get();
    const int type = EVP_PKEY_get_base_id(signer);
    const bool has_own_hash = type == EVP_PKEY_ED25519 || type == EVP_PKEY_ED448;
    const EVP_MD* const hash = has_own_hash ? nullptr : EVP_sha256();
    if (X509_sign(x509, signer, hash) <= 0) throw std::runtime_error("made_certificates: unsigned");
    return made;
}

// A list of revoked certificates that names none: what matters are its times and its signer.
inline std::string make_empty_revocation_list(const Certificate& issuer, Validity validity,
                                              const Certificate* signer = nullptr) {
    X509_CRL* const list = X509_CRL_new();
    X509_CRL_set_version(list, X509_CRL_VERSION_2);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer.certificate.get()));
    ASN1_TIME* const time = ASN1_TIME_new();
    X509_gmtime_adj(time, validity.from);
    X509_CRL_set1_lastUpdate(list, time);
    X509_gmtime_adj(time, validity.to);
    X509_CRL_set1_nextUpdate(list, time);
    ASN1_TIME_free(time);
    X509_CRL_sign(list, (signer != nullptr ? *signer : issuer).key.get(), EVP_sha256());
    BIO* const memory = BIO_new(BIO_s_mem());
    PEM_write_bio_X509_CRL(memory, list);
    char* text = nullptr;
    const long size = BIO_get_mem_data(memory, &text);
    std::string pem(text, static_cast<std::size_t>(size));
    BIO_free(memory);
    X509_CRL_free(list);
    return pem;
}

}  // namespace tidegate::test
