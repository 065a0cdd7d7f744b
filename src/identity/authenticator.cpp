#include "identity/authenticator.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/hex.hpp"
#include "identity/api_keys.hpp"
#include "identity/counted_claims.hpp"
#include "identity/credentials.hpp"
#include "identity/jwt.hpp"
#include "identity/name_rules.hpp"
#include "identity/sha256.hpp"

namespace tidegate::identity {
namespace {

// A password that was right is right for so long after its last use without being hashed again.
// Only a reload brings other passwords, and ends this.
constexpr std::chrono::seconds kPasswordRemembered{60};
// So is a token that one of our keys signed and that is refused all the same: its sender could have
// us check the signature as often as it likes, as that is no guess. One whose time is still to come
// is looked at again soon.
constexpr std::chrono::seconds kRefusalRemembered{60};
constexpr std::chrono::seconds kNotYetRemembered{1};
// Keys of a password file never change under a configuration.
constexpr std::uint64_t kFixedVersion = 1;

bool reads_authorization(const UserMethod& method) {
    constexpr std::string_view kAuthorization = "authorization";
    if (const auto* jwt = std::get_if<JwtMethod>(&method.how)) {
        return jwt->cookie.empty() && jwt->field == kAuthorization;
    }
    if (const auto* key = std::get_if<ApiKeyMethod>(&method.how)) {
        return key->field == kAuthorization;
    }
    return std::holds_alternative<BasicMethod>(method.how);
}

void refuse(CredentialFault fault, Finding& finding) {
    finding.result = Finding::Result::refused;
    finding.fault = fault;
}

bool has_two_authorizations(const http::Fields& fields) {
    return std::count_if(fields.begin(), fields.end(), [](const http::Field& field) {
               return http::equal_ignoring_case(field.name, "authorization");
           }) > 1;
}

// False when there is nothing to go on with: absent, or the finding says why.
bool is_present(const Credential& credential, Finding& finding) {
    switch (credential.state) {
        case Credential::State::absent:
            return false;
        case Credential::State::present:
            return true;
        case Credential::State::malformed:
            refuse(CredentialFault::malformed, finding);
            return false;
        case Credential::State::twice:
            finding.result = Finding::Result::ambiguous;
            return false;
    }
    return false;
}

}  // namespace

void Finding::reset() {
    result = Finding::Result::nobody;
    fault = CredentialFault::none;
    method = 0;
    user.clear();
    tier.clear();
    claims.clear();
    credential = {};
}

Authenticator::Authenticator(const std::vector<UserMethod>& methods,
                             std::shared_ptr<SharedCredentialCache> shared,
                             const CredentialCache::Options& remembered)
    : methods_(&methods),
      reads_authorization_(std::any_of(methods.begin(), methods.end(), reads_authorization)),
      shared_(std::move(shared)),
      remembered_(shared_ ? CredentialCache(remembered, shared_->digest())
                          : CredentialCache(remembered)) {}

void Authenticator::look(const Peer& peer, const http::Fields& fields, Time now, Finding& finding) {
    finding.reset();
    // Whichever of two the upstream would believe: not even a method that reads neither decides.
    if (reads_authorization_ && has_two_authorizations(fields)) {
        finding.result = Finding::Result::ambiguous;
        return;
    }
    for (const UserMethod& method : *methods_) {
        std::visit(
            [&](const auto& how) {
                if constexpr (std::is_same_v<std::decay_t<decltype(how)>, HeaderMethod>) {
                    look_with(how, peer, fields, finding);
                } else {
                    look_with(how, fields, now, finding);
                }
            },
            method.how);
        if (finding.result != Finding::Result::nobody) return;
        ++finding.method;
    }
}

bool Authenticator::recall(Finding& finding, Time now) {
    const std::uint64_t version = version_of(finding);
    auto known = remembered_.find(finding.key, now, version);
    if (!known && shared_ && shared_->copy(finding.key, now, version, remembered_)) {
        known = remembered_.find(finding.key, now, version);
    }
    if (!known) return false;
    if (known->fault != CredentialFault::none) {
        refuse(known->fault, finding);
        return true;
    }
    finding.result = Finding::Result::user;
    finding.user = known->name;
    finding.tier = known->tier;
    if (!known->claims.empty()) finding.claims = known->claims;
    // Else a client that guesses at the same address would lock this user out in the end.
    if (known->expires - now < kPasswordRemembered / 2 &&
        std::holds_alternative<BasicMethod>((*methods_)[finding.method].how)) {
        remember(finding, now + kPasswordRemembered, kFixedVersion);
    }
    return true;
}

void Authenticator::look_with(const JwtMethod& method, const http::Fields& fields, Time now,
                              Finding& finding) {
    const Credential token = method.cookie.empty() ? find_secret(fields, method.field)
                                                   : find_cookie(fields, method.cookie);
    if (!is_present(token, finding)) return;
    remembered_or_unchecked(token.text, now, finding);
}

void Authenticator::look_with(const ApiKeyMethod& method, const http::Fields& fields, Time,
                              Finding& finding) {
    const Credential key = find_secret(fields, method.field);
    if (!is_present(key, finding)) return;
    const auto owner = method.keys->find(key.text);
    if (owner) {
        name(owner->user, owner->tier, finding);
    } else {
        refuse(CredentialFault::unknown_secret, finding);
    }
}

void Authenticator::look_with(const BasicMethod&, const http::Fields& fields, Time now,
                              Finding& finding) {
    const Credential login = find_basic(fields);
    if (is_present(login, finding)) remembered_or_unchecked(login.text, now, finding);
}

void Authenticator::look_with(const CookieMethod& method, const http::Fields& fields, Time,
                              Finding& finding) {
    const Credential cookie = find_cookie(fields, method.name);
    if (cookie.state == Credential::State::malformed) {
        refuse(CredentialFault::unclear_cookie, finding);
    }
    if (cookie.state != Credential::State::present) return;
    // The cookie itself is a secret. Its digest is the same in every process, so that all proxies
    // in front of one store count it as one.
    std::string room;
    const auto hex = hex_of(sha256(counted_cookie_value(cookie.text, room)));
    name({hex.data(), hex.size()}, {}, finding);
}

// A field from a peer that is not trusted is not looked at; one that is there twice names nobody.
void Authenticator::look_with(const HeaderMethod& method, const Peer& peer,
                              const http::Fields& fields, Finding& finding) const {
    if (!peer.trusted) return;
    // What Connection names does not reach the upstream, which would see another user.
    const auto stated = [&](std::string_view name) {
        const bool is_named = std::any_of(fields.begin(), fields.end(), [&](const auto& field) {
            return field.id == http::FieldName::named_by_connection &&
                   http::equal_ignoring_case(field.name, name);
        });
        return is_named ? std::string_view{} : http::single_value(fields, name);
    };
    const std::string_view user = stated(method.field);
    if (user.empty()) return;
    const std::string_view tier =
        method.tier_field.empty() ? std::string_view{} : stated(method.tier_field);
    if (!is_safe_user(user)) {
        refuse(CredentialFault::unsafe_user, finding);
    } else {
        name(user, is_tier_name(tier) ? tier : std::string_view{}, finding);
    }
}

void Authenticator::remembered_or_unchecked(std::string_view credential, Time now,
                                            Finding& finding) {
    finding.credential = credential;
    finding.key = remembered_.key_of(finding.method, credential);
    if (!recall(finding, now)) finding.result = Finding::Result::unchecked;
}

std::uint64_t Authenticator::version_of(const Finding& finding) const {
    const auto* jwt = std::get_if<JwtMethod>(&(*methods_)[finding.method].how);
    return jwt != nullptr ? jwt->keys->version() : kFixedVersion;
}

bool Authenticator::is_token(const Finding& finding) const {
    return std::holds_alternative<JwtMethod>((*methods_)[finding.method].how);
}

void Authenticator::check_token(Finding& finding, Time now) {
    const auto& method = std::get<JwtMethod>((*methods_)[finding.method].how);
    // Both before the keys: keys that come in between are newer than what is remembered.
    if (method.keys->is_fetched()) finding.fetches = method.keys->fetches();
    const std::uint64_t version = method.keys->version();
    const auto keys = method.keys->keys();
    const TokenVerdict verdict = verify_token(finding.credential, method, keys.get(), now);
    if (verdict.keys_missing && method.keys->is_fetched()) {
        finding.result = Finding::Result::key_missing;
        return;
    }
    if (verdict.fault != CredentialFault::none) {
        refuse(verdict.fault, finding);
    } else {
        name_bearer(verdict.claims, finding);
    }
    if (finding.result == Finding::Result::user) {
        remember(finding, verdict.claims.expires, version);
    } else if (is_proved_by_signature(finding.fault)) {
        const bool is_early = finding.fault == CredentialFault::not_yet_valid;
        remember(finding, now + (is_early ? kNotYetRemembered : kRefusalRemembered), version);
    }
}

bool Authenticator::lacks_key(Finding& finding) const {
    const auto* method = std::get_if<JwtMethod>(&(*methods_)[finding.method].how);
    if (method == nullptr || !method->keys->is_fetched()) return false;
    finding.fetches = method->keys->fetches();
    const auto keys = method->keys->keys();
    if (!is_key_missing(finding.credential, *method, keys.get())) return false;
    finding.result = Finding::Result::key_missing;
    return true;
}

KeySource& Authenticator::key_source(const Finding& finding) const {
    return *std::get<JwtMethod>((*methods_)[finding.method].how).keys;
}

void Authenticator::refuse_missing_key(Finding& finding) {
    refuse(CredentialFault::unknown_key, finding);
}

// Of a refusal the fault.
void Authenticator::remember(const Finding& finding, Time expires, std::uint64_t version) {
    CredentialCache::User user{finding.user, finding.tier, {}, finding.claims};
    if (finding.result != Finding::Result::user) user = {{}, {}, finding.fault};
    remembered_.insert(finding.key, user, expires, version);
    if (shared_) shared_->insert(finding.key, user, expires, version);
}

const BasicMethod& Authenticator::password_method(const Finding& finding) const {
    return std::get<BasicMethod>((*methods_)[finding.method].how);
}

void Authenticator::conclude_password(Finding& finding, std::string_view user, bool is_right,
                                      Time now) {
    if (!is_right) {
        refuse(CredentialFault::wrong_password, finding);
        return;
    }
    name(user, {}, finding);
    remember(finding, now + kPasswordRemembered, kFixedVersion);
}

// Whoever could name a user `key:bob` could pass for the `bob` of the method whose namespace is
// `key`; so without a namespace of its own no method names one that looks like that.
void Authenticator::name(std::string_view user, std::string_view tier, Finding& finding) const {
    const std::string& space = (*methods_)[finding.method].space;
    const auto belongs_to = [&](const UserMethod& other) {
        return !other.space.empty() && user.size() > other.space.size() &&
               user[other.space.size()] == ':' && user.starts_with(other.space);
    };
    if (space.empty() && std::any_of(methods_->begin(), methods_->end(), belongs_to)) {
        refuse(CredentialFault::foreign_space, finding);
        return;
    }
    finding.result = Finding::Result::user;
    finding.user.clear();
    if (!space.empty()) finding.user.append(space) += ':';
    finding.user += user;
    finding.tier = tier;
}

// The namespace holds for claims, too: issuers do not share the counts of their tenants.
void Authenticator::name_bearer(const TokenClaims& claims, Finding& finding) const {
    name(claims.user, claims.tier, finding);
    if (finding.result != Finding::Result::user || claims.counted.empty()) return;
    const UserMethod& method = (*methods_)[finding.method];
    finding.claims =
        pack_claims(std::get<JwtMethod>(method.how).claims, claims.counted, method.space);
}

}  // namespace tidegate::identity
