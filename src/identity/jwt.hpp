// Checks a JSON Web Token (RFC 7519) and reads which user it names. Pure: the caller supplies keys
// and time. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "identity/credentials.hpp"
#include "identity/jwk.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::identity {

// A signed token in its compact form (RFC 7515 section 7.1), before anything of it is believed.
// Pure.
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

// Names of claims: a JSON Pointer (RFC 6901) into nested claims if it begins with a slash,
// `/app_metadata/plan`; else the whole name of one claim, dots and slashes included.

inline constexpr std::size_t kClaimDepthMax = 8;  // names in a pointer

// Says what is wrong with `name`, as a clause; empty: nothing. Of a pointer: a `~` that is no `~0`
// or `~1`, an empty name, too many names.
std::string fault_of_claim_name(std::string_view name);

// The pointer that a name with dots probably means: `/app_metadata/plan` for `app_metadata.plan`.
// Empty: it is likely the name of one claim, as a URL or a domain is (RFC 7519 section 4.2).
std::string likely_pointer(std::string_view name);

// The claim of that name; null: the token has none. Requires a name without fault.
const JsonValue* find_claim(const JsonValue& claims, std::string_view name);

struct TokenClaims {
    std::string user;  // is_safe_user()
    std::string tier;  // is_tier_name(), or empty: none
    // The values of JwtMethod::claims in their order; empty: the token has none that counts.
    std::vector<std::string> counted;
    // `exp` itself, or the year 2200: it is believed until then, and for the leeway beyond.
    std::chrono::system_clock::time_point expires{};
};

struct TokenVerdict {
    CredentialFault fault = CredentialFault::none;
    // There is nothing to check it with: no keys at all, none of its `kid`, or, where it has none,
    // none that fits. Other keys might tell; with these it is unknown_key.
    bool keys_missing = false;
    TokenClaims claims;  // meant only without a fault
};

// Checks, in this order: form and head (read_jws()); that `alg` is one the method allows and fits
// our key; the signature; that the claims are a strict JSON object; `exp` (needed), `nbf`, `iat`;
// `iss`, `aud`; the claims that hold user and tier.
//
// Times are numbers of seconds from 1970 to the end of 9999, fractions allowed; a token is good
// while nbf - leeway <= now, iat - leeway <= now and now < exp + leeway. Without a configured
// issuer or audience the claim is not looked at. Claims are found by find_claim().
//
// The user is text or a number, which has one text however the token writes it: `42`, `42.0`. A
// number that a double does not hold exactly names no user. A tier is text, or a list: then its
// first text that a policy knows. A claim that holds anything else names no tier. A claim that
// policies count by is text, a number, or a list, whose first item counts; anything else is as if
// the claim were absent. `keys` null: there are none yet. Allocates; takes what its signature
// takes, at most four times.
TokenVerdict verify_token(std::string_view token, const JwtMethod& method, const JwkSet* keys,
                          std::chrono::system_clock::time_point now);

// Whether verify_token() would say keys_missing. Computes no signature.
bool is_key_missing(std::string_view token, const JwtMethod& method, const JwkSet* keys);

}  // namespace tidegate::identity
