#include "tls/revocation_list.hpp"

#include <algorithm>
#include <utility>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "tls/asn1.hpp"
#include "tls/openssl_text.hpp"

namespace tidegate {

namespace {

using std::chrono::system_clock;
using Signature = RevocationListFacts::Signature;

std::optional<system_clock::time_point> due_time(const X509_CRL& list) {
    const ASN1_TIME* const next = X509_CRL_get0_nextUpdate(&list);
    return next == nullptr ? std::nullopt : std::optional(time_of(next));
}

Signature judge_signature(X509_CRL& list, std::span<const CertificatePtr> authorities) {
    auto signature = Signature::of_stranger;
    for (const CertificatePtr& authority : authorities) {
        const X509_NAME* const name = X509_get_subject_name(authority.get());
        if (X509_NAME_cmp(name, X509_CRL_get_issuer(&list)) != 0) continue;
        const bool good = X509_CRL_verify(&list, X509_get0_pubkey(authority.get())) == 1;
        ERR_clear_error();
        // Two authorities may have one name: an old key and a new one.
        if (good) return Signature::good;
        signature = Signature::bad;
    }
    return signature;
}

// The key of the issuer that has signed it; null: it does not say.
const ASN1_OCTET_STRING* key_id_of(X509_CRL& list) {
    const int at = X509_CRL_get_ext_by_NID(&list, NID_authority_key_identifier, -1);
    return at < 0 ? nullptr : X509_EXTENSION_get_data(X509_CRL_get_ext(&list, at));
}

bool are_of_one_issuer(X509_CRL& a, X509_CRL& b) {
    if (X509_NAME_cmp(X509_CRL_get_issuer(&a), X509_CRL_get_issuer(&b)) != 0) return false;
    const ASN1_OCTET_STRING* const key_of_a = key_id_of(a);
    const ASN1_OCTET_STRING* const key_of_b = key_id_of(b);
    if (key_of_a == nullptr || key_of_b == nullptr) return key_of_a == key_of_b;
    return ASN1_OCTET_STRING_cmp(key_of_a, key_of_b) == 0;
}

}  // namespace

void FreeRevocationList::operator()(X509_CRL* list) const {
    X509_CRL_free(list);
}

Result<std::vector<RevocationListPtr>, std::string> parse_revocation_lists(std::string_view pem) {
    using boost::system::in_place_error;
    auto found = read_all<RevocationListPtr>(pem, PEM_read_bio_X509_CRL);
    if (!found) return {in_place_error, "holds a revocation list that cannot be read"};
    if (!found->empty()) return std::move(*found);
    return {in_place_error, "holds no revocation list (PEM: `-----BEGIN X509 CRL-----`)"};
}

RevocationListFacts facts_of(X509_CRL& list, std::span<const CertificatePtr> authorities) {
    return {.issuer = shown_name(*X509_CRL_get_issuer(&list)),
            .from = time_of(X509_CRL_get0_lastUpdate(&list)),
            .until = due_time(list),
            .signature = judge_signature(list, authorities)};
}

std::optional<system_clock::time_point> next_update(const std::vector<RevocationListPtr>& lists) {
    constexpr auto kNever = system_clock::time_point::max();
    auto first = kNever;
    for (const RevocationListPtr& list : lists) {
        auto latest = system_clock::time_point::min();
        for (const RevocationListPtr& other : lists) {
            if (!are_of_one_issuer(*list, *other)) continue;
            latest = std::max(latest, due_time(*other).value_or(kNever));
        }
        first = std::min(first, latest);
    }
    return first == kNever ? std::nullopt : std::optional(first);
}

}  // namespace tidegate
