// Where a token's keys are found: a set that is fixed, or one that is fetched and replaced while
// requests run. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/result.hpp"
#include "identity/jwk.hpp"

namespace tidegate::identity {

// Where keys are fetched from.
struct KeyLocation {
    std::string url;           // of the key set; or the issuer, whose metadata name that URL
    bool is_issuer = false;    // which of the two
    std::string ca = {};       // PEM: the authorities that are believed; empty: those of the system
    bool is_insecure = false;  // may be an http:// URL of another machine

    auto operator<=>(const KeyLocation&) const = default;
};

// The fetches of one location, which follow each other. Numbers begin with 1.
struct KeyFetches {
    std::uint64_t begun = 0;      // the number of the last that has begun
    std::uint64_t ended = 0;      // of the last that has ended
    std::uint64_t succeeded = 0;  // of the last that has brought keys
    // When the next one may begin, if a request wants it. Meant only while none is under way.
    std::chrono::steady_clock::time_point next{};

    bool is_under_way() const { return begun != ended; }
};

class KeySource {
  public:
    // At most so many requests wait for a fetch, in all and of one client. A request beyond the
    // bound does not wait.
    static constexpr std::size_t kWaitersMax = 1'024;
    static constexpr std::size_t kWaitersPerClientMax = 256;

    // Keys that only a reload changes. `place`: where they come from, for people: `public_key
    // rsa.pem`.
    explicit KeySource(std::shared_ptr<const JwkSet> keys, std::string place = {})
        : place_(std::move(place)), keys_(std::move(keys)), version_(next_version()) {}
    // Keys that the fetcher fetches from there; none until put().
    explicit KeySource(KeyLocation location) : location_(std::move(location)) {}
    explicit KeySource(std::string url) : KeySource(KeyLocation{std::move(url)}) {}

    // Empty: the keys are fixed.
    const std::string& url() const { return location_.url; }
    const KeyLocation& location() const { return location_; }
    bool is_fetched() const { return !location_.url.empty(); }
    const std::string& place() const { return place_; }

    // Grows with every put() of other keys than before, so that what was learnt with the old ones
    // is known to be stale. 0: there are none yet. Else no two sources have the same, unless one
    // adopted the other's keys. Ask for it before keys(): they may be newer than it, never older.
    // Costs a load.
    std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
    // Null until there are any.
    std::shared_ptr<const JwkSet> keys() const {
        const std::lock_guard lock(mutex_);
        return keys_;
    }
    // Replaces the keys. Nothing changes if they are the same.
    void put(std::shared_ptr<const JwkSet> keys);
    // Takes the keys of another source of the same place with their version, so that what was
    // learnt with them stays known.
    void adopt(const KeySource& other);

    // Ask for them before keys(): the keys may be newer, never older.
    KeyFetches fetches() const {
        const std::lock_guard lock(mutex_);
        return fetches_;
    }
    // A token names a key that is not there: the fetcher fetches as soon as it may. Once it has
    // been called, further calls cost a lock.
    void want();

    enum class WaitRefusal : std::uint8_t {
        fetch_has_ended,   // since `seen`
        too_many_waiters,  // in all, or of this client
    };
    struct Waiting {
        std::uint64_t number = 0;  // 0: refused
        WaitRefusal refusal{};
    };
    // Lets a request wait for the end of a fetch. `wake` is called once, with a lock of this source
    // held: it may post to an event loop, and must not call this source. The caller calls leave()
    // with the number before that event loop ends, woken or not.
    Waiting wait(const KeyFetches& seen, std::uint64_t client, std::function<void()> wake);
    void leave(std::uint64_t number);
    // How many requests wait.
    std::size_t waiters() const;

    // For the fetcher. `hook` is called by want(), with a lock of this source held, when a fetch is
    // wanted first; empty: there is no fetcher any more.
    void on_wanted(std::function<void()> hook);
    // Whether a fetch was wanted since the last call.
    bool take_wanted();
    // Wakes the requests that wait if a fetch has ended. After put() or adopt(): keys come first.
    void publish(const KeyFetches& fetches);

  private:
    struct Waiter {
        std::uint64_t client;
        std::function<void()> wake;
    };

    // Counts in the process: 1, 2, and so on.
    static std::uint64_t next_version();

    const KeyLocation location_;
    const std::string place_;
    mutable std::mutex mutex_;  // of all below but the version
    std::shared_ptr<const JwkSet> keys_;
    KeyFetches fetches_;
    bool wanted_ = false;
    std::function<void()> hook_;
    std::uint64_t last_waiter_ = 0;
    std::map<std::uint64_t, Waiter> waiters_;                   // by number
    std::unordered_map<std::uint64_t, std::size_t> by_client_;  // how many of them
    std::atomic<std::uint64_t> version_{0};
};

// Decides about a request whose token names a key that is not there, while keys are fetched: the
// key may be new. Only a fetch that began after the request came, and that has not brought the key,
// proves that there is none. Pure: the caller supplies time.
class MissingKey {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // How long a request waits for keys, in all.
    static constexpr std::chrono::seconds kPatience{1};

    enum class Step : std::uint8_t {
        refuse,       // there is no such key (401)
        wait,         // until a fetch has ended, at most until(); then check the token again
        unavailable,  // the fetch failed, is not allowed yet, or takes too long (503)
    };

    // The request comes at `now`. `fetches`: from before the keys were read.
    MissingKey(const KeyFetches& fetches, Time now)
        : proof_(fetches.begun + 1), until_(now + kPatience) {}

    // The key is not among the keys, which were read after `fetches`.
    Step next(const KeyFetches& fetches, Time now) const;

    Time until() const { return until_; }

  private:
    std::uint64_t proof_;  // the number of the first fetch that proves something
    Time until_;
};

// For Retry-After: whole seconds, rounded up, at least 1, until a fetch may begin.
std::chrono::seconds retry_after(const KeyFetches& fetches, MissingKey::Time now);

// Reads the metadata of an issuer of tokens (`jwt.discovery`). Pure.
//
// OpenID Connect Discovery 1.0 section 4, not RFC 8414: the document of OpenID Connect is at the
// issuer's URL with `/.well-known/openid-configuration` after it; that of RFC 8414 has
// `/.well-known/oauth-authorization-server` between host and path. The providers that publish the
// second one publish the first one, too, and many publish the first one alone.

// Where the metadata of `issuer`, a URL without query and fragment, are. One slash at the end of
// the issuer goes (section 4.1).
std::string metadata_url(std::string_view issuer);

// The member `jwks_uri` of the metadata `json`, not checked yet. Or why there is none, as a clause:
// no strict JSON object, an `issuer` that is not exactly `issuer` (section 4.3), no `jwks_uri`.
Result<std::string, std::string> key_set_url(std::string_view json, std::string_view issuer);

}  // namespace tidegate::identity
