#include "identity/authenticator.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "identity/credentials.hpp"

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

bool reads_authorization(const UserMethod& method) {
    return method.how->place().field() == "authorization";
}

bool has_two_authorizations(const http::Fields& fields) {
    return std::count_if(fields.begin(), fields.end(), [](const http::Field& field) {
               return http::equal_ignoring_case(field.name, "authorization");
           }) > 1;
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

bool Authentication::take(const Credential& read) {
    switch (read.state) {
        case Credential::State::absent:
            return false;
        case Credential::State::present:
            return true;
        case Credential::State::malformed:
            refuse(CredentialFault::malformed);
            return false;
        case Credential::State::twice:
            result = Result::ambiguous;
            return false;
    }
    return false;
}

void Authentication::name(std::string_view of_user, std::string_view of_tier) {
    result = Result::user;
    user = of_user;
    tier = of_tier;
}

void Authentication::refuse(CredentialFault why) {
    result = Result::refused;
    fault = why;
}

void Authentication::present(std::string_view text) {
    result = Result::unchecked;
    credential = text;
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
    const Presented request{peer, certificate, fields};
    for (const UserMethod& method : *methods_) {
        method.how->look(request, authentication);
        if (authentication.result != Authentication::Result::anonymous) break;
        ++authentication.method;
    }
    if (authentication.result == Authentication::Result::user) {
        add_namespace(authentication);
    } else if (authentication.result == Authentication::Result::unchecked) {
        authentication.key = remembered_.key_of(authentication.method, authentication.credential);
        recall(authentication, now);
    }
}

const IdentityMethod& Authenticator::method_of(const Authentication& authentication) const {
    return *(*methods_)[authentication.method].how;
}

bool Authenticator::recall(Authentication& authentication, Time now) {
    const std::uint64_t version = version_of(authentication);
    auto known = remembered_.find(authentication.key, now, version);
    if (!known && shared_ && shared_->copy(authentication.key, now, version, remembered_)) {
        known = remembered_.find(authentication.key, now, version);
    }
    if (!known) return false;
    if (known->fault != CredentialFault::none) {
        authentication.refuse(known->fault);
        return true;
    }
    authentication.result = Authentication::Result::user;
    authentication.user = known->name;
    authentication.tier = known->tier;
    if (!known->claims.empty()) authentication.claims = known->claims;
    // Else another client at the same address could lock this user out by guessing.
    if (known->expires - now < kPasswordRemembered / 2 && passwords(authentication) != nullptr) {
        remember(authentication, now + kPasswordRemembered, IdentityMethod::kFixedVersion);
    }
    return true;
}

std::uint64_t Authenticator::version_of(const Authentication& authentication) const {
    const auto& keys = key_source(authentication);
    return keys != nullptr ? keys->version() : IdentityMethod::kFixedVersion;
}

const std::shared_ptr<const Htpasswd>& Authenticator::passwords(
    const Authentication& authentication) const {
    return method_of(authentication).passwords();
}

void Authenticator::check(Authentication& authentication, Time now) {
    const UserMethod& method = (*methods_)[authentication.method];
    const auto checked = method.how->check(method.space, now, authentication);
    if (authentication.result == Authentication::Result::user) add_namespace(authentication);
    if (authentication.result == Authentication::Result::user) {
        remember(authentication, checked.expires, checked.version);
    } else if (is_proved_by_signature(authentication.fault)) {
        const bool is_early = authentication.fault == CredentialFault::not_yet_valid;
        remember(authentication, now + (is_early ? kNotYetRemembered : kRefusalRemembered),
                 checked.version);
    }
}

bool Authenticator::lacks_key(Authentication& authentication) const {
    return method_of(authentication).lacks_key(authentication);
}

const std::shared_ptr<KeySource>& Authenticator::key_source(
    const Authentication& authentication) const {
    return method_of(authentication).key_source();
}

void Authenticator::refuse_missing_key(Authentication& authentication) {
    authentication.refuse(CredentialFault::unknown_key);
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

void Authenticator::conclude_password(Authentication& authentication, std::string_view user,
                                      bool is_right, Time now) {
    if (!is_right) return authentication.refuse(CredentialFault::wrong_password);
    authentication.name(user, {});
    add_namespace(authentication);
    remember(authentication, now + kPasswordRemembered, IdentityMethod::kFixedVersion);
}

// A method that could name a user `key:bob` could name the `bob` of the method whose namespace is
// `key`. So without a namespace of its own no method names a user that looks like that.
void Authenticator::add_namespace(Authentication& authentication) const {
    const std::string& space = (*methods_)[authentication.method].space;
    std::string& user = authentication.user;
    if (!space.empty()) {
        user.insert(0, 1, ':').insert(0, space);
        return;
    }
    const auto belongs_to = [&](const UserMethod& other) {
        return !other.space.empty() && user.size() > other.space.size() &&
               user[other.space.size()] == ':' && user.starts_with(other.space);
    };
    if (std::none_of(methods_->begin(), methods_->end(), belongs_to)) return;
    user.clear();
    authentication.tier.clear();
    authentication.claims.clear();
    authentication.refuse(CredentialFault::foreign_space);
}

void append_challenges(const std::vector<UserMethod>& methods, const Authentication& authentication,
                       std::string& out) {
    const std::size_t before = out.size();
    for (std::size_t i = 0; i < methods.size(); ++i) {
        const bool is_guilty = i == authentication.method;
        methods[i].how->append_challenge(
            is_guilty ? public_reason(authentication.fault) : std::string_view{}, out);
    }
    // RFC 9110 section 15.5.2 requires at least one.
    if (out.size() == before) append_challenge("Tidegate", {}, {}, out);
}

CredentialCache::Key CredentialCache::key_of(std::uint32_t method,
                                             std::string_view credential) const {
    char number[sizeof method];
    std::memcpy(number, &method, sizeof method);
    return keyed_.of({{number, sizeof number}, credential});
}

std::optional<CredentialCache::User> CredentialCache::find(const Key& key, Time now,
                                                           std::uint64_t version) {
    const auto known = positions_.find(key);
    if (known == positions_.end()) return std::nullopt;
    const std::uint32_t position = known->second;
    Entry& entry = entries_[position];
    if (now >= entry.expires || version != entry.version) {
        forget(position);
        return std::nullopt;
    }
    entry.used = true;
    const std::string_view names(entry.names);
    const std::string_view others = names.substr(entry.user_bytes);
    return User{names.substr(0, entry.user_bytes), others.substr(0, entry.tier_bytes), entry.fault,
                others.substr(entry.tier_bytes), entry.expires};
}

void CredentialCache::insert(const Key& key, const User& user, Time expires,
                             std::uint64_t version) {
    // A copy first: `user` may be a view into an entry that is about to be forgotten.
    std::string names;
    names.reserve(user.name.size() + user.tier.size() + user.claims.size());
    names.append(user.name).append(user.tier).append(user.claims);
    const auto user_bytes = static_cast<std::uint32_t>(user.name.size());
    const auto tier_bytes = static_cast<std::uint8_t>(user.tier.size());

    if (const auto known = positions_.find(key); known != positions_.end()) forget(known->second);
    if (options_.entries == 0 || names.size() > options_.bytes) return;
    while (size() >= options_.entries || bytes_ + names.size() > options_.bytes) evict_one();
    const std::uint32_t position = free_position();
    bytes_ += names.size();
    entries_[position] = {key,        expires, version, std::move(names), user_bytes, tier_bytes,
                          user.fault, true,    false};
    positions_.emplace(key, position);
}

std::uint32_t CredentialCache::free_position() {
    if (free_.empty()) {
        entries_.emplace_back();
        return static_cast<std::uint32_t>(entries_.size() - 1);
    }
    const std::uint32_t position = free_.back();
    free_.pop_back();
    return position;
}

void CredentialCache::forget(std::uint32_t position) {
    Entry& entry = entries_[position];
    positions_.erase(entry.key);
    bytes_ -= entry.names.size();
    entry = {};
    free_.push_back(position);
}

// CLOCK eviction: the hand clears the mark of each entry that was used since it last passed, so the
// loop ends. Requires an entry.
void CredentialCache::evict_one() {
    while (true) {
        const std::size_t position = hand_;
        hand_ = (hand_ + 1) % entries_.size();
        Entry& entry = entries_[position];
        if (entry.taken && !entry.used) {
            forget(static_cast<std::uint32_t>(position));
            return;
        }
        entry.used = false;
    }
}

void CredentialCache::clear() {
    keyed_ = KeyedDigest();  // checks under way hold the former one
    positions_.clear();
    entries_.clear();
    free_.clear();
    hand_ = 0;
    bytes_ = 0;
}

bool SharedCredentialCache::copy(const CredentialCache::Key& key, CredentialCache::Time now,
                                 std::uint64_t version, CredentialCache& into) {
    const std::lock_guard lock(mutex_);
    const auto known = table_.find(key, now, version);
    if (known) into.insert(key, *known, table_.expires_at(key), version);
    return known.has_value();
}

void SharedCredentialCache::insert(const CredentialCache::Key& key,
                                   const CredentialCache::User& user, CredentialCache::Time expires,
                                   std::uint64_t version) {
    const std::lock_guard lock(mutex_);
    table_.insert(key, user, expires, version);
}

}  // namespace tidegate::identity
