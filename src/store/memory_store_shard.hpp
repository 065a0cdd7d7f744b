// A part of the in-process store: a bounded table of states under one mutex.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "limit/limit.hpp"
#include "store/memory_store_record.hpp"

namespace tidegate::store {

// All that is counted for one identifier under one policy.
struct State {
    std::string name;              // policy, a zero byte, identifier
    std::int64_t expires_us = 0;   // no record holds anything from then on, but slots
    std::uint64_t generation = 0;  // another each time a state of this name is made; never 0
    std::vector<Record> records;   // by limit id, in any order
    bool pinned = false;           // part of the charge being decided: must not go

    // The record that counts `limit`, looked for at `hint` first; records.size() if there is none.
    std::size_t find(const limit::Limit& limit, std::size_t hint) const;
    // Whether it may be forgotten though it has not expired. Slots are requests in flight: if they
    // were forgotten, others would take their places.
    bool may_go() const;
    bool has_expired(std::int64_t now_us) const { return expires_us <= now_us && may_go(); }
    // The share of a quota that is used up, of the limit nearest to its end: 0 is nothing.
    double fullness(std::int64_t now_us) const;
};

// Names a state: hash of policy and identifier under the store's secret, and the two.
struct StateName {
    std::uint64_t hash;
    std::string_view policy;
    std::string_view identifier;
};

// Not thread-safe but for mutex(), size() and evictions(): the caller holds the mutex.
class alignas(64) Shard {
  public:
    // Holds at most `capacity` states. Call before anything else.
    void configure(std::size_t capacity, std::uint64_t seed);

    // Above it already: each new name makes the table smaller by one, if states may be evicted.
    void set_capacity(std::size_t capacity) { capacity_ = capacity; }

    std::mutex& mutex() { return mutex_; }
    State* find(const StateName& name);
    // A new empty state, pinned. At capacity what has expired goes first, then, if `evict`, the
    // emptiest of some looked at. Null if there is no room. `name` must be new.
    State* insert(const StateName& name, std::int64_t now_us, bool evict);
    void erase(const StateName& name);
    // Forgets what a state counts, but for slots; whether there was something. What is given back
    // to it later is no longer its own.
    bool forget(const StateName& name);

    std::size_t size() const { return size_.load(std::memory_order_relaxed); }
    std::uint64_t evictions() const { return evictions_.load(std::memory_order_relaxed); }

  private:
    struct Slot {
        std::uint64_t hash = 0;
        std::unique_ptr<State> state;
    };

    std::size_t home(std::uint64_t hash) const { return (hash >> 8) & (slots_.size() - 1); }
    std::size_t position_of(const StateName& name) const;
    void widen(std::int64_t now_us);
    void place(Slot slot);
    void erase_at(std::size_t position);
    void sweep(std::size_t steps, std::int64_t now_us);
    bool evict_emptiest(std::int64_t now_us);
    std::uint64_t random();

    std::mutex mutex_;
    std::vector<Slot> slots_;  // linear probing; a power of two, at most 3/4 full
    std::size_t capacity_ = 0;
    std::size_t hand_ = 0;  // where the sweep for expired states goes on
    std::uint64_t random_ = 1;
    std::uint64_t made_ = 0;            // states, in all
    std::atomic<std::size_t> size_{0};  // written under the mutex, read by anyone
    std::atomic<std::uint64_t> evictions_{0};
};

}  // namespace tidegate::store
