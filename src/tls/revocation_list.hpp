// Lists of revoked certificates (CRL, RFC 5280 section 5) as PEM. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/types.h>

#include "base/result.hpp"
#include "tls/certificate.hpp"

namespace tidegate {

struct FreeRevocationList {
    void operator()(X509_CRL* list) const;
};
using RevocationListPtr = std::unique_ptr<X509_CRL, FreeRevocationList>;

// All lists of `pem`, at least one, or why not: a clause that goes on from the name of a file.
Result<std::vector<RevocationListPtr>, std::string> parse_revocation_lists(std::string_view pem);

struct RevocationListFacts {
    enum class Signature : std::uint8_t { good, bad, of_stranger };

    std::string issuer;  // shown_name()
    std::chrono::system_clock::time_point from;
    std::optional<std::chrono::system_clock::time_point> until;  // when the next one is due
    Signature signature = Signature::of_stranger;  // as `authorities` tell: by one of its name
};
RevocationListFacts facts_of(X509_CRL& list, std::span<const CertificatePtr> authorities);

// When the first of the lists goes stale: nextUpdate, of several by one issuer with one key that of
// the latest. Nothing: never.
std::optional<std::chrono::system_clock::time_point> next_update(
    const std::vector<RevocationListPtr>& lists);

}  // namespace tidegate
