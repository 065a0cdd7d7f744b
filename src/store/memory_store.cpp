#include "store/memory_store.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <mutex>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "base/secrets.hpp"
#include "store/memory_store_charge.hpp"
#include "store/memory_store_impl.hpp"

namespace tidegate::store {
namespace {

using limit::Limit;
using limit::Micros;

constexpr std::size_t kKeysAShardMin = 64;

Scratch& scratch() {
    thread_local Scratch instance;
    return instance;
}

// Holds the mutexes of a set of shards. Always taken in their order, so no two charges can wait for
// each other; a shard with several identifiers of the charge is taken once.
class ShardLocks {
  public:
    ShardLocks(Shards& shards, const std::vector<Found>& found) : shards_(shards) {
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
    Shards& shards_;
    std::uint64_t set_ = 0;
};

ItemCounts count_item(const Found& found, const Asked& asked) {
    ItemCounts counts;
    const auto limits = found.item->limits();
    for (std::size_t i = 0; i < limits.size(); ++i) {
        const State* const state = found.state;
        const std::size_t place = state != nullptr ? state->find(limits[i], i) : 0;
        const bool known = state != nullptr && place < state->records.size();
        const Record& record = known ? state->records[place] : nothing_of(limits[i]);
        counts.limits.push_back(
            record.with([&](const auto& kind) { return kind.count(limits[i], asked); }));
    }
    if (found.state == nullptr) return counts;
    for (const Record& record : found.state->records) {
        const Micros all_free = Micros{record.ends_us(asked.now)} - asked.now.steady;
        const bool asked_about = std::any_of(limits.begin(), limits.end(),
                                             [&](const Limit& one) { return record.counts(one); });
        if (!asked_about && all_free > Micros{0}) counts.others.push_back({record.id(), all_free});
    }
    return counts;
}

}  // namespace

// A charge whose states are all found, and locked until this ends. One a thread at a time.
class MemoryStore::Call {
  public:
    Call(Impl& store, const limit::Charge& charge, const limit::Now& now)
        // The divisor is read once: it may change while the charge is decided.
        : asked{charge, now, store.divisor.load(std::memory_order_relaxed), store.stands_in},
          work(scratch()),
          locks_(store.shards, store.locate(charge, work.found)) {
        for (Found& found : work.found) found.state = store.shards[found.shard].find(found.name);
    }

    // Calls `visit(position of the item, limit, state, record)` for all counts of the charge.
    template <class Visit>
    void for_each_record(Visit visit) {
        for (std::size_t i = 0; i < work.found.size(); ++i) {
            State* const state = work.found[i].state;
            if (state == nullptr) continue;
            const auto limits = work.found[i].item->limits();
            for (std::size_t j = 0; j < limits.size(); ++j) {
                const std::size_t record = state->find(limits[j], j);
                if (record == state->records.size()) continue;
                visit(i, limits[j], *state, state->records[record]);
            }
        }
    }

    const Asked asked;
    Scratch& work;

  private:
    const ShardLocks locks_;
};

MemoryStore::Impl::Impl(const Options& options)
    : shard_count(std::clamp<std::size_t>(std::bit_floor(options.max_keys / kKeysAShardMin), 1,
                                          kShardsMax)),
      evict(options.on_full == OnFull::evict),
      divisor(options.divisor),
      stands_in(options.stands_in) {
    assert(options.divisor >= 1);
    std::random_device device;
    for (std::uint64_t& word : secret) word = (std::uint64_t{device()} << 32 | device()) | 1;
    for (std::size_t i = 0; i < shard_count; ++i) {
        shards[i].set_capacity(options.max_keys / shard_count);
    }
}

const std::vector<Found>& MemoryStore::Impl::locate(const limit::Charge& charge,
                                                    std::vector<Found>& found) const {
    found.clear();
    for (const limit::ChargeItem& item : charge.items) {
        const limit::Policy& policy = *item.policy;
        const std::uint64_t of_policy = hash_of_policy(policy.name);
        const std::uint64_t hash = hash_text(item.identifier, of_policy, secret[1]);
        found.push_back({.item = &item,
                         .name = {hash, of_policy, policy.name, item.identifier, policy.shadow},
                         .shard = hash & (shard_count - 1)});
    }
    return found;
}

// A state for each item that takes and has none. All of them or, if one cannot be had, none.
bool MemoryStore::Impl::make_states(const limit::Now& now, std::vector<Found>& found) {
    for (Found& one : found) {
        if (one.state != nullptr) one.state->pinned = true;
    }
    bool all = true;
    for (Found& one : found) {
        if (one.state != nullptr || !one.takes) continue;
        one.state = shards[one.shard].insert(one.name, now, evict);
        one.made = one.state != nullptr;
        all = one.made;
        if (!all) break;
    }
    for (Found& one : found) {
        if (one.state == nullptr) continue;
        one.state->pinned = false;
        if (all || !one.made) continue;
        shards[one.shard].erase(*one.state);
        one.state = nullptr;
        one.made = false;
    }
    return all;
}

bool MemoryStore::Impl::put(std::string_view policy, std::string_view identifier,
                            std::vector<Record>&& records, std::int64_t expires_us,
                            const limit::Now& now) {
    const std::uint64_t of_policy = hash_of_policy(policy);
    const std::uint64_t hash = hash_text(identifier, of_policy, secret[1]);
    const StateName name{hash, of_policy, policy, identifier};
    Shard& shard = shards[hash & (shard_count - 1)];
    const std::lock_guard lock(shard.mutex());
    State* state = shard.find(name);
    if (state == nullptr) state = shard.insert(name, now, evict);
    if (state == nullptr) return false;
    state->records = std::move(records);
    state->expires_us = expires_us;
    state->pinned = false;
    return true;
}

MemoryStore::MemoryStore(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
MemoryStore::~MemoryStore() = default;

// Flattened, as look() shares its steps: calls to them would cost a tenth of a charge.
[[gnu::flatten]] MemoryStore::Outcome MemoryStore::charge(const limit::Charge& charge,
                                                          const limit::Now& now,
                                                          limit::Verdict& verdict) {
    assert(charge.cost >= 0);
    const Call call(*impl_, charge, now);
    Scratch& work = call.work;
    begin_verdict(call.asked, work, verdict);
    if (choose_takers(charge, verdict, work)) {
        if (!impl_->make_states(now, work.found)) {
            leave_out_shadow(work);
            if (!impl_->make_states(now, work.found)) {
                if (verdict.admitted) return Outcome::full;
                // A denial stands, though what it should have counted has no room.
                for (Step& step : work.steps) step.takes = false;
            }
        }
        make_records(call.asked, work);
        take(call.asked, work);
    }
    end_verdict(call.asked, work, verdict);
    write_receipt(call.asked, work, verdict.receipt);
    return Outcome::decided;
}

void MemoryStore::look(const limit::Charge& charge, const limit::Now& now,
                       limit::Verdict& verdict) {
    const Call call(*impl_, charge, now);
    begin_verdict(call.asked, call.work, verdict);
    end_verdict(call.asked, call.work, verdict);
}

void MemoryStore::give_back(const limit::Refund& refund, const limit::Now& now) {
    const limit::Charge& charge = refund.charge;
    const auto& generations = refund.receipt->generations;
    if (charge.cost == 0 || generations.size() != charge.items.size()) return;
    Call call(*impl_, charge, now);
    call.for_each_record([&](std::size_t item, const Limit& limit, State& state, Record& record) {
        if (generations[item] != state.generation || !refund.concerns(limit)) return;
        record.give_back(limit, call.asked, refund.receipt->at);
    });
}

void MemoryStore::release(const limit::Charge& charge, Micros until) {
    Call call(*impl_, charge, Micros{0});
    call.for_each_record([&](std::size_t, const Limit& limit, State& state, Record& record) {
        if (!limit.is_concurrency()) return;
        record.release(charge.lease, until);
        state.expires_us = std::max(state.expires_us, record.ends_us({}));
    });
}

Counts MemoryStore::count(std::span<const limit::ChargeItem> items, const limit::Now& now) const {
    const limit::Charge charge{.items = items, .cost = 1, .lease = {}, .moment = now.wall};
    const Call call(*impl_, charge, now);
    Counts counts{now.wall};
    for (const Found& found : call.work.found) {
        counts.items.push_back(count_item(found, call.asked));
    }
    return counts;
}

std::vector<bool> MemoryStore::forget(std::span<const limit::ChargeItem> items) {
    const limit::Charge charge{.items = items};
    const Call call(*impl_, charge, Micros{0});
    std::vector<bool> forgotten;
    for (const Found& found : call.work.found) {
        forgotten.push_back(impl_->shards[found.shard].forget(found.name));
    }
    // The same state may have been named just before, with another tier.
    for (std::size_t i = 1; i < items.size(); ++i) {
        const bool same = items[i - 1].policy == items[i].policy &&
                          items[i - 1].identifier == items[i].identifier;
        if (same && forgotten[i - 1]) forgotten[i] = true;
    }
    return forgotten;
}

void MemoryStore::set_bounds(std::size_t max_keys, OnFull on_full) {
    impl_->evict = on_full == OnFull::evict;
    for (std::size_t i = 0; i < impl_->shard_count; ++i) {
        Shard& shard = impl_->shards[i];
        const std::lock_guard lock(shard.mutex());
        shard.set_capacity(std::max<std::size_t>(1, max_keys / impl_->shard_count));
    }
}

void MemoryStore::set_policies(std::span<const std::string_view> names) {
    std::vector<std::uint64_t> hashes;
    for (const std::string_view name : names) hashes.push_back(impl_->hash_of_policy(name));
    std::sort(hashes.begin(), hashes.end());
    const auto shared = std::make_shared<const std::vector<std::uint64_t>>(std::move(hashes));
    for (std::size_t i = 0; i < impl_->shard_count; ++i) {
        const std::lock_guard lock(impl_->shards[i].mutex());
        impl_->shards[i].set_policies(shared);
    }
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

namespace {

Micros steady_time() {
    return std::chrono::duration_cast<Micros>(std::chrono::steady_clock::now().time_since_epoch());
}

Micros time_of(std::chrono::system_clock::time_point wall) {
    return std::chrono::duration_cast<Micros>(wall.time_since_epoch());
}

// By how much the clocks of process_now() are ahead of the machine's monotonic one.
struct ClockOffsets {
    std::atomic<std::int64_t> steady_us;
    std::atomic<std::int64_t> wall_us;
    std::atomic<std::uint64_t> steps{0};

    explicit ClockOffsets(Micros offset) : steady_us(offset.count()), wall_us(offset.count()) {}
};

ClockOffsets& clock_offsets() {
    static ClockOffsets offsets(time_of(std::chrono::system_clock::now()) - steady_time());
    return offsets;
}

}  // namespace

limit::Micros process_clock_offset() {
    return Micros{clock_offsets().steady_us.load(std::memory_order_relaxed)};
}

void set_process_clock_offset(limit::Micros offset) {
    clock_offsets().steady_us.store(offset.count(), std::memory_order_relaxed);
}

void follow_wall_clock(std::chrono::system_clock::time_point wall) {
    constexpr Micros kStep = std::chrono::seconds{1};
    ClockOffsets& offsets = clock_offsets();
    const Micros offset = time_of(wall) - steady_time();
    const Micros before{offsets.wall_us.exchange(offset.count(), std::memory_order_relaxed)};
    if (std::chrono::abs(offset - before) > kStep) {
        offsets.steps.fetch_add(1, std::memory_order_relaxed);
    }
}

std::uint64_t wall_clock_steps() {
    return clock_offsets().steps.load(std::memory_order_relaxed);
}

limit::Now process_now() {
    const ClockOffsets& offsets = clock_offsets();
    const Micros machine = steady_time();
    return {machine + Micros{offsets.steady_us.load(std::memory_order_relaxed)},
            machine + Micros{offsets.wall_us.load(std::memory_order_relaxed)}};
}

}  // namespace tidegate::store
