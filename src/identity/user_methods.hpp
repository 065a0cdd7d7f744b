// The ways in which a request may say who its user is, as configured (`identity.user`). Values;
// immutable once read.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/described_enum.hpp"

namespace tidegate::identity {

class ApiKeys;
class Htpasswd;
class KeySource;

// JWS algorithms (RFC 7518 section 3.1, RFC 8037 section 3.1) that a token may be signed with.
BOOST_DEFINE_FIXED_ENUM_CLASS(JwsAlgorithm, std::uint8_t, hs256, hs384, hs512, rs256, rs384, rs512,
                              ps256, ps384, ps512, es256, es384, es512,
                              eddsa)  // with Ed25519

// `jwt`: a signed token (RFC 7519).
struct JwtMethod {
    std::string field = "authorization";   // lower case; in this one after `Bearer`, else alone
    std::string cookie;                    // set: the token is in that cookie, and in no field
    std::shared_ptr<KeySource> keys;       // never null
    std::vector<JwsAlgorithm> algorithms;  // not empty
    std::string issuer;                    // empty: any
    std::vector<std::string> audience;     // one of them is wanted; empty: any
    std::string claim = "sub";             // holds the user
    std::string tier_claim;                // empty: the token names no tier
    std::vector<std::string> known_tiers;  // of policies, in order: which of a list of tiers counts
    std::vector<std::string> claims;       // that policies count by: only these are kept of a token
    std::chrono::seconds leeway{30};       // 0..5 min
};

// `api_key`: a secret in a field, known by its digest.
struct ApiKeyMethod {
    std::string field = "x-api-key";      // lower case; `authorization`: after `Bearer`
    std::shared_ptr<const ApiKeys> keys;  // never null
};

// `basic`: HTTP Basic (RFC 7617) against an htpasswd file.
struct BasicMethod {
    std::shared_ptr<const Htpasswd> users;  // never null
};

// `cookie`: an opaque value that the client chose or got from the upstream; the user is its hash.
struct CookieMethod {
    std::string name;
};

// `header`: a field that a trusted peer sets.
struct HeaderMethod {
    std::string field;       // lower case
    std::string tier_field;  // lower case; empty: none
};

// What of a certificate names its user.
BOOST_DEFINE_FIXED_ENUM_CLASS(CertificateSubject, std::uint8_t, common_name, uri, dns, email,
                              sha256)

// `client_certificate`: what a certificate that the client has proven says of it.
struct CertificateMethod {
    using Subject = CertificateSubject;

    Subject subject = Subject::common_name;
    std::string prefix;  // that the value must have; it stays part of the user
};

struct UserMethod {
    // Put before every user the method names, with a colon; empty: nothing is. Letters, digits,
    // `-`, `_`, `.`.
    std::string space;
    std::variant<JwtMethod, ApiKeyMethod, BasicMethod, CookieMethod, HeaderMethod,
                 CertificateMethod>
        how;
};

}  // namespace tidegate::identity
