#include "integration/issued.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace tidegate::test {
namespace {

struct ReleaseList {
    void operator()(X509_CRL* list) const { X509_CRL_free(list); }
    void operator()(BIO* bio) const { BIO_free(bio); }
    void operator()(ASN1_TIME* time) const { ASN1_TIME_free(time); }
};

// OpenSSL fails at none of these calls, unless memory is out.
void throw_unless(bool good, const char* what) {
    if (!good) throw std::runtime_error(std::string("issued: ") + what);
}

void add_names(X509* certificate, X509* issuer, const std::string& names) {
    X509V3_CTX context{};
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* const extension =
        X509V3_EXT_conf_nid(nullptr, &context, NID_subject_alt_name, names.c_str());
    throw_unless(extension != nullptr, "the names are wrong");
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

using TimePtr = std::unique_ptr<ASN1_TIME, ReleaseList>;

TimePtr from_now(long seconds) {
    return TimePtr(X509_gmtime_adj(nullptr, seconds));
}

}  // namespace

Certificate issued_by(const Authority& authority, const Wanted& wanted) {
    // Far from those that Authority gives.
    static std::atomic<long> serial{1'000'000};
    constexpr unsigned kRsaBits = 2'048;
    Certificate made;
    made.key.reset(wanted.is_rsa ? EVP_RSA_gen(kRsaBits) : EVP_EC_gen("P-256"));
    made.certificate.reset(X509_new());
    throw_unless(made.key && made.certificate, "no key");
    X509* const x509 = made.certificate.get();
    X509_set_version(x509, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), serial++);
    X509_gmtime_adj(X509_getm_notBefore(x509), wanted.validity.from);
    X509_gmtime_adj(X509_getm_notAfter(x509), wanted.validity.to);
    X509_set_pubkey(x509, made.key.get());
    X509_NAME_add_entry_by_NID(X509_get_subject_name(x509), NID_commonName, MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(wanted.common_name.data()),
                               static_cast<int>(wanted.common_name.size()), -1, 0);
    if (!wanted.names.empty()) add_names(x509, authority.certificate(), wanted.names);
    X509_set_issuer_name(x509, X509_get_subject_name(authority.certificate()));
    throw_unless(X509_sign(x509, authority.own().key.get(), EVP_sha256()) > 0, "cannot sign");
    return made;
}

std::string revocation_list(const Authority& authority,
                            const std::vector<const Certificate*>& revoked, Validity validity) {
    const std::unique_ptr<X509_CRL, ReleaseList> list(X509_CRL_new());
    X509_CRL_set_version(list.get(), X509_CRL_VERSION_2);
    X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(authority.certificate()));
    X509_CRL_set1_lastUpdate(list.get(), from_now(validity.from).get());
    X509_CRL_set1_nextUpdate(list.get(), from_now(validity.to).get());
    for (const Certificate* one : revoked) {
        X509_REVOKED* const entry = X509_REVOKED_new();
        X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(one->certificate.get()));
        X509_REVOKED_set_revocationDate(entry, from_now(validity.from).get());
        throw_unless(X509_CRL_add0_revoked(list.get(), entry) == 1, "cannot revoke");
    }
    X509_CRL_sort(list.get());
    throw_unless(X509_CRL_sign(list.get(), authority.own().key.get(), EVP_sha256()) > 0,
                 "cannot sign the list");
    const std::unique_ptr<BIO, ReleaseList> memory(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509_CRL(memory.get(), list.get());
    std::string pem(BIO_ctrl_pending(memory.get()), '\0');
    BIO_read(memory.get(), pem.data(), static_cast<int>(pem.size()));
    return pem;
}

std::string fingerprint(const Certificate& certificate) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    throw_unless(X509_digest(certificate.certificate.get(), EVP_sha256(), digest, &size) == 1,
                 "no digest");
    constexpr char kDigits[] = "0123456789abcdef";
    std::string hex;
    for (unsigned i = 0; i < size; ++i) {
        hex += kDigits[digest[i] >> 4];
        hex += kDigits[digest[i] & 15];
    }
    return hex;
}

std::string common_name_of(const X509* certificate) {
    if (certificate == nullptr) return "";
    std::string name(256, '\0');
    const int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                               name.data(), static_cast<int>(name.size()));
    name.resize(static_cast<std::size_t>(std::max(size, 0)));
    return name;
}

}  // namespace tidegate::test
