// Where a token's keys are found: a set that is fixed, or one that is fetched and replaced while
// requests run. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "identity/jwk_set.hpp"

namespace tidegate::identity {

class KeySource {
  public:
    // Keys of a file.
    explicit KeySource(std::shared_ptr<const JwkSet> keys)
        : keys_(std::move(keys)), version_(next_version()) {}
    // Keys that somebody fetches from there; none until put().
    explicit KeySource(std::string url) : url_(std::move(url)) {}

    // Empty: the keys are fixed.
    const std::string& url() const { return url_; }

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

    // A token names a key that is not there. True when somebody will look at once whether there is
    // one by now, or does already; false when they were looked for not long ago, so they will be
    // only when that has been long enough.
    bool want_other_keys() {
        if (url_.empty()) return false;
        wanted_.store(true, std::memory_order_release);
        return may_ask_.load(std::memory_order_acquire);
    }
    // For the fetcher: whether a fetch was wanted since it last asked, and whether one may be.
    bool take_wanted() { return wanted_.exchange(false, std::memory_order_acq_rel); }
    void allow_wanting(bool allowed) { may_ask_.store(allowed, std::memory_order_release); }

  private:
    // Of the process: 1, 2, and so on.
    static std::uint64_t next_version();

    const std::string url_;
    mutable std::mutex mutex_;
    std::shared_ptr<const JwkSet> keys_;
    std::atomic<std::uint64_t> version_{0};
    std::atomic<bool> wanted_{false};
    std::atomic<bool> may_ask_{true};
};

}  // namespace tidegate::identity
