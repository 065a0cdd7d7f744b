// Finds out which user sends a request. Pure: the caller supplies time, and computes password
// hashes elsewhere, as they take long.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "http/field.hpp"
#include "identity/client_ip.hpp"
#include "identity/credentials.hpp"
#include "identity/digest.hpp"
#include "identity/key_source.hpp"
#include "identity/user_methods.hpp"
#include "tls/client_auth.hpp"

namespace tidegate::identity {

// A cache of checked credentials: the next request with one of them does not wait for a signature
// or a password hash. The cache holds keyed digests of credentials (digest.hpp), never the
// credentials: only this process can compute the digests.
//
// Each worker has a cache of its own, used by its thread alone; all share another. Time is an
// argument.
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
    // Takes the digest's key of `others`, so that both caches have the same key_of().
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

    // The caches of the threads take the key of this digest.
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

// Holds the result of checking a request's credentials. Reused from request to request: strings
// keep their room.
struct Authentication {
    enum class Result : std::uint8_t {
        anonymous,    // no method found anything
        user,         // the credential names `user`, and perhaps a `tier`
        unchecked,    // a credential that takes effort: see Authenticator::passwords()
        refused,      // a credential that is not valid: `fault`
        ambiguous,    // a field twice where there can be only one: which user is meant is unknown
        key_missing,  // a token whose key may be fetched yet: see `fetches`
        unavailable,  // it cannot be checked at the moment
    };

    Result result = Result::anonymous;
    CredentialFault fault = CredentialFault::none;
    std::uint32_t method = 0;  // the position of the one that found it; only unless anonymous
    std::string user;          // its namespace included
    std::string tier;          // as the credential has it; empty: none
    std::string claims;        // of its token, as pack_claims() returns them

    // Only of a credential that is unchecked:
    std::string_view credential;  // goes into the request's fields
    CredentialCache::Key key{};   // what it is remembered by

    // Only where a key is missing. Read before the keys were.
    KeyFetches fetches;
    std::chrono::seconds retry_after{1};  // when the caller gives up; reset() leaves both

    void reset();

    // For methods, which look for a credential:

    // Whether the credential is there and can be read; otherwise its fault is noted, if it has one.
    bool take(const Credential& read);
    // It is that of `of_user`, without namespace.
    void name(std::string_view of_user, std::string_view of_tier);
    void refuse(CredentialFault why);
    // It has to be checked, unless the authenticator remembers it.
    void present(std::string_view text);
};

// Tries the configured methods in their order, knows the credentials it has checked before, and
// checks those it has not seen. One a worker and configuration; one thread.
class Authenticator {
  public:
    using Time = std::chrono::system_clock::time_point;

    // `methods` outlives it. `shared`: of all threads that serve this configuration; null: what
    // other threads have checked is not known.
    explicit Authenticator(const std::vector<UserMethod>& methods,
                           std::shared_ptr<SharedCredentialCache> shared = nullptr,
                           const CredentialCache::Options& remembered = {});

    // The first method that finds a credential decides. Allocates nothing when nothing is found,
    // or a credential that is remembered, and the authentication has had room for it.
    // `certificate`: that the peer has proven; null: none. A gateway's is not its client's.
    void look(const Peer& peer, const ClientCertificate* certificate, const http::Fields& fields,
              Time now, Authentication& authentication);

    // Looks an unchecked credential up once more: another thread may have checked it since. If it
    // is known, it is no longer unchecked: it is valid, or refused for what its signature proved.
    bool recall(Authentication& authentication, Time now);
    // The passwords that an unchecked credential is compared with; null: check() does it.
    const std::shared_ptr<const Htpasswd>& passwords(const Authentication& authentication) const;
    // Checks it here and now: a signature takes up to some hundred microseconds. Afterwards it is
    // no longer unchecked. If its key is missing, the caller waits for keys and checks it again, or
    // refuses it; see MissingKey.
    void check(Authentication& authentication, Time now);
    // Whether an unchecked credential is a token whose key may be fetched yet; then it is no longer
    // unchecked, but its key is missing. Computes no signature.
    bool lacks_key(Authentication& authentication) const;
    // Where the keys of an unchecked token are, or of one whose key is missing; null: the method
    // has none that can change.
    const std::shared_ptr<KeySource>& key_source(const Authentication& authentication) const;
    // Refuses a token of which no key of that name exists.
    static void refuse_missing_key(Authentication& authentication);
    // Takes what Htpasswd::verify() said of `user`. Afterwards the authentication is no longer
    // unchecked.
    void conclude_password(Authentication& authentication, std::string_view user, bool is_right,
                           Time now);

    const std::vector<UserMethod>& methods() const { return *methods_; }

  private:
    const IdentityMethod& method_of(const Authentication& authentication) const;
    std::uint64_t version_of(const Authentication& authentication) const;
    void add_namespace(Authentication& authentication) const;
    void remember(const Authentication& authentication, Time expires, std::uint64_t version);

    const std::vector<UserMethod>* methods_;
    bool reads_authorization_;
    std::shared_ptr<SharedCredentialCache> shared_;  // null: none
    CredentialCache remembered_;
};

// Appends a WWW-Authenticate line for each method that has one (RFC 9110 section 11.6.1). The line
// of the method that refused the credential has the reason.
void append_challenges(const std::vector<UserMethod>& methods, const Authentication& authentication,
                       std::string& out);

}  // namespace tidegate::identity
