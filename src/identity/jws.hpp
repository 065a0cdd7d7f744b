// A signed token in its compact form (RFC 7515 section 7.1), before anything of it is believed.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "identity/credential_fault.hpp"
#include "identity/jwk.hpp"

namespace tidegate::identity {

inline constexpr std::size_t kTokenBytesMax = 8192;

struct Jws {
    std::string_view text;     // all of it
    JwsAlgorithm algorithm{};  // what it says; no reason to use it
    std::optional<std::string> kid;
    std::string payload;
    std::string signature;
};

// Reads the form and the head. On a fault `jws` is of no use.
//   malformed           more than kTokenBytesMax; not three parts that are not empty, each in
//                       strict base64url; a `typ` or `kid` that is no string, a long `kid`
//   not_json            the head is no strict JSON object
//   algorithm           `alg` is missing or none of JwsAlgorithm
//   critical_extension  `crit`, which RFC 7515 section 4.1.11 makes us refuse, as we understand no
//                       extension; `zip`, which only encrypted tokens may have
//   token_type          `typ` is neither JWT nor at+jwt: made for another purpose, such as a
//                       logout token or a proof of possession (RFC 8725 section 3.11)
// Everything else in the head is ignored; keys and where to fetch them (`jwk`, `jku`, `x5u`,
// `x5c`) in particular.
CredentialFault read_jws(std::string_view token, Jws& jws);

// Whether one of the keys signed it. Requires that each fits jws.algorithm.
bool is_signed_by(const Jws& jws, std::span<const Jwk* const> keys);

}  // namespace tidegate::identity
