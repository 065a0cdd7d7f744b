// Credentials that were checked not long ago, so that the next request need not wait for a
// signature or a password hash. None is kept itself: only a name for it that nobody outside this
// process can compute (keyed_digest.hpp).
//
// One a worker, one thread, and one that all share. Time is an argument.
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

#include "identity/credential_fault.hpp"
#include "identity/keyed_digest.hpp"

namespace tidegate::identity {

class Remembered {
  public:
    using Time = std::chrono::system_clock::time_point;
    using Key = KeyedDigest::Value;

    struct Options {
        std::size_t entries = 50'000;   // 0: nothing is remembered
        std::size_t bytes = 8'000'000;  // of the names of users and tiers
    };
    // What a credential came to. Views into the table, valid until it is changed.
    struct User {
        std::string_view name;
        std::string_view tier = {};  // empty: none
        // Not none: a refusal, and no name. A signature of ours that proves it took the same effort
        // as one that is valid.
        CredentialFault fault = CredentialFault::none;
    };

    explicit Remembered(const Options& options) : options_(options) {}
    // The same, with the keys of `others`: what key_of() says there holds here.
    Remembered(const Options& options, const KeyedDigest& others)
        : options_(options), keyed_(others) {}

    // What a credential is remembered by: the number of the method that takes it, and the whole of
    // its text. To be kept while a password is checked, instead of the password.
    Key key_of(std::uint32_t method, std::string_view credential) const;

    // Whose it is; nothing from `expires` on, and nothing when `version` is another than when it
    // was inserted: other keys are in force. Either makes it forgotten.
    std::optional<User> find(const Key& key, Time now, std::uint64_t version);

    // Only for what has just been found valid, or signed by one of our keys, so that nobody can
    // push out others without having so many such credentials. `version` is that of the keys it was
    // checked with: read before the check, not after it. When it is full, what has not been asked
    // for longest goes, or nearly so.
    void insert(const Key& key, const User& user, Time expires, std::uint64_t version);

    // When what find() has just found expires. Requires that it did.
    Time expires_at(const Key& key) const { return entries_[positions_.at(key)].expires; }
    const KeyedDigest& digest() const { return keyed_; }

    // After a reload: methods have other numbers. What is inserted by a key from before is not
    // found.
    void clear();

    std::size_t size() const { return positions_.size(); }
    std::size_t bytes() const { return bytes_; }

  private:
    struct Entry {
        Key key{};
        Time expires;
        std::uint64_t version = 0;
        std::string names;  // user, then tier
        std::size_t user_bytes = 0;
        CredentialFault fault = CredentialFault::none;
        bool taken = false;
        bool asked = false;  // since the hand last passed
    };

    std::uint32_t free_position();
    void forget(std::uint32_t position);
    void evict_one();

    Options options_;
    KeyedDigest keyed_;
    std::vector<Entry> entries_;  // a clock with one hand; grows up to the bound
    std::size_t hand_ = 0;
    std::vector<std::uint32_t> free_;
    std::size_t bytes_ = 0;
    boost::unordered_flat_map<Key, std::uint32_t, KeyedDigestHash> positions_;
};

// What the threads of a process tell each other of credentials they have checked. A thread asks
// here for what it does not remember itself, so a credential that it has met costs it no lock. Any
// thread.
class SharedRemembered {
  public:
    explicit SharedRemembered(const Remembered::Options& options = {}) : table_(options) {}

    // For the tables of the threads, whose keys are the same then.
    const KeyedDigest& digest() const { return table_.digest(); }

    // Whether another thread has found out about it: then `into` remembers it, too.
    bool tell(const Remembered::Key& key, Remembered::Time now, std::uint64_t version,
              Remembered& into);
    void insert(const Remembered::Key& key, const Remembered::User& user, Remembered::Time expires,
                std::uint64_t version);

  private:
    std::mutex mutex_;
    Remembered table_;
};

}  // namespace tidegate::identity
