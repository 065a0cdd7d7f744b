// A cache of checked credentials: the next request with one of them does not wait for a signature
// or a password hash. The cache holds keyed digests of credentials (digest.hpp), never the
// credentials: only this process can compute the digests.
//
// Each worker has a cache of its own, used by its thread alone; all share another. Time is an
// argument.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "identity/credentials.hpp"
#include "identity/digest.hpp"

namespace tidegate::identity {

class CredentialCache {
  public:
    using Time = std::chrono::system_clock::time_point;
    using Key = KeyedDigest::Value;

    struct Options {
        std::size_t entries = 50'000;   // 0: the cache stays empty
        std::size_t bytes = 8'000'000;  // of the names of users and tiers, and of claims
    };
    // The result of a check. Views into the table, valid until it changes.
    struct User {
        std::string_view name;
        std::string_view tier = {};  // empty: none; at most 255 bytes
        // Not none: a refusal, and no name. To refuse a token that one of our keys signed took as
        // much work as to accept it.
        CredentialFault fault = CredentialFault::none;
        std::string_view claims = {};  // as pack_claims() returns them
        Time expires{};                // set by find(); insert() takes its own
    };

    explicit CredentialCache(const Options& options) : options_(options) {}
    // With the digest's key of `others`: both caches have the same key_of().
    CredentialCache(const Options& options, const KeyedDigest& others)
        : options_(options), keyed_(others) {}

    // The digest of the number of the method that takes the credential, and of all its text. A
    // caller keeps it in place of the password while the password is checked.
    Key key_of(std::uint32_t method, std::string_view credential) const;

    // The user; nothing, and the entry is gone, from `expires` on and when `version` is not the one
    // that it was inserted with: other keys are in force.
    std::optional<User> find(const Key& key, Time now, std::uint64_t version);

    // Only for a credential that a check has just found valid, or signed by one of our keys: a
    // client without so many of them cannot push out the entries of others. `version` is that of
    // the keys it was checked with, read before the check. A full cache evicts by CLOCK: about the
    // least recently used entry.
    void insert(const Key& key, const User& user, Time expires, std::uint64_t version);

    // When what find() has just found expires. Requires that it did.
    Time expires_at(const Key& key) const { return entries_[positions_.at(key)].expires; }
    const KeyedDigest& digest() const { return keyed_; }

    // After a reload, as methods have other numbers then. What a caller inserts by an older key is
    // not found.
    void clear();

    std::size_t size() const { return positions_.size(); }
    std::size_t bytes() const { return bytes_; }

  private:
    struct Entry {
        Key key{};
        Time expires;
        std::uint64_t version = 0;
        std::string names;  // user, then tier, then claims
        std::uint32_t user_bytes = 0;
        std::uint8_t tier_bytes = 0;
        CredentialFault fault = CredentialFault::none;
        bool taken = false;
        bool used = false;  // since the hand last passed
    };

    std::uint32_t free_position();
    void forget(std::uint32_t position);
    void evict_one();

    Options options_;
    KeyedDigest keyed_;
    std::vector<Entry> entries_;  // CLOCK; grows up to the bound
    std::size_t hand_ = 0;
    std::vector<std::uint32_t> free_;
    std::size_t bytes_ = 0;
    boost::unordered_flat_map<Key, std::uint32_t, KeyedDigestHash> positions_;
};

// The cache that the threads of a process share. A thread looks here after its own cache, so a
// credential that it has met costs no lock. Any thread.
class SharedCredentialCache {
  public:
    explicit SharedCredentialCache(const CredentialCache::Options& options = {})
        : table_(options) {}

    // For the caches of the threads.
    const KeyedDigest& digest() const { return table_.digest(); }

    // Copies the entry of that key into `into`; false if there is none.
    bool copy(const CredentialCache::Key& key, CredentialCache::Time now, std::uint64_t version,
              CredentialCache& into);
    void insert(const CredentialCache::Key& key, const CredentialCache::User& user,
                CredentialCache::Time expires, std::uint64_t version);

  private:
    std::mutex mutex_;
    CredentialCache table_;
};

}  // namespace tidegate::identity
