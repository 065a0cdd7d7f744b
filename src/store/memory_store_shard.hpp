// The in-process store from the inside: what it counts of a limit, of an identifier under one
// policy, and a part of it, a bounded table of such states under one mutex.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <boost/mp11/algorithm.hpp>

#include "limit/kinds.hpp"
#include "limit/limit.hpp"

namespace tidegate::store {

// Has the processor load these bytes; the program goes on meanwhile.
inline void load_bytes(const void* bytes, std::size_t count) {
    constexpr std::size_t kLine = 64;
    const char* const begin = static_cast<const char*>(bytes);
    for (std::size_t at = 0; at < count; at += kLine) __builtin_prefetch(begin + at);
}

// How a limit stands for a request, before anything is taken.
using AnyStanding = limit::OneOfKinds<limit::StandingOf>;

// Keeps the counts of one limit for one identifier, as an object of the limit's class. Small ones
// are kept here; the others apart, so that they do not make every record as large as theirs.
class Record {
  public:
    // Counts nothing yet.
    explicit Record(const limit::Limit& limit) { reset(limit); }
    Record(std::uint32_t id, limit::StateKind kind) { reset(id, kind); }
    void reset(const limit::Limit& limit) { reset(limit.id, limit.state()); }

    void save(limit::CountsWriter& out) const;
    // Reads what save() wrote; nothing: save() did not write it.
    static std::optional<Record> load(limit::CountsReader& in);

    // Ids are hashes: two limits that differ in kind might share one.
    bool counts(const limit::Limit& limit) const {
        return id_ == limit.id && kept_.index() == static_cast<std::size_t>(limit.state());
    }
    std::uint32_t id() const { return id_; }
    std::int64_t ends_us(const limit::Now& now) const;
    // By requests in flight.
    bool is_held() const;
    // Requests may hold it: it stays when counts are reset.
    bool stays() const;
    // Returns the weight that the record had when units last came or went; 0 once it holds none.
    // Units that leave one after the other weigh until the last has left.
    double weight(const limit::Now& now) const {
        return ends_us(now) > now.steady.count() ? weight_ : 0;
    }
    // Takes the cost. `standing` is how it stood.
    void take(const limit::Limit& limit, const limit::Asked& asked, const AnyStanding& standing);
    void give_back(const limit::Limit& limit, const limit::Asked& asked, limit::Micros at);
    // Begins to load what the object has elsewhere in memory.
    void load_ahead() const;
    // The request has ended: what it holds is given up at `until`.
    void release(const limit::Limit& limit, const limit::Asked& asked, limit::Micros until);

    // Calls `use` with the object.
    template <class Use>
    decltype(auto) with(Use use) const {
        return with_kept(*this, use);
    }
    template <class Use>
    decltype(auto) with(Use use) {
        return with_kept(*this, use);
    }

  private:
    static constexpr std::size_t kSmall = 32;  // bytes

    template <class Kind>
    using Kept = std::conditional_t<sizeof(Kind) <= kSmall, Kind, std::unique_ptr<Kind>>;
    using AnyKept =
        boost::mp11::mp_rename<boost::mp11::mp_transform<Kept, limit::Kinds>, std::variant>;

    template <class Kind>
    static Kind& object(Kind& kept) {
        return kept;
    }
    template <class Kind>
    static Kind& object(std::unique_ptr<Kind>& kept) {
        return *kept;
    }
    template <class Kind>
    static const Kind& object(const std::unique_ptr<Kind>& kept) {
        return *kept;
    }

    // Comparisons, for std::visit would go through a table of pointers, several times a charge.
    template <std::size_t First = 0, class Self, class Use>
    static decltype(auto) with_kept(Self& self, Use& use) {
        if constexpr (First + 1 < limit::kKinds) {
            if (self.kept_.index() != First) return with_kept<First + 1>(self, use);
        }
        return use(object(*std::get_if<First>(&self.kept_)));
    }

    void reset(std::uint32_t id, limit::StateKind kind);

    AnyKept kept_;  // in the order of limit::StateKind
    std::uint32_t id_ = 0;
    float weight_ = 0;
};
static_assert(sizeof(Record) == 48);

inline std::int64_t Record::ends_us(const limit::Now& now) const {
    return with([&](const auto& kind) { return kind.ends_us(now); });
}

inline void Record::load_ahead() const {
    with([](const auto& kind) {
        if constexpr (requires { kind.load_ahead(); }) kind.load_ahead();
    });
}

inline bool Record::is_held() const {
    return with([](const auto& kind) { return kind.is_held(); });
}

inline bool Record::stays() const {
    return with([](const auto& kind) { return kind.kStays; });
}

inline void Record::take(const limit::Limit& limit, const limit::Asked& asked,
                         const AnyStanding& standing) {
    weight_ = static_cast<float>(with([&]<class Kind>(Kind& kind) {
        kind.take(limit, asked, *std::get_if<typename Kind::Standing>(&standing));
        return kind.weight(limit, asked);
    }));
}

// Holds what is counted for one identifier under one policy. Not thread-safe: the caller holds the
// mutex of the shard.
struct State {
    std::string name;        // policy, a zero byte, identifier
    std::uint64_t hash = 0;  // of the name
    // No record holds anything from then on, but slots; as the clocks differed when units were
    // taken.
    std::int64_t expires_us = 0;
    std::uint64_t generation = 0;  // another each time a state of this name is made; never 0
    std::vector<Record> records;   // by limit id, in any order

    std::unique_ptr<State> next;  // in its bucket of the table
    State* older = nullptr;       // by age, among the names of its policy in this shard
    State* newer = nullptr;
    std::uint32_t policy = 0;  // whose name it is: a position among the policies of the shard
    bool settled = false;      // of the oldest three quarters of the names of its policy
    bool pinned = false;       // part of the charge being decided: must not go

    // The record that counts `limit`, looked for at `hint` first; records.size() if there is none.
    std::size_t find(const limit::Limit& limit, std::size_t hint) const;
    // Whether it may be forgotten though it has not expired. A slot is a request that an upstream
    // may still be at work on: if it were forgotten, another request would take its place.
    bool may_go() const;
    // A wall clock that was set back makes periods and moments last longer than expires_us says.
    bool has_expired(const limit::Now& now) const;
    // How much is lost if it is forgotten: the heaviest of its records.
    double weight(const limit::Now& now) const;
};

// Names a state: hash of policy and identifier under the store's secret, that of the policy alone,
// and the two.
struct StateName {
    std::uint64_t hash;
    std::uint64_t policy_hash;
    std::string_view policy;
    std::string_view identifier;
    bool shadow = false;  // the policy is in shadow, for all identifiers
};

bool is_called(const State& state, const StateName& name);

// The names of one policy in a shard, by age, and which of them goes when there is no room.

// The newest quarter of the names passes through; the older ones have settled. The choice is among
// some that have settled and those about to settle: the lightest of them, of equal ones the newest.
// So
// * a name stays until an eighth of the policy's names is newer than it, whatever they hold;
// * one that has settled goes only if it is lighter than those about to settle: a flood of names
// that
//   hold no more than it does pushes out itself.
//
// Not thread-safe: the caller holds the mutex of the shard, and owns the states.
class PolicyNames {
  public:
    struct Choice {
        State* state = nullptr;  // null: none may go
        // Against names of other policies. 0 for a policy in shadow or without a share: its counts
        // decide nothing.
        double weight = 0;
    };

    explicit PolicyNames(std::uint64_t policy) : policy_(policy) {}

    std::uint64_t policy() const { return policy_; }
    std::size_t size() const { return size_; }
    bool has_share() const { return has_share_; }
    bool decides() const { return has_share_ && !shadow_; }
    void set_share(bool has_share) { has_share_ = has_share; }
    void set_shadow(bool shadow) { shadow_ = shadow; }

    // Adds a state as the newest.
    void add(State& state);
    void remove(State& state);
    // Looks at a bounded number of states, at others each time. Where those it looks at first may
    // not go, it looks on, from where the last such look ended: in the end past any number of them.
    Choice choose(const limit::Now& now);

  private:
    State* look_from(State* from, const State* end, std::size_t most, std::size_t& steps,
                     const limit::Now& now, Choice& choice);
    void look_on(const limit::Now& now, Choice& choice);
    void move_mark();

    std::uint64_t policy_;  // hash of its name
    State* oldest_ = nullptr;
    State* newest_ = nullptr;
    State* mark_ = nullptr;  // the oldest that has not settled; null if there are none
    State* hand_ =
        nullptr;  // where looking at those that have settled goes on; null: at the oldest
    State* further_ = nullptr;  // where looking on goes on, past names of all ages; null: likewise
    std::size_t size_ = 0;
    std::size_t fresh_ = 0;  // how many have not settled
    bool has_share_ = true;  // the configuration has the policy
    bool shadow_ = false;
};

// The states of a shard by name: a hash table that grows by a bucket or two with each name, so that
// no name waits while all the others move. (Linear hashing: bucket `n` takes its states from bucket
// `n - bit_floor(n)`.)

// Owns the states. Not thread-safe: the caller holds the mutex of the shard.
class StateTable {
  public:
    StateTable();

    // Null if there is no state of that name.
    State* find(const StateName& name) const;
    // For callers that have many names to look for: begins to load the bucket of the hash, then the
    // first state in it; finds a state by its hash alone.
    void load_bucket(std::uint64_t hash) const { load_bytes(&bucket_at(bucket_of(hash)), 1); }
    void load_state(std::uint64_t hash) const {
        if (const State* const state = first(bucket_of(hash))) load_bytes(state, sizeof(State));
    }
    const State* find_by_hash(std::uint64_t hash) const {
        const State* state = first(bucket_of(hash));
        while (state != nullptr && state->hash != hash) state = state->next.get();
        return state;
    }
    State* find_made(std::uint64_t hash, std::uint64_t generation) const {
        State* state = first(bucket_of(hash));
        while (state != nullptr && (state->hash != hash || state->generation != generation)) {
            state = state->next.get();
        }
        return state;
    }
    // Requires that there is no state of that name.
    void insert(std::unique_ptr<State> state);
    void erase(const State& state);

    // Whether the next insert() adds buckets: one state for two buckets at most, so that few names
    // are looked for behind another.
    bool grows_next() const { return (states_ + 1) * 2 > buckets_; }
    std::size_t buckets() const { return buckets_; }
    // The first state of a bucket; State::next leads to the others. Requires bucket < buckets().
    State* first(std::size_t bucket) const { return bucket_at(bucket).get(); }

  private:
    using Bucket = std::unique_ptr<State>;
    static constexpr std::size_t kSegment = 128;  // buckets that are allocated together

    Bucket& bucket_at(std::size_t bucket) const {
        return (*segments_[bucket / kSegment])[bucket % kSegment];
    }
    // The low bits of a hash choose the shard.
    std::size_t bucket_of(std::uint64_t hash) const {
        const std::size_t low = std::bit_floor(buckets_);
        const std::size_t bucket = (hash >> 8) & (2 * low - 1);
        return bucket < buckets_ ? bucket : bucket & (low - 1);
    }
    void add_bucket();

    std::vector<std::unique_ptr<std::array<Bucket, kSegment>>> segments_;
    std::size_t buckets_ = 0;
    std::size_t states_ = 0;
};

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
    // The state of that hash and generation; null if it is gone. No other state of the shard has
    // that generation, so this need not look at names.
    State* find_made(std::uint64_t hash, std::uint64_t generation) {
        return table_.find_made(hash, generation);
    }
    void load_bucket(std::uint64_t hash) const { table_.load_bucket(hash); }
    void load_state(std::uint64_t hash) const { table_.load_state(hash); }
    const State* find_by_hash(std::uint64_t hash) const { return table_.find_by_hash(hash); }
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

inline constexpr std::size_t kShardsMax = 64;  // a set of shards is the bits of one word
using Shards = std::array<Shard, kShardsMax>;

// Holds the mutexes of a set of shards. Always taken in their order, so no two charges can wait for
// each other.
class ShardLocks {
  public:
    ShardLocks(Shards& shards, std::uint64_t set) : shards_(shards), set_(set) {
        for (std::uint64_t left = set_; left != 0; left &= left - 1) {
            shards_[static_cast<std::size_t>(std::countr_zero(left))].mutex().lock();
        }
    }
    ~ShardLocks() {
        for (; set_ != 0; set_ &= set_ - 1) {
            shards_[static_cast<std::size_t>(std::countr_zero(set_))].mutex().unlock();
        }
    }
    ShardLocks(const ShardLocks&) = delete;
    ShardLocks& operator=(const ShardLocks&) = delete;

  private:
    Shards& shards_;
    std::uint64_t set_;
};

}  // namespace tidegate::store
