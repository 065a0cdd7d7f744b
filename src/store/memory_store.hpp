// Counts in this process: the store of a single proxy, and what stands in when Redis is away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/charge.hpp"

namespace tidegate::store {

using limit::Counts;
using limit::ItemCounts;
using limit::LimitCount;

struct State;

enum class OnFull : std::uint8_t { evict, deny };

// Shared by all threads: hashed shards, each with its own mutex; a charge over several
// identifiers locks its shards in order. Bounded by `max_keys`; what has expired goes first, then
// what docs/limits.md says: each policy has its share, and in it a flood pushes out its own names.
// Nothing holds a mutex for longer than some microseconds, however many names there are.
//
// A key with three windows takes about 340 bytes, its name and place in the table included; 48 of
// them are each window's, and as much is each gcra's and leaky_bucket's. More comes with what they
// hold: 8 bytes for a window's sub-bucket in use (at most min(sub-buckets, quota)), 16 for a moment
// of a sliding_log, 8 for one of a schedule, about 20 for a slot of concurrency in
// flight and 8 for one that is kept after its request.
class MemoryStore {
  public:
    struct Options {
        std::size_t max_keys = 1'000'000;
        OnFull on_full = OnFull::evict;
        // The share of each quota this process may admit: floor(quota / divisor). 1 for a store of
        // its own, the number of proxies for what stands in for Redis.
        std::int64_t divisor = 1;
        // For a store whose data this one does not know: limits of schedule then admit nothing.
        bool stands_in = false;
        // Not 0: what the hashes of names begin with, so that the same charges push out the same
        // names in each process. For names that no attacker tries out on this store.
        std::uint64_t secret = 0;
    };
    // full: a name is new and there is no room: on_full is deny, or max_keys is smaller than the
    // identifiers of this one charge. Nothing was taken.
    enum class Outcome : std::uint8_t { decided, full };

    explicit MemoryStore(const Options& options);
    ~MemoryStore();

    // Decides `charge` at `now` into `verdict`, whose vectors are reused: no allocation once the
    // identifiers are known. Any thread. A denial by limits that count the denied ones too has
    // taken their cost: then the verdict tells what is so after it, and retry_after holds for the
    // same request asked once more.
    Outcome charge(const limit::Charge& charge, const limit::Now& now, limit::Verdict& verdict);

    // How far load_ahead() has come with an item.
    struct Ahead {
        static constexpr int kSteps = 4;

        int step = 0;
        std::uint64_t hash = 0;
        const State* state = nullptr;
    };
    // Has the processor load what a charge of the item will look at, each step a pointer further: a
    // caller that has other work between the steps does not wait for memory in the charge. Changes
    // nothing. Only for a store of one thread, which charges nothing between the first step and the
    // last. Requires step < kSteps.
    void load_ahead(const limit::ChargeItem& item, Ahead& ahead) const;

    // Takes the cost of each item, whatever its quota. What holds a slot takes nothing: it has one
    // already. Any thread.
    Outcome take(const limit::Charge& charge, const limit::Now& now);

    // Decides as charge() does, and takes nothing, whatever the answer.
    void look(const limit::Charge& charge, const limit::Now& now, limit::Verdict& verdict);

    // Gives back what `refund` is about, as far as it is known where that went: not if the state
    // is another one by now, and as each algorithm allows. Send it once. Any thread.
    void give_back(const limit::Refund& refund, const limit::Now& now);

    // Gives up the slots that charge.slot_hold holds in limits of concurrency, if it holds any: at
    // once, or at `until`. Before that slots do not expire here: they end with the process that
    // holds them. Any thread.
    void release(const limit::Charge& charge, limit::Micros until = limit::Micros{0});

    // Tells how the items' limits stand, taking nothing. Policies may repeat, with other tiers. Any
    // thread.
    Counts count(std::span<const limit::ChargeItem> items, const limit::Now& now) const;
    // What is counted of the item, for a copy: records one after the other, as Record::save()
    // writes them (memory_store_shard.hpp). Any thread.
    std::string counts_of(const limit::ChargeItem& item) const;
    // Forgets, all at once, what is counted of these items, other tiers and limits included; slots
    // of concurrency stay. Says of each whether there was something. Items of one policy and
    // identifier stand side by side. Any thread.
    std::vector<bool> forget(std::span<const limit::ChargeItem> items);

    // Hands out what is counted, in pieces, for load() of another process's store; requests in
    // flight hold their slots here only. What changes meanwhile may be in it or not. Any thread.
    void save(const std::function<void(std::string_view)>& put) const;
    // Counts on from what save() of another store wrote, as far as there is room and it has not
    // expired at `now`. Returns how many identifiers that is; nothing where the bytes are not
    // save()'s, of which those before the fault are counted. Any thread.
    std::optional<std::size_t> load(std::string_view bytes, const limit::Now& now);

    // Counts stay: if there are more than fit now, their number shrinks as new names come. Any
    // thread.
    void set_bounds(std::size_t max_keys, OnFull on_full);
    // The policies of the configuration, by name: from now on only these have a share of the room.
    // Before the first call all have. Any thread.
    void set_policies(std::span<const std::string_view> names);
    void set_divisor(std::int64_t divisor);
    std::size_t keys() const;
    std::uint64_t evictions() const;

  private:
    struct Impl;
    class Call;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tidegate::store
