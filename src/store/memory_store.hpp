// Counts in this process: the store of a single proxy, and what stands in when Redis is away.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "limit/charge.hpp"

namespace tidegate::store {

enum class OnFull : std::uint8_t { evict, deny };

// Shared by all threads: hashed shards, each with its own mutex; a charge over several
// identifiers locks its shards in order. Bounded by `max_keys`; what has expired goes first, then,
// of some looked at, the state with the fewest units for its quotas.
//
// A key takes about 300 bytes with three windows (48 a window) and its name, and 8 more for each
// sub-bucket in use: at most min(sub-buckets, quota) a window.
class MemoryStore {
  public:
    struct Options {
        std::size_t max_keys = 1'000'000;
        OnFull on_full = OnFull::evict;
        // The share of each quota this process may admit: floor(quota / divisor). 1 for a store of
        // its own, the number of proxies for what stands in for Redis.
        std::int64_t divisor = 1;
    };
    // full: a name is new and there is no room: on_full is deny, or max_keys is smaller than the
    // identifiers of this one charge. Nothing was taken.
    enum class Outcome : std::uint8_t { decided, full };

    explicit MemoryStore(const Options& options);
    ~MemoryStore();

    // Decides `charge` at `now` (microseconds since the epoch) into `verdict`, whose vector is
    // reused: no allocation once the identifiers are known. Any thread.
    Outcome charge(const limit::Charge& charge, limit::Micros now, limit::Verdict& verdict);

    void set_divisor(std::int64_t divisor);
    std::size_t keys() const;
    std::uint64_t evictions() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Wall clock at start, advanced by the monotonic clock: never steps. Any thread.
limit::Micros process_now();

}  // namespace tidegate::store
