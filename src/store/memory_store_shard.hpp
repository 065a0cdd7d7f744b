// A part of the in-process store: a bounded table of states under one mutex.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "store/memory_store_names.hpp"
#include "store/memory_store_state.hpp"
#include "store/memory_store_table.hpp"

namespace tidegate::store {

// Not thread-safe but for mutex(), size() and evictions(): the caller holds the mutex. Whatever is
// called takes some microseconds at most, however many states there are; insert() takes longer
// where it looks past hundreds of names that hold slots, a bounded number of each policy.
class alignas(64) Shard {
  public:
    using PolicyHashes = std::shared_ptr<const std::vector<std::uint64_t>>;  // sorted

    // Above it already: each new name makes the table smaller by one, if states may be evicted.
    void set_capacity(std::size_t capacity) { capacity_ = capacity; }
    // Only these policies have a share of the table. Until this is called, all have.
    void set_policies(PolicyHashes policies);

    std::mutex& mutex() { return mutex_; }
    State* find(const StateName& name) { return table_.find(name); }
    // A new empty state, pinned. At capacity what has expired goes first, then, if `evict`, a state
    // that evict_for() chooses. Null if there is no room. `name` must be new.
    State* insert(const StateName& name, const limit::Now& now, bool evict);
    void erase(State& state);
    // Forgets what a state counts, but for slots; whether there was something. What is given back
    // to it later is no longer its own.
    bool forget(const StateName& name);

    // Calls `see(const State&)` for the states of `count` buckets from `first` on. False: there are
    // no more buckets behind them. As buckets are added, a state moves to one behind all that were
    // there: a walk from 0 on sees each state that stays, some of them twice.
    template <class See>
    bool visit(std::size_t first, std::size_t count, See see) const {
        const std::size_t end = std::min(first + count, table_.buckets());
        for (std::size_t bucket = first; bucket < end; ++bucket) {
            for (const State* state = table_.first(bucket); state != nullptr;
                 state = state->next.get()) {
                see(*state);
            }
        }
        return end < table_.buckets();
    }

    std::size_t size() const { return size_.load(std::memory_order_relaxed); }
    std::uint64_t evictions() const { return evictions_.load(std::memory_order_relaxed); }

  private:
    std::uint32_t policy_of(const StateName& name);
    void sweep(std::size_t steps, const limit::Now& now);
    bool evict_for(std::uint32_t own, const limit::Now& now);
    std::size_t share_beside(std::uint32_t own) const;
    PolicyNames::Choice ask_others(std::uint32_t own, std::size_t above, std::size_t up_to,
                                   const limit::Now& now);

    std::mutex mutex_;
    StateTable table_;
    std::vector<PolicyNames> policies_;  // by State::policy; those without names are used again
    PolicyHashes configured_;
    std::size_t capacity_ = 0;
    std::size_t hand_ = 0;              // the bucket where the sweep for expired states goes on
    std::uint64_t made_ = 0;            // states, in all
    std::atomic<std::size_t> size_{0};  // written under the mutex, read by any thread
    std::atomic<std::uint64_t> evictions_{0};
};

}  // namespace tidegate::store
