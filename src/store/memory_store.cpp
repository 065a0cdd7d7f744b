#include "store/memory_store.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <random>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "limit/gcra.hpp"
#include "store/keyed_hash.hpp"
#include "store/memory_store_record.hpp"
#include "store/memory_store_shard.hpp"

namespace tidegate::store {
namespace {

using limit::Limit;
using limit::Micros;

constexpr std::size_t kShardsMax = 64;  // a set of shards is the bits of one word
constexpr std::size_t kKeysAShardMin = 64;

// An item of the charge and what the store knows of it.
struct Found {
    StateName name;
    std::size_t shard = 0;
    State* state = nullptr;  // null: nothing is counted yet
    bool made = false;       // by this charge
    bool takes = false;      // some limit of it takes units
    bool granted = false;    // they may be given back: its group of policies admitted
};

constexpr std::size_t kNone = static_cast<std::size_t>(-1);  // no record yet

// A limit of an item: its record in the state and how it stands.
struct Step {
    std::size_t record = kNone;
    Standing standing;
    bool passes = false;
    bool takes = false;
};

// One a thread, so that a charge allocates nothing once it has been as large before.
struct Scratch {
    std::vector<Found> found;
    std::vector<Step> steps;
};

Scratch& scratch() {
    thread_local Scratch instance;
    return instance;
}

// Calls `visit(found, limit, step)` for every limit of every item, in their order.
template <class Visit>
void for_each_limit(const limit::Charge& charge, Scratch& work, Visit visit) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        for (const Limit& limit : charge.items[i].limits()) {
            visit(work.found[i], charge.items[i], limit, work.steps[next++]);
        }
    }
}

// What a limit counts that was never asked before.
const Record& nothing_of(const Limit& limit) {
    static const auto kNothing = [] {
        std::vector<Record> records;
        for (std::size_t i = 0; i < limit::kAlgorithms.size(); ++i) {
            Limit some;
            some.algorithm = static_cast<limit::Algorithm>(i);
            records.emplace_back(some);
        }
        return records;
    }();
    return kNothing[static_cast<std::size_t>(limit.algorithm)];
}

const Record& record_of(const Found& found, const Limit& limit, const Step& step) {
    return step.record == kNone ? nothing_of(limit) : found.state->records[step.record];
}

template <class Kind>
const typename Kind::Look& standing_of(const Kind&, const Step& step) {
    return *std::get_if<typename Kind::Look>(&step.standing);
}

void look(const Found& found, const Limit& limit, const Asked& asked, Step& step) {
    record_of(found, limit, step).with([&](const auto& kind) {
        const auto standing = kind.look(limit, asked);
        step.passes = kind.passes(limit, asked, standing);
        step.standing = standing;
    });
}

// Reuses a record that has expired and is none of the item's, so that reloads leave nothing behind.
// Positions of other records stay.
std::size_t add_record(State& state, std::span<const Limit> limits, const Limit& limit,
                       Micros now) {
    const auto stale =
        std::find_if(state.records.begin(), state.records.end(), [&](const Record& record) {
            return record.ends_us() <= now.count() && !record.holds_slots() &&
                   std::none_of(limits.begin(), limits.end(),
                                [&](const Limit& one) { return record.counts(one); });
        });
    const auto position = static_cast<std::size_t>(stale - state.records.begin());
    if (stale == state.records.end()) {
        if (state.records.empty()) state.records.reserve(limits.size());
        state.records.emplace_back(limit);
    } else {
        state.records[position].reset(limit);
    }
    return position;
}

// Looks at every limit of every item, changing nothing, and says in the verdict who admits.
void weigh(const Asked& asked, std::array<Shard, kShardsMax>& shards, Scratch& work,
           limit::Verdict& verdict) {
    verdict.admitted = true;
    verdict.shadow_admitted = true;
    work.steps.clear();
    for (std::size_t i = 0; i < asked.charge.items.size(); ++i) {
        const limit::ChargeItem& item = asked.charge.items[i];
        Found& found = work.found[i];
        found.state = shards[found.shard].find(found.name);
        const auto limits = item.limits();
        for (std::size_t j = 0; j < limits.size(); ++j) {
            Step& step = work.steps.emplace_back();
            if (found.state != nullptr) {
                const std::size_t record = found.state->find(limits[j], j);
                if (record < found.state->records.size()) step.record = record;
            }
            look(found, limits[j], asked, step);
            bool& admitted = item.policy->shadow ? verdict.shadow_admitted : verdict.admitted;
            admitted = admitted && step.passes;
        }
    }
}

// The verdict as far as it hangs on what is counted now.
void begin_verdict(const Asked& asked, std::array<Shard, kShardsMax>& shards, Scratch& work,
                   limit::Verdict& verdict) {
    weigh(asked, shards, work, verdict);
    verdict.retry_after = verdict.wait = verdict.earliest = Micros{0};
    verdict.limits.assign(work.steps.size(), {});
    for (std::size_t i = 0; i < work.steps.size(); ++i) {
        verdict.limits[i].denied = !work.steps[i].passes;
    }
}

// Who takes: all of a group that admits, else those of its limits that count the denied ones too.
// The shadow group takes nothing where the other denies.
bool choose_takers(const limit::Charge& charge, const limit::Verdict& verdict, Scratch& work) {
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        work.found[i].granted = charge.cost > 0 && verdict.admitted &&
                                (verdict.shadow_admitted || !charge.items[i].policy->shadow);
    }
    bool any = false;
    for_each_limit(charge, work, [&](Found& found, const auto&, const Limit& limit, Step& step) {
        step.takes = found.granted || (charge.cost > 0 && limit.count == limit::Count::all);
        found.takes = found.takes || step.takes;
        any = any || step.takes;
    });
    return any;
}

// The answer does not hang on the shadow group: without room it takes nothing.
void leave_out_shadow(const limit::Charge& charge, Scratch& work) {
    for_each_limit(charge, work,
                   [&](Found& found, const limit::ChargeItem& item, const Limit&, Step& step) {
                       if (!item.policy->shadow) return;
                       step.takes = found.takes = found.granted = false;
                   });
}

// Whatever allocates happens here, before the first unit is taken.
void make_room(const Asked& asked, Scratch& work) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < asked.charge.items.size(); ++i) {
        const auto limits = asked.charge.items[i].limits();
        for (std::size_t j = 0; j < limits.size(); ++j) {
            Step& step = work.steps[next++];
            if (!step.takes) continue;
            State& state = *work.found[i].state;
            if (step.record == kNone) step.record = add_record(state, limits, limits[j], asked.now);
            state.records[step.record].with(
                [&](auto& kind) { kind.reserve(limits[j], asked, standing_of(kind, step)); });
        }
    }
}

void take(const Asked& asked, Scratch& work) {
    for_each_limit(
        asked.charge, work, [&](Found& found, const auto&, const Limit& limit, Step& step) {
            if (!step.takes) return;
            Record& record = found.state->records[step.record];
            record.take(limit, asked, step.standing);
            found.state->expires_us = std::max(found.state->expires_us, record.ends_us());
            // A denial that took tells what is so now.
            if (!found.granted) look(found, limit, asked, step);
        });
}

// The first moment that all schedules of the policies that are enforced would accept; 0 for none.
Micros earliest_of_all(const Asked& asked, Scratch& work) {
    const auto for_each_schedule = [&](auto visit) {
        for_each_limit(
            asked.charge, work,
            [&](Found& found, const limit::ChargeItem& item, const Limit& limit, Step& step) {
                const auto* const standing = std::get_if<MomentStanding>(&step.standing);
                if (standing == nullptr || !standing->concerned) return;
                if (!item.policy->shadow) visit(found, limit, step, *standing);
            });
    };
    Micros moment{0};
    for_each_schedule([&](const auto&, const auto&, const auto&, const MomentStanding& standing) {
        moment = std::max(moment, standing.at);
    });
    for (Micros before{-1}; before != moment && moment != limit::kNever;) {
        before = moment;
        for_each_schedule([&](const Found& found, const Limit& limit, const Step& step, auto&) {
            if (moment == limit::kNever) return;
            moment = record_of(found, limit, step).moments().earliest(limit, asked, moment);
        });
    }
    return moment == limit::kNever ? Micros{0} : moment;
}

// When a denied request would pass: the latest of all limits that do not let it pass as they stand
// now, be it because they deny or because they counted this very denial.
void tell_retry(const Asked& asked, Scratch& work, limit::Verdict& verdict) {
    bool by_schedule = false;
    for_each_limit(
        asked.charge, work,
        [&](Found& found, const limit::ChargeItem& item, const Limit& limit, const Step& step) {
            if (step.passes || item.policy->shadow) return;
            const Micros retry = record_of(found, limit, step).with([&](const auto& kind) {
                return kind.retry(limit, asked, standing_of(kind, step));
            });
            verdict.retry_after = std::max(verdict.retry_after, retry);
            by_schedule = by_schedule || limit.is_schedule();
        });
    // A cost of 0 asks whether there is room, and nothing else.
    if (by_schedule && asked.charge.cost > 0) verdict.earliest = earliest_of_all(asked, work);
}

void tell(const Asked& asked, Scratch& work, limit::Verdict& verdict) {
    std::size_t next = 0;
    for_each_limit(
        asked.charge, work,
        [&](Found& found, const limit::ChargeItem& item, const Limit& limit, const Step& step) {
            const std::int64_t taken = found.granted ? asked.charge.cost : 0;
            limit::LimitVerdict& told = verdict.limits[next++];
            const bool denied = told.denied;
            told = record_of(found, limit, step).with([&](const auto& kind) {
                return kind.told(limit, asked, standing_of(kind, step), taken);
            });
            told.denied = denied;
            if (taken > 0 && limit.traits().queues && !item.policy->shadow) {
                const auto& backlog = std::get<limit::ExactTime>(step.standing);
                verdict.wait = std::max(verdict.wait, limit::wait_of(backlog));
            }
        });
}

ItemCounts count_item(const State* state, const limit::ChargeItem& item, const Asked& asked) {
    ItemCounts counts;
    const auto limits = item.limits();
    std::size_t hint = 0;
    for (const Limit& limit : limits) {
        const std::size_t place = state != nullptr ? state->find(limit, hint++) : 0;
        const bool known = state != nullptr && place < state->records.size();
        const Record& record = known ? state->records[place] : nothing_of(limit);
        counts.limits.push_back(
            record.with([&](const auto& kind) { return kind.count(limit, asked); }));
    }
    if (state == nullptr) return counts;
    for (const Record& record : state->records) {
        const Micros all_free = Micros{record.ends_us()} - asked.now;
        const bool asked_about = std::any_of(limits.begin(), limits.end(),
                                             [&](const Limit& one) { return record.counts(one); });
        if (!asked_about && all_free > Micros{0}) counts.others.push_back({record.id(), all_free});
    }
    return counts;
}

void write_receipt(const Asked& asked, const Scratch& work, limit::Receipt& receipt) {
    receipt.at = asked.now;
    receipt.generations.clear();
    for (const Found& found : work.found) {
        receipt.generations.push_back(found.granted && found.takes ? found.state->generation : 0);
    }
}

}  // namespace

struct MemoryStore::Impl {
    explicit Impl(const Options& options);

    std::uint64_t hash_of_policy(std::string_view name) const {
        return hash_text(name, secret[0], secret[1]);
    }
    void locate(const limit::Charge& charge, std::vector<Found>& found) const;
    bool make_states(Micros now, std::vector<Found>& found);
    // Calls `visit(limit, record, position of the item)` for what is counted of the charge.
    template <class Visit>
    void for_each_known(const limit::Charge& charge, Visit visit);

    std::array<Shard, kShardsMax> shards;
    std::size_t shard_count;
    std::array<std::uint64_t, 2> secret{};
    std::atomic<bool> evict;
    std::atomic<std::int64_t> divisor;
    bool stands_in;
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
      divisor(options.divisor),
      stands_in(options.stands_in) {
    assert(options.divisor >= 1);
    std::random_device device;
    for (std::uint64_t& word : secret) word = (std::uint64_t{device()} << 32 | device()) | 1;
    for (std::size_t i = 0; i < shard_count; ++i) {
        shards[i].set_capacity(options.max_keys / shard_count);
    }
}

void MemoryStore::Impl::locate(const limit::Charge& charge, std::vector<Found>& found) const {
    found.clear();
    for (const limit::ChargeItem& item : charge.items) {
        const std::uint64_t of_policy = hash_of_policy(item.policy->name);
        const std::uint64_t hash = hash_text(item.identifier, of_policy, secret[1]);
        found.push_back(
            {.name = {hash, of_policy, item.policy->name, item.identifier, item.policy->shadow},
             .shard = hash & (shard_count - 1),
             .state = nullptr,
             .made = false});
    }
}

// A state for each item that takes and has none. All of them or, if one cannot be had, none.
bool MemoryStore::Impl::make_states(Micros now, std::vector<Found>& found) {
    for (Found& one : found) {
        if (one.state != nullptr) one.state->pinned = true;
    }
    bool all = true;
    for (Found& one : found) {
        if (one.state != nullptr || !one.takes) continue;
        one.state = shards[one.shard].insert(one.name, now.count(), evict);
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

template <class Visit>
void MemoryStore::Impl::for_each_known(const limit::Charge& charge, Visit visit) {
    Scratch& work = scratch();
    locate(charge, work.found);
    const ShardLocks locks(shards, work.found);
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        State* const state = shards[work.found[i].shard].find(work.found[i].name);
        if (state == nullptr) continue;
        const auto limits = charge.items[i].limits();
        for (std::size_t j = 0; j < limits.size(); ++j) {
            const std::size_t position = state->find(limits[j], j);
            if (position == state->records.size()) continue;
            visit(limits[j], *state, state->records[position], i);
        }
    }
}

MemoryStore::MemoryStore(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
MemoryStore::~MemoryStore() = default;

// Flattened, as look() shares its steps: calls to them would cost a tenth of a charge.
[[gnu::flatten]] MemoryStore::Outcome MemoryStore::charge(const limit::Charge& charge, Micros now,
                                                          limit::Verdict& verdict) {
    assert(charge.cost >= 0);
    Scratch& work = scratch();
    // The divisor is read once: it may change while the charge is decided.
    const Asked asked{charge, now, impl_->divisor.load(std::memory_order_relaxed),
                      impl_->stands_in};
    impl_->locate(charge, work.found);
    const ShardLocks locks(impl_->shards, work.found);
    begin_verdict(asked, impl_->shards, work, verdict);
    if (choose_takers(charge, verdict, work)) {
        if (!impl_->make_states(now, work.found)) {
            leave_out_shadow(charge, work);
            if (!impl_->make_states(now, work.found)) {
                if (verdict.admitted) return Outcome::full;
                // A denial stands, though what it should have counted has no room.
                for (Step& step : work.steps) step.takes = false;
            }
        }
        make_room(asked, work);
        take(asked, work);
    }
    if (!verdict.admitted) tell_retry(asked, work, verdict);
    tell(asked, work, verdict);
    write_receipt(asked, work, verdict.receipt);
    return Outcome::decided;
}

void MemoryStore::look(const limit::Charge& charge, Micros now, limit::Verdict& verdict) {
    Scratch& work = scratch();
    const Asked asked{charge, now, impl_->divisor.load(std::memory_order_relaxed),
                      impl_->stands_in};
    impl_->locate(charge, work.found);
    const ShardLocks locks(impl_->shards, work.found);
    begin_verdict(asked, impl_->shards, work, verdict);
    if (!verdict.admitted) tell_retry(asked, work, verdict);
    tell(asked, work, verdict);
}

void MemoryStore::give_back(const limit::Refund& refund, Micros now) {
    const limit::Charge& charge = refund.charge;
    const auto& generations = refund.receipt->generations;
    if (charge.cost == 0 || generations.size() != charge.items.size()) return;
    const Asked asked{charge, now, impl_->divisor.load(std::memory_order_relaxed),
                      impl_->stands_in};
    impl_->for_each_known(
        charge, [&](const Limit& limit, const State& state, Record& record, std::size_t item) {
            if (generations[item] != state.generation || !refund.concerns(limit)) return;
            record.give_back(limit, asked, refund.receipt->at);
        });
}

void MemoryStore::release(const limit::Charge& charge, Micros until) {
    impl_->for_each_known(charge,
                          [&](const Limit& limit, State& state, Record& record, std::size_t) {
                              if (!limit.is_concurrency()) return;
                              record.release(charge.lease, until);
                              state.expires_us = std::max(state.expires_us, record.ends_us());
                          });
}

Counts MemoryStore::count(std::span<const limit::ChargeItem> items, Micros now) const {
    const limit::Charge charge{.items = items, .cost = 1, .lease = {}, .moment = now};
    const Asked asked{charge, now, impl_->divisor.load(std::memory_order_relaxed),
                      impl_->stands_in};
    Scratch& work = scratch();
    impl_->locate(charge, work.found);
    const ShardLocks locks(impl_->shards, work.found);
    Counts counts{now};
    for (std::size_t i = 0; i < items.size(); ++i) {
        const State* const state = impl_->shards[work.found[i].shard].find(work.found[i].name);
        counts.items.push_back(count_item(state, items[i], asked));
    }
    return counts;
}

std::vector<bool> MemoryStore::forget(std::span<const limit::ChargeItem> items) {
    const limit::Charge charge{.items = items};
    Scratch& work = scratch();
    impl_->locate(charge, work.found);
    const ShardLocks locks(impl_->shards, work.found);
    std::vector<bool> forgotten;
    for (const Found& found : work.found) {
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
