// What becomes of a request whose token names a key that is not there, while keys are fetched: the
// key may be new. Only a fetch that began after the request came, and that has not brought the key,
// proves that there is none. Pure: the caller supplies time.
#pragma once

#include <chrono>
#include <cstdint>

#include "identity/key_source.hpp"

namespace tidegate::identity {

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

}  // namespace tidegate::identity
