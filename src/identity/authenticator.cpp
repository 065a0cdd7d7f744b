#include "identity/authenticator.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/text.hpp"
#include "identity/api_keys.hpp"
#include "identity/counted_claims.hpp"
#include "identity/credentials.hpp"
#include "identity/digest.hpp"
#include "identity/identifier.hpp"
#include "identity/jwt.hpp"

namespace tidegate::identity {
namespace {

// For this long after its last use, a password that was right needs no new hash. Only a reload
// brings other passwords, and ends this.
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

void refuse(CredentialFault fault, Authentication& authentication) {
    authentication.result = Authentication::Result::refused;
    authentication.fault = fault;
}

bool has_two_authorizations(const http::Fields& fields) {
    return std::count_if(fields.begin(), fields.end(), [](const http::Field& field) {
               return http::equal_ignoring_case(field.name, "authorization");
           }) > 1;
}

// False when there is nothing to go on with: no credential, or the authentication has the reason.
bool is_present(const Credential& credential, Authentication& authentication) {
    switch (credential.state) {
        case Credential::State::absent:
            return false;
        case Credential::State::present:
            return true;
        case Credential::State::malformed:
            refuse(CredentialFault::malformed, authentication);
            return false;
        case Credential::State::twice:
            authentication.result = Authentication::Result::ambiguous;
            return false;
    }
    return false;
}

}  // namespace

void Authentication::reset() {
    result = Authentication::Result::anonymous;
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

void Authenticator::look(const Peer& peer, const ClientCertificate* certificate,
                         const http::Fields& fields, Time now, Authentication& authentication) {
    authentication.reset();
    // The upstream could trust either of two: then no method decides, not even one that reads
    // neither.
    if (reads_authorization_ && has_two_authorizations(fields)) {
        authentication.result = Authentication::Result::ambiguous;
        return;
    }
    for (const UserMethod& method : *methods_) {
        std::visit(
            [&](const auto& how) {
                using How = std::decay_t<decltype(how)>;
                if constexpr (std::is_same_v<How, HeaderMethod>) {
                    look_with(how, peer, fields, authentication);
                } else if constexpr (std::is_same_v<How, CertificateMethod>) {
                    look_with(how, peer, certificate, authentication);
                } else {
                    look_with(how, fields, now, authentication);
                }
            },
            method.how);
        if (authentication.result != Authentication::Result::anonymous) return;
        ++authentication.method;
    }
}

bool Authenticator::recall(Authentication& authentication, Time now) {
    const std::uint64_t version = version_of(authentication);
    auto known = remembered_.find(authentication.key, now, version);
    if (!known && shared_ && shared_->copy(authentication.key, now, version, remembered_)) {
        known = remembered_.find(authentication.key, now, version);
    }
    if (!known) return false;
    if (known->fault != CredentialFault::none) {
        refuse(known->fault, authentication);
        return true;
    }
    authentication.result = Authentication::Result::user;
    authentication.user = known->name;
    authentication.tier = known->tier;
    if (!known->claims.empty()) authentication.claims = known->claims;
    // Else another client at the same address could lock this user out by guessing.
    if (known->expires - now < kPasswordRemembered / 2 &&
        std::holds_alternative<BasicMethod>((*methods_)[authentication.method].how)) {
        remember(authentication, now + kPasswordRemembered, kFixedVersion);
    }
    return true;
}

void Authenticator::look_with(const JwtMethod& method, const http::Fields& fields, Time now,
                              Authentication& authentication) {
    const Credential token = method.cookie.empty() ? find_secret(fields, method.field)
                                                   : find_cookie(fields, method.cookie);
    if (!is_present(token, authentication)) return;
    remembered_or_unchecked(token.text, now, authentication);
}

void Authenticator::look_with(const ApiKeyMethod& method, const http::Fields& fields, Time,
                              Authentication& authentication) {
    const Credential key = find_secret(fields, method.field);
    if (!is_present(key, authentication)) return;
    const auto owner = method.keys->find(key.text);
    if (owner) {
        name(owner->user, owner->tier, authentication);
    } else {
        refuse(CredentialFault::unknown_secret, authentication);
    }
}

void Authenticator::look_with(const BasicMethod&, const http::Fields& fields, Time now,
                              Authentication& authentication) {
    const Credential login = find_basic(fields);
    if (is_present(login, authentication)) remembered_or_unchecked(login.text, now, authentication);
}

void Authenticator::look_with(const CookieMethod& method, const http::Fields& fields, Time,
                              Authentication& authentication) {
    const Credential cookie = find_cookie(fields, method.name);
    if (cookie.state == Credential::State::malformed) {
        refuse(CredentialFault::unclear_cookie, authentication);
    }
    if (cookie.state != Credential::State::present) return;
    // The cookie itself is a secret. Its digest is the same in every process, so that all proxies
    // in front of one store count it as one.
    std::string room;
    const std::string_view value = counted_cookie_value(cookie.text, room);
    if (value.empty()) return;
    const auto hex = hex_of(sha256(value));
    name({hex.data(), hex.size()}, {}, authentication);
}

// A field from a peer that is not trusted is ignored; a field that is there twice names no user.
void Authenticator::look_with(const HeaderMethod& method, const Peer& peer,
                              const http::Fields& fields, Authentication& authentication) const {
    if (!peer.trusted) return;
    // A field that Connection names does not reach the upstream, which would see another user.
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
        refuse(CredentialFault::unsafe_user, authentication);
    } else {
        name(user, is_tier_name(tier) ? tier : std::string_view{}, authentication);
    }
}

void Authenticator::look_with(const CertificateMethod& method, const Peer& peer,
                              const ClientCertificate* certificate,
                              Authentication& authentication) const {
    if (certificate == nullptr || peer.is_gateway) return;
    const CertificateUser user = user_of(method, *certificate);
    if (user.fault != CredentialFault::none) {
        refuse(user.fault, authentication);
    } else {
        name(user.name, {}, authentication);
    }
}

void Authenticator::remembered_or_unchecked(std::string_view credential, Time now,
                                            Authentication& authentication) {
    authentication.credential = credential;
    authentication.key = remembered_.key_of(authentication.method, credential);
    if (!recall(authentication, now)) authentication.result = Authentication::Result::unchecked;
}

std::uint64_t Authenticator::version_of(const Authentication& authentication) const {
    const auto* jwt = std::get_if<JwtMethod>(&(*methods_)[authentication.method].how);
    return jwt != nullptr ? jwt->keys->version() : kFixedVersion;
}

bool Authenticator::is_token(const Authentication& authentication) const {
    return std::holds_alternative<JwtMethod>((*methods_)[authentication.method].how);
}

void Authenticator::check_token(Authentication& authentication, Time now) {
    const auto& method = std::get<JwtMethod>((*methods_)[authentication.method].how);
    // Both come before the keys: keys that come in between are newer than the remembered ones.
    if (method.keys->is_fetched()) authentication.fetches = method.keys->fetches();
    const std::uint64_t version = method.keys->version();
    const auto keys = method.keys->keys();
    const TokenVerdict verdict = verify_token(authentication.credential, method, keys.get(), now);
    if (verdict.keys_missing && method.keys->is_fetched()) {
        authentication.result = Authentication::Result::key_missing;
        return;
    }
    if (verdict.fault != CredentialFault::none) {
        refuse(verdict.fault, authentication);
    } else {
        name_bearer(verdict.claims, authentication);
    }
    if (authentication.result == Authentication::Result::user) {
        remember(authentication, verdict.claims.expires, version);
    } else if (is_proved_by_signature(authentication.fault)) {
        const bool is_early = authentication.fault == CredentialFault::not_yet_valid;
        remember(authentication, now + (is_early ? kNotYetRemembered : kRefusalRemembered),
                 version);
    }
}

bool Authenticator::lacks_key(Authentication& authentication) const {
    const auto* method = std::get_if<JwtMethod>(&(*methods_)[authentication.method].how);
    if (method == nullptr || !method->keys->is_fetched()) return false;
    authentication.fetches = method->keys->fetches();
    const auto keys = method->keys->keys();
    if (!is_key_missing(authentication.credential, *method, keys.get())) return false;
    authentication.result = Authentication::Result::key_missing;
    return true;
}

KeySource& Authenticator::key_source(const Authentication& authentication) const {
    return *std::get<JwtMethod>((*methods_)[authentication.method].how).keys;
}

void Authenticator::refuse_missing_key(Authentication& authentication) {
    refuse(CredentialFault::unknown_key, authentication);
}

// The fault of a refusal.
void Authenticator::remember(const Authentication& authentication, Time expires,
                             std::uint64_t version) {
    CredentialCache::User user{authentication.user, authentication.tier, {}, authentication.claims};
    if (authentication.result != Authentication::Result::user)
        user = {{}, {}, authentication.fault};
    remembered_.insert(authentication.key, user, expires, version);
    if (shared_) shared_->insert(authentication.key, user, expires, version);
}

const BasicMethod& Authenticator::password_method(const Authentication& authentication) const {
    return std::get<BasicMethod>((*methods_)[authentication.method].how);
}

void Authenticator::conclude_password(Authentication& authentication, std::string_view user,
                                      bool is_right, Time now) {
    if (!is_right) {
        refuse(CredentialFault::wrong_password, authentication);
        return;
    }
    name(user, {}, authentication);
    remember(authentication, now + kPasswordRemembered, kFixedVersion);
}

// A method that could name a user `key:bob` could name the `bob` of the method whose namespace is
// `key`. So without a namespace of its own no method names a user that looks like that.
void Authenticator::name(std::string_view user, std::string_view tier,
                         Authentication& authentication) const {
    const std::string& space = (*methods_)[authentication.method].space;
    const auto belongs_to = [&](const UserMethod& other) {
        return !other.space.empty() && user.size() > other.space.size() &&
               user[other.space.size()] == ':' && user.starts_with(other.space);
    };
    if (space.empty() && std::any_of(methods_->begin(), methods_->end(), belongs_to)) {
        refuse(CredentialFault::foreign_space, authentication);
        return;
    }
    authentication.result = Authentication::Result::user;
    authentication.user.clear();
    if (!space.empty()) authentication.user.append(space) += ':';
    authentication.user += user;
    authentication.tier = tier;
}

// The namespace holds for claims, too: issuers do not share the counts of their tenants.
void Authenticator::name_bearer(const TokenClaims& claims, Authentication& authentication) const {
    name(claims.user, claims.tier, authentication);
    if (authentication.result != Authentication::Result::user || claims.counted.empty()) return;
    const UserMethod& method = (*methods_)[authentication.method];
    authentication.claims =
        pack_claims(std::get<JwtMethod>(method.how).claims, claims.counted, method.space);
}

}  // namespace tidegate::identity
