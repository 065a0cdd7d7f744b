#include "store/memory_store.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "limit/window.hpp"
#include "store/memory_store_shard.hpp"

namespace tidegate::store {
namespace {

using limit::Limit;
using limit::Micros;

constexpr std::size_t kShardsMax = 64;  // a set of shards is the bits of one word
constexpr std::size_t kKeysAShardMin = 64;

// Folds a 128-bit product: every bit of the result hangs on every bit of both.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Clients choose identifiers, so the hash has a secret: they must not be able to pile them up.
std::uint64_t hash_text(std::string_view text, std::uint64_t hash, std::uint64_t secret) {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
    hash ^= text.size() * kOdd;
    while (!text.empty()) {
        std::uint64_t word = 0;
        const std::size_t length = std::min(text.size(), sizeof(word));
        std::memcpy(&word, text.data(), length);
        hash = mix(hash ^ word, secret);
        text.remove_prefix(length);
    }
    return mix(hash ^ secret, kOdd);
}

// An item of the charge and what the store knows of it.
struct Found {
    StateName name;
    std::size_t shard = 0;
    State* state = nullptr;  // null: nothing is counted yet
    bool made = false;       // by this charge
};

// A limit of an item: its record in the state and how it stands.
struct Step {
    std::size_t record = 0;  // records.size(), or 0 without a state: none yet
    limit::Standing standing;
};

// One a thread, so that a charge allocates nothing once it has been as large before.
struct Scratch {
    std::int64_t divisor = 1;  // read once: it may change while the charge is decided
    std::vector<Found> found;
    std::vector<Step> steps;

    std::int64_t share(const Limit& limit) const { return limit.quota / divisor; }
};

Scratch& scratch() {
    thread_local Scratch instance;
    return instance;
}

// Reuses a record that has expired and is none of the policy's, so that reloads leave nothing
// behind. Positions of other records stay.
std::size_t add_record(State& state, const limit::Policy& policy, std::uint32_t id, Micros now) {
    const auto stale =
        std::find_if(state.records.begin(), state.records.end(), [&](const Record& record) {
            return record.window.ends_us <= now.count() &&
                   std::none_of(policy.limits.begin(), policy.limits.end(),
                                [&](const Limit& limit) { return limit.id == record.window.id; });
        });
    const auto position = static_cast<std::size_t>(stale - state.records.begin());
    if (stale == state.records.end()) {
        if (state.records.empty()) state.records.reserve(policy.limits.size());
        state.records.emplace_back();
    } else {
        state.records[position].window = limit::Window{};
    }
    state.records[position].window.id = id;
    return position;
}

}  // namespace

struct MemoryStore::Impl {
    explicit Impl(const Options& options);

    void locate(const limit::Charge& charge, std::vector<Found>& found) const;
    bool weigh(const limit::Charge& charge, Micros now, Scratch& work, limit::Verdict& verdict);
    bool make_states(Micros now, std::vector<Found>& found);
    void make_room(const limit::Charge& charge, Micros now, Scratch& work) const;
    void take(const limit::Charge& charge, Scratch& work) const;

    std::array<Shard, kShardsMax> shards;
    std::size_t shard_count;
    std::array<std::uint64_t, 2> secret{};
    bool evict;
    std::atomic<std::int64_t> divisor;
};

namespace {

// Holds the mutexes of a set of shards. Always taken in their order, so no two charges can wait for
// each other; a shard with several identifiers of the charge is taken once.
class ShardLocks {
  public:
    ShardLocks(std::array<Shard, kShardsMax>& shards, const std::vector<Found>& found)
        : shards_(shards) {
        for (const Found& one : found) set_ |= std::uint64_t{1} << one.shard;
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
    std::array<Shard, kShardsMax>& shards_;
    std::uint64_t set_ = 0;
};

}  // namespace

MemoryStore::Impl::Impl(const Options& options)
    : shard_count(std::clamp<std::size_t>(std::bit_floor(options.max_keys / kKeysAShardMin), 1,
                                          kShardsMax)),
      evict(options.on_full == OnFull::evict),
      divisor(options.divisor) {
    assert(options.divisor >= 1);
    std::random_device device;
    for (std::uint64_t& word : secret) word = (std::uint64_t{device()} << 32 | device()) | 1;
    for (std::size_t i = 0; i < shard_count; ++i) {
        shards[i].configure(options.max_keys / shard_count, mix(secret[0] + i, secret[1]));
    }
}

void MemoryStore::Impl::locate(const limit::Charge& charge, std::vector<Found>& found) const {
    found.clear();
    for (const limit::ChargeItem& item : charge.items) {
        const std::uint64_t of_policy = hash_text(item.policy->name, secret[0], secret[1]);
        const std::uint64_t hash = hash_text(item.identifier, of_policy, secret[1]);
        found.push_back({.name = {hash, item.policy->name, item.identifier},
                         .shard = hash & (shard_count - 1),
                         .state = nullptr,
                         .made = false});
    }
}

// Looks at every limit of every item, changing nothing. True if all admit.
bool MemoryStore::Impl::weigh(const limit::Charge& charge, Micros now, Scratch& work,
                              limit::Verdict& verdict) {
    verdict.retry_after = Micros{0};
    verdict.limits.clear();
    work.steps.clear();
    static const State kNothing;
    static const Record kEmpty;
    bool admitted = true;
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        const limit::Policy& policy = *charge.items[i].policy;
        Found& found = work.found[i];
        found.state = shards[found.shard].find(found.name);
        const State& state = found.state != nullptr ? *found.state : kNothing;
        for (std::size_t j = 0; j < policy.limits.size(); ++j) {
            const Limit& limit = policy.limits[j];
            Step& step = work.steps.emplace_back();
            step.record = state.find(limit.id, j);
            const Record& record =
                step.record < state.records.size() ? state.records[step.record] : kEmpty;
            step.standing = standing_at(record.window, record.ring(), limit, now);

            const std::int64_t share = work.share(limit);
            limit::LimitVerdict& told =
                verdict.limits.emplace_back(limit::told(limit, step.standing, now, share, 0));
            const std::int64_t free = share - step.standing.units;
            if (charge.cost <= free) continue;
            admitted = false;
            told.denied = true;
            if (charge.cost > share) {
                verdict.retry_after = limit::kNever;
            } else if (verdict.retry_after != limit::kNever) {
                const Micros frees = frees_at(record.window, record.ring(), limit, step.standing,
                                              charge.cost - free);
                verdict.retry_after = std::max(verdict.retry_after, frees - now);
            }
        }
    }
    verdict.admitted = admitted;
    return admitted;
}

// A state for each item that has none. All of them or, if one cannot be had, none.
bool MemoryStore::Impl::make_states(Micros now, std::vector<Found>& found) {
    for (Found& one : found) {
        if (one.state != nullptr) one.state->pinned = true;
    }
    bool all = true;
    for (Found& one : found) {
        if (one.state != nullptr) continue;
        one.state = shards[one.shard].insert(one.name, now.count(), evict);
        one.made = one.state != nullptr;
        all = one.made;
        if (!all) break;
    }
    for (Found& one : found) {
        if (one.state == nullptr) continue;
        one.state->pinned = false;
        if (!all && one.made) shards[one.shard].erase(one.name);
    }
    return all;
}

// Whatever allocates happens here, before the first unit is taken.
void MemoryStore::Impl::make_room(const limit::Charge& charge, Micros now, Scratch& work) const {
    std::size_t next = 0;
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        const limit::Policy& policy = *charge.items[i].policy;
        State& state = *work.found[i].state;
        for (std::size_t j = 0; j < policy.limits.size(); ++j) {
            const Limit& limit = policy.limits[j];
            Step& step = work.steps[next++];
            // Looked for anew: adding a record for one limit moves where "none" is for the next.
            step.record = state.find(limit.id, j);
            if (step.record == state.records.size()) {
                step.record = add_record(state, policy, limit.id, now);
            }
            Record& record = state.records[step.record];
            record.reserve(marks_after_take(record.window, limit, step.standing),
                           static_cast<std::size_t>(limit.blocks - 1));
        }
    }
}

void MemoryStore::Impl::take(const limit::Charge& charge, Scratch& work) const {
    std::size_t next = 0;
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        State& state = *work.found[i].state;
        for (const Limit& limit : charge.items[i].policy->limits) {
            const Step& step = work.steps[next++];
            Record& record = state.records[step.record];
            limit::take(record.window, record.ring(), limit, step.standing, charge.cost);
            record.share = static_cast<std::uint32_t>(work.share(limit));
            state.expires_us = std::max(state.expires_us, record.window.ends_us);
        }
    }
}

MemoryStore::MemoryStore(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
MemoryStore::~MemoryStore() = default;

MemoryStore::Outcome MemoryStore::charge(const limit::Charge& charge, Micros now,
                                         limit::Verdict& verdict) {
    assert(charge.cost >= 0);
    Scratch& work = scratch();
    work.divisor = impl_->divisor.load(std::memory_order_relaxed);
    impl_->locate(charge, work.found);
    const ShardLocks locks(impl_->shards, work.found);
    if (!impl_->weigh(charge, now, work, verdict) || charge.cost == 0) return Outcome::decided;
    if (!impl_->make_states(now, work.found)) return Outcome::full;
    impl_->make_room(charge, now, work);
    impl_->take(charge, work);

    std::size_t next = 0;
    for (const limit::ChargeItem& item : charge.items) {
        for (const Limit& limit : item.policy->limits) {
            verdict.limits[next] =
                told(limit, work.steps[next].standing, now, work.share(limit), charge.cost);
            ++next;
        }
    }
    return Outcome::decided;
}

void MemoryStore::set_divisor(std::int64_t divisor) {
    assert(divisor >= 1);
    impl_->divisor.store(divisor, std::memory_order_relaxed);
}

std::size_t MemoryStore::keys() const {
    std::size_t keys = 0;
    for (const Shard& shard : impl_->shards) keys += shard.size();
    return keys;
}

std::uint64_t MemoryStore::evictions() const {
    std::uint64_t evictions = 0;
    for (const Shard& shard : impl_->shards) evictions += shard.evictions();
    return evictions;
}

limit::Micros process_now() {
    using std::chrono::duration_cast;
    struct Start {
        std::chrono::system_clock::time_point wall = std::chrono::system_clock::now();
        std::chrono::steady_clock::time_point steady = std::chrono::steady_clock::now();
    };
    static const Start start;
    return duration_cast<Micros>(start.wall.time_since_epoch()) +
           duration_cast<Micros>(std::chrono::steady_clock::now() - start.steady);
}

}  // namespace tidegate::store
