#include "tls/certificate_facts.hpp"

#include <algorithm>
#include <memory>

#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/ip.hpp"
#include "tls/asn1.hpp"
#include "tls/certificate.hpp"
#include "tls/certificate_names.hpp"

namespace tidegate {

namespace {

struct FreeAuthorityAccess {
    void operator()(AUTHORITY_INFO_ACCESS* access) const { AUTHORITY_INFO_ACCESS_free(access); }
};

std::vector<std::string> sorted_names_of(const X509& certificate) {
    std::vector<std::string> names = names_of(certificate);
    std::stable_partition(names.begin(), names.end(),
                          [](const std::string& name) { return !parse_ip(name); });
    return names;
}

std::string issuer_location_of(const X509& certificate) {
    const std::unique_ptr<AUTHORITY_INFO_ACCESS, FreeAuthorityAccess> access(
        static_cast<AUTHORITY_INFO_ACCESS*>(
            X509_get_ext_d2i(&certificate, NID_info_access, nullptr, nullptr)));
    for (int i = 0; i < sk_ACCESS_DESCRIPTION_num(access.get()); ++i) {
        const ACCESS_DESCRIPTION* const one = sk_ACCESS_DESCRIPTION_value(access.get(), i);
        if (OBJ_obj2nid(one->method) != NID_ad_ca_issuers || one->location->type != GEN_URI) {
            continue;
        }
        return std::string(bytes_of(one->location->d.uniformResourceIdentifier));
    }
    return {};
}

}  // namespace

CertificateFacts facts_of(const X509& certificate) {
    // OpenSSL caches in a certificate what it has read of its extensions.
    auto* const noted = const_cast<X509*>(&certificate);
    CertificateFacts facts{.subject = shown_name(*X509_get_subject_name(&certificate)),
                           .issuer = shown_name(*X509_get_issuer_name(&certificate)),
                           .names = sorted_names_of(certificate),
                           .key = key_of(certificate),
                           .sha256 = sha256_of(certificate),
                           .from = valid_from(certificate),
                           .until = valid_until(certificate),
                           .is_self_signed = X509_self_signed(noted, 0) == 1,
                           .is_authority = X509_check_ca(noted) != 0,
                           .issuer_location = issuer_location_of(certificate)};
    ERR_clear_error();
    return facts;
}

long days_left(std::chrono::system_clock::time_point until,
               std::chrono::system_clock::time_point now) {
    return std::chrono::floor<std::chrono::days>(until - now).count();
}

}  // namespace tidegate
