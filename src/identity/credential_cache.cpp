#include "identity/credential_cache.hpp"

#include <cstring>

namespace tidegate::identity {

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
