#include "client_certificates.hpp"

#include <atomic>
#include <stdexcept>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace tidegate::test {

namespace {

// Impossible here.
void demand(bool good, const char* what) {
    if (!good) throw std::runtime_error(std::string("client certificates: ") + what);
}

void name_subject(const Wish& wish, X509* certificate) {
    for (const auto& [field, value] : wish.subject) {
        demand(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), field.c_str(),
                                          V_ASN1_UTF8STRING,
                                          reinterpret_cast<const unsigned char*>(value.data()),
                                          static_cast<int>(value.size()), -1, 0) == 1,
               "a subject is wrong");
    }
}

void add_names(const Wish& wish, X509* certificate) {
    if (wish.names.empty()) return;
    GENERAL_NAMES* const all = GENERAL_NAMES_new();
    for (const auto& [kind, value] : wish.names) {
        ASN1_IA5STRING* const text = ASN1_IA5STRING_new();
        ASN1_STRING_set(text, value.data(), static_cast<int>(value.size()));
        GENERAL_NAME* const name = GENERAL_NAME_new();
        GENERAL_NAME_set0_value(name, kind, text);
        sk_GENERAL_NAME_push(all, name);
    }
    demand(X509_add1_ext_i2d(certificate, NID_subject_alt_name, all, 0, X509V3_ADD_DEFAULT) == 1,
           "the names are wrong");
    GENERAL_NAMES_free(all);
}

void add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
    X509V3_CTX context{};
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
    demand(extension != nullptr, "an extension is wrong");
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

}  // namespace

Certificate make_certificate(const Wish& wish, const Certificate* issuer) {
    static std::atomic<long> serial{1'000};
    Certificate made;
    made.key.reset(EVP_EC_gen("P-256"));
    made.certificate.reset(X509_new());
    X509* const x509 = made.certificate.get();
    demand(made.key && x509 != nullptr, "no key");
    const Certificate& signer = issuer != nullptr ? *issuer : made;
    X509_set_version(x509, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), serial++);
    X509_gmtime_adj(X509_getm_notBefore(x509), wish.validity.from);
    X509_gmtime_adj(X509_getm_notAfter(x509), wish.validity.to);
    X509_set_pubkey(x509, made.key.get());
    name_subject(wish, x509);
    X509_set_issuer_name(x509, X509_get_subject_name(signer.certificate.get()));
    add_extension(x509, x509, NID_subject_key_identifier, "hash");
    if (issuer != nullptr) {
        add_extension(x509, issuer->certificate.get(), NID_authority_key_identifier, "keyid");
    }
    if (wish.is_authority) add_extension(x509, x509, NID_basic_constraints, "critical,CA:TRUE");
    if (!wish.usage.empty()) add_extension(x509, x509, NID_ext_key_usage, wish.usage);
    add_names(wish, x509);
    demand(X509_sign(x509, signer.key.get(), EVP_sha256()) > 0, "cannot sign");
    return made;
}

Certificate make_authority(const std::string& name, const Certificate* issuer) {
    Wish wish{.subject = {{"CN", name}}};
    wish.validity = {-7'200, 7'200};
    wish.is_authority = true;
    return make_certificate(wish, issuer);
}

std::string make_revocation_list(const Certificate& issuer,
                                 const std::vector<const Certificate*>& revoked, Validity holds) {
    X509_CRL* const list = X509_CRL_new();
    ASN1_TIME* const when = ASN1_TIME_new();
    X509_CRL_set_version(list, X509_CRL_VERSION_2);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer.certificate.get()));
    X509_CRL_set1_lastUpdate(list, X509_gmtime_adj(when, holds.from));
    for (const Certificate* one : revoked) {
        X509_REVOKED* const entry = X509_REVOKED_new();
        X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(one->certificate.get()));
        X509_REVOKED_set_revocationDate(entry, when);
        X509_CRL_add0_revoked(list, entry);
    }
    X509_CRL_set1_nextUpdate(list, X509_gmtime_adj(when, holds.to));
    X509V3_CTX context{};
    X509V3_set_ctx(&context, issuer.certificate.get(), nullptr, nullptr, list, 0);
    X509_EXTENSION* const key = X509V3_EXT_conf_nid(nullptr, &context, NID_authority_key_identifier,
                                                    const_cast<char*>("keyid"));
    demand(key != nullptr, "a list's extension is wrong");
    X509_CRL_add_ext(list, key, -1);
    X509_EXTENSION_free(key);
    X509_CRL_sort(list);
    demand(X509_CRL_sign(list, issuer.key.get(), EVP_sha256()) > 0, "cannot sign a list");
    BIO* const memory = BIO_new(BIO_s_mem());
    PEM_write_bio_X509_CRL(memory, list);
    char* text = nullptr;
    const long size = BIO_get_mem_data(memory, &text);
    std::string pem(text, static_cast<std::size_t>(size));
    BIO_free(memory);
    ASN1_TIME_free(when);
    X509_CRL_free(list);
    return pem;
}

}  // namespace tidegate::test
