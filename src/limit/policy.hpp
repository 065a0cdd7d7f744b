// A policy: limits that share a key. Immutable; owned by the configuration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/described_enum.hpp"
#include "limit/limit.hpp"

namespace tidegate::limit {

// What a part of a key counts by.
BOOST_DEFINE_FIXED_ENUM_CLASS(KeyPartKind, std::uint8_t, ip, user, route, constant, header, query,
                              capture,
                              method,  // of the request; GET includes HEAD
                              host,    // the authority of the request, normalised
                              claim,   // of the token that named the user
                              cookie)

// What an identifier is made of.
struct KeyPart {
    using Kind = KeyPartKind;

    Kind kind = Kind::ip;
    // Of the field (lower case), query parameter, capture, claim or cookie; the constant itself.
    std::string name;
    bool secret = false;      // of a field, parameter or cookie: only a hash of its value is shown
    std::uint16_t claim = 0;  // of a claim: the position among the claims of the configuration

    // One client's own: its address, its user or its credential. The claims of a token may be
    // those of a tenant, whose users share them.
    bool names_client() const { return kind == Kind::ip || kind == Kind::user || secret; }
    bool operator==(const KeyPart&) const = default;
};

// What becomes of a request for which a key makes no identifier.
enum class OnMissing : std::uint8_t {
    skip,    // this key counts nothing
    shared,  // all such requests are counted as one
    reject,  // 401 where the key needs a user that is absent, else 400
};

// Makes one identifier: of all the parts of the first choice whose parts are all there.
// `user|ip` is two choices of a part each, `header:x-tenant+route` one choice of two parts.
struct Key {
    std::vector<std::vector<KeyPart>> choices;  // neither it nor a choice is empty
    OnMissing on_missing = OnMissing::skip;

    bool operator==(const Key&) const = default;
};

// `ip` and the like: one choice of one part.
inline Key single_key(KeyPart::Kind kind) {
    return {.choices = {{{kind, {}}}}};
}

// What decides when the store does not answer.
enum class OnStoreFailure : std::uint8_t {
    local,
    allow,
    deny,
    // As local; and while it is not known how many proxies share the store, this one counts alone,
    // by the whole quota. For what has a limit though the configuration has none: it must not
    // refuse service.
    local_or_alone,
};

inline constexpr std::size_t kLimitsMax = 32;  // of one policy

// Limits that hold for some users in place of the policy's own. None: those users are unlimited.
struct Tier {
    std::string name;
    std::vector<Limit> limits;
    std::uint32_t index = 0;  // among all lists of limits: see Policy::index
};

struct Policy {
    std::string name;           // unique; `<route>/<index>` for one written in a route
    std::vector<Key> key;       // not empty, no key twice
    std::vector<Limit> limits;  // one to kLimitsMax; ids differ
    std::vector<Tier> tiers;
    OnStoreFailure on_store_failure = OnStoreFailure::local;
    bool shadow = false;  // decides, counts and logs, but never refuses
    // Position among all lists of limits of the configuration, those of tiers included: what a
    // table of names or counters is looked up by.
    std::uint32_t index = 0;
};

// The name of a limit for everybody but metrics, which have two labels: `POLICY-LIMIT`. In one
// configuration two limits never share it; in the tiers of a policy the same limit has another
// quota.
inline std::string full_name(const Policy& policy, const Limit& limit) {
    return policy.name + '-' + limit.name;
}

}  // namespace tidegate::limit
