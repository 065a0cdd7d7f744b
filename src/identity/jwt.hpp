// Who a JSON Web Token (RFC 7519) says its bearer is, once it is proved that one of our keys said
// so. Pure: the caller supplies keys and time. Any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "identity/credential_fault.hpp"
#include "identity/jwk_set.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::identity {

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
// issuer or audience the claim is not looked at. The name of a claim is one name, dots and slashes
// included.
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
