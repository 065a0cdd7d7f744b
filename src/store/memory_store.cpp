#include "store/memory_store.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/secrets.hpp"
#include "limit/bytes.hpp"
#include "limit/kinds.hpp"
#include "store/memory_store_shard.hpp"

namespace tidegate::store {
namespace {

using limit::Limit;
using limit::Micros;

constexpr std::size_t kKeysAShardMin = 64;

// An item of the charge and what the store knows of it.
struct Found {
    const limit::ChargeItem* item;
    StateName name;
    std::size_t shard = 0;
    State* state = nullptr;  // null: nothing is counted yet
    bool made = false;       // by this charge
    bool takes = false;      // some limit of it takes units
    bool granted = false;    // they may be given back: its group of policies admitted
    bool denies = false;     // a limit of it does not let the request pass
    std::int64_t cost = 0;   // of this item

    bool shadow() const { return item->policy->shadow; }
    bool is_enforced() const { return item->policy->is_enforced(); }
};

// A limit of an item: its record in the state and how it stands.
struct Step {
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);  // no record yet

    Found* found;
    const limit::Limit* limit;
    std::size_t record = kNone;
    bool passes = false;
    bool takes = false;
    AnyStanding standing{};
};

// One a thread, so that a charge allocates nothing once it has been as large before.
struct Scratch {
    std::vector<Found> found;
    std::vector<Step> steps;  // items in their order, limits in their order
    bool has_candidates = false;
};

// What a limit counts that was never asked before.
const Record& nothing_of(const limit::Limit& limit) {
    static const auto kNothing = [] {
        std::vector<Record> records;
        for (std::size_t kind = 0; kind < limit::kStateKinds; ++kind) {
            records.emplace_back(0, static_cast<limit::StateKind>(kind));
        }
        return records;
    }();
    return kNothing[static_cast<std::size_t>(limit.state())];
}

const Record& record_of(const Step& step) {
    return step.record == Step::kNone ? nothing_of(*step.limit)
                                      : step.found->state->records[step.record];
}

template <class Kind>
const typename Kind::Standing& standing_of(const Kind&, const Step& step) {
    return *std::get_if<typename Kind::Standing>(&step.standing);
}

void look(const limit::Asked& asked, Step& step) {
    record_of(step).with([&](const auto& kind) {
        const auto standing = kind.look(*step.limit, asked);
        step.passes = kind.passes(*step.limit, asked, standing);
        step.standing = standing;
    });
}

// Looks at every limit of every item, changing nothing: the verdict as far as it hangs on what is
// counted now.
void begin_verdict(limit::Asked& asked, Scratch& work, limit::Verdict& verdict) {
    verdict.admitted = verdict.shadow_admitted = true;
    verdict.retry_after = verdict.wait = verdict.earliest = limit::Micros{0};
    verdict.limits.clear();
    work.steps.clear();
    work.has_candidates = false;
    for (Found& found : work.found) {
        asked.cost = found.cost;
        const auto limits = found.item->limits();
        const limit::Policy& policy = *found.item->policy;
        for (std::size_t i = 0; i < limits.size(); ++i) {
            Step& step = work.steps.emplace_back(Step{&found, &limits[i]});
            if (found.state != nullptr) {
                const std::size_t record = found.state->find(limits[i], i);
                if (record < found.state->records.size()) step.record = record;
            }
            look(asked, step);
            if (policy.is_candidate()) [[unlikely]] {
                work.has_candidates = true;
            } else {
                bool& admitted = policy.shadow ? verdict.shadow_admitted : verdict.admitted;
                admitted = admitted && (step.passes || policy.soft);
            }
            found.denies = found.denies || !step.passes;
            verdict.limits.push_back({.denied = !step.passes});
        }
    }
}

// Whether a candidate admits, and so do all policies that would be enforced beside it.
bool admits_as_live(const limit::Policy& candidate, const Scratch& work) {
    return std::none_of(work.found.begin(), work.found.end(), [&](const Found& found) {
        return found.denies && found.item->policy->decides_for(candidate);
    });
}

// Who takes: all of a group that admits, else those of its limits that count the denied ones too.
// The shadow group takes nothing where the other denies.
bool choose_takers(const limit::Verdict& verdict, Scratch& work) {
    for (Found& found : work.found) {
        found.granted =
            found.cost > 0 && verdict.admitted && (verdict.shadow_admitted || !found.shadow());
    }
    if (work.has_candidates) [[unlikely]] {
        for (Found& found : work.found) {
            const limit::Policy& policy = *found.item->policy;
            if (!policy.is_candidate()) continue;
            found.granted = found.cost > 0 && admits_as_live(policy, work);
        }
    }
    bool any = false;
    for (Step& step : work.steps) {
        step.takes =
            step.found->granted || (step.limit->count == limit::Count::all && step.found->cost > 0);
        step.found->takes = step.found->takes || step.takes;
        any = any || step.takes;
    }
    return any;
}

// The answer does not hang on policies that are not enforced: without room they take nothing.
void leave_out_unenforced(Scratch& work) {
    for (Step& step : work.steps) {
        Found& found = *step.found;
        if (!found.is_enforced()) step.takes = found.takes = found.granted = false;
    }
}

// Reuses a record that has expired and is none of the item's, so that reloads leave nothing behind.
// Positions of other records stay.
std::size_t add_record(State& state, std::span<const limit::Limit> limits,
                       const limit::Limit& limit, const limit::Now& now) {
    const auto stale =
        std::find_if(state.records.begin(), state.records.end(), [&](const Record& record) {
            return record.ends_us(now) <= now.steady.count() && !record.is_held() &&
                   std::none_of(limits.begin(), limits.end(),
                                [&](const limit::Limit& one) { return record.counts(one); });
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

// Allocates all that take() needs, before the first unit is taken.
void make_records(limit::Asked& asked, Scratch& work) {
    for (Step& step : work.steps) {
        if (!step.takes) continue;
        asked.cost = step.found->cost;
        State& state = *step.found->state;
        if (step.record == Step::kNone) {
            step.record = add_record(state, step.found->item->limits(), *step.limit, asked.now);
        }
        state.records[step.record].with(
            [&](auto& kind) { kind.reserve(*step.limit, asked, standing_of(kind, step)); });
    }
}

void take(limit::Asked& asked, Scratch& work) {
    for (Step& step : work.steps) {
        if (!step.takes) continue;
        asked.cost = step.found->cost;
        State& state = *step.found->state;
        Record& record = state.records[step.record];
        record.take(*step.limit, asked, step.standing);
        state.expires_us = std::max(state.expires_us, record.ends_us(asked.now));
        // A denial that took tells what is so now.
        if (!step.found->granted) look(asked, step);
    }
}

// The moment that a limit stands around which is enforced and about moments; else nothing.
std::optional<limit::Micros> moment_of(const Step& step) {
    if (!step.found->is_enforced()) return std::nullopt;
    return record_of(step).with(
        [&](const auto& kind) { return kind.moment(standing_of(kind, step)); });
}

// The first moment that all schedules would accept; 0 for none.
limit::Micros earliest_of_all(limit::Asked& asked, const Scratch& work) {
    limit::Micros moment{0};
    bool any_takes = false;
    for (const Step& step : work.steps) {
        const auto its_moment = moment_of(step);
        moment = std::max(moment, its_moment.value_or(moment));
        any_takes = any_takes || (its_moment && step.found->cost > 0);
    }
    // A cost of 0 asks whether there is room, and nothing else.
    if (!any_takes) return limit::Micros{0};
    for (limit::Micros before{-1}; before != moment && moment != limit::kNever;) {
        before = moment;
        for (const Step& step : work.steps) {
            if (moment == limit::kNever || step.found->cost == 0 || !moment_of(step)) continue;
            asked.cost = step.found->cost;
            moment = record_of(step).with(
                [&](const auto& kind) { return kind.earliest(*step.limit, asked, moment); });
        }
    }
    return moment == limit::kNever ? limit::Micros{0} : moment;
}

// When a denied request would pass: the latest of all limits that do not let it pass as they stand
// now, be it because they deny or because they counted this very denial.
void tell_retry(limit::Asked& asked, const Scratch& work, limit::Verdict& verdict) {
    bool by_moment = false;
    for (const Step& step : work.steps) {
        if (step.passes || !step.found->is_enforced()) continue;
        asked.cost = step.found->cost;
        const limit::Micros retry = record_of(step).with([&](const auto& kind) {
            return kind.retry(*step.limit, asked, standing_of(kind, step));
        });
        verdict.retry_after = std::max(verdict.retry_after, retry);
        by_moment = by_moment || step.limit->traits().has_moments;
    }
    if (by_moment) verdict.earliest = earliest_of_all(asked, work);
}

// What clients see, of a denial with the time to come back.
void end_verdict(limit::Asked& asked, const Scratch& work, limit::Verdict& verdict) {
    if (!verdict.admitted) tell_retry(asked, work, verdict);
    for (std::size_t i = 0; i < work.steps.size(); ++i) {
        const Step& step = work.steps[i];
        const std::int64_t taken = step.found->granted ? step.found->cost : 0;
        limit::LimitVerdict& its_verdict = verdict.limits[i];
        const bool denied = its_verdict.denied;
        const limit::Micros wait = record_of(step).with([&](const auto& kind) {
            const auto& standing = standing_of(kind, step);
            its_verdict = kind.verdict_of(*step.limit, asked, standing, taken);
            return kind.wait(*step.limit, standing);
        });
        its_verdict.denied = denied;
        if (taken > 0 && step.found->is_enforced()) verdict.wait = std::max(verdict.wait, wait);
    }
}

void write_receipt(const limit::Asked& asked, const Scratch& work, limit::Receipt& receipt) {
    receipt.at = asked.now.steady;
    receipt.generations.clear();
    for (const Found& found : work.found) {
        receipt.generations.push_back(found.granted && found.takes ? found.state->generation : 0);
    }
}

Scratch& scratch() {
    thread_local Scratch instance;
    return instance;
}

std::uint64_t shards_of(const std::vector<Found>& found) {
    std::uint64_t set = 0;
    for (const Found& one : found) set |= std::uint64_t{1} << one.shard;
    return set;
}

ItemCounts count_item(const Found& found, const limit::Asked& asked) {
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

// Changes whenever the bytes mean something else.
constexpr std::string_view kHead = "tidegate counts 1\n";

constexpr std::size_t kBucketsAtOnce = 64;

// Against damage, not against people: the file comes from a process of our own.
std::uint64_t hash_of(std::string_view bytes) {
    return hash_text(bytes, 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f);
}

}  // namespace

struct MemoryStore::Impl {
    explicit Impl(const Options& options);

    std::uint64_t hash_of_policy(std::string_view name) const {
        return hash_text(name, secret[0], secret[1]);
    }
    std::uint64_t hash_of(std::string_view policy, std::string_view identifier) const {
        return hash_text(identifier, hash_of_policy(policy), secret[1]);
    }
    const std::vector<Found>& locate(const limit::Charge& charge, std::vector<Found>& found) const;
    bool make_states(const limit::Now& now, std::vector<Found>& found);
    // Replaces what is counted for that identifier; false: there is no room.
    bool put(std::string_view policy, std::string_view identifier, std::vector<Record>&& records,
             std::int64_t expires_us, const limit::Now& now);

    Shards shards;
    std::size_t shard_count;
    std::array<std::uint64_t, 2> secret{};
    std::atomic<bool> evict;
    std::atomic<std::int64_t> divisor;
    bool stands_in;
};

// A charge whose states are all found, and locked until this ends. One a thread at a time.
class MemoryStore::Call {
  public:
    // With `generations`, the states that these name: a state that was made since is none.
    Call(Impl& store, const limit::Charge& charge, const limit::Now& now,
         std::span<const std::uint64_t> generations = {})
        // The divisor is read once: it may change while the charge is decided.
        : asked{charge, now, store.divisor.load(std::memory_order_relaxed), store.stands_in},
          work(scratch()),
          locks_(store.shards, shards_of(store.locate(charge, work.found))) {
        for (std::size_t i = 0; i < work.found.size(); ++i) {
            Found& found = work.found[i];
            Shard& shard = store.shards[found.shard];
            found.state = generations.empty() ? shard.find(found.name)
                                              : shard.find_made(found.name.hash, generations[i]);
        }
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

    limit::Asked asked;
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
    for (std::uint64_t& word : secret) {
        word = options.secret != 0 ? options.secret | 1
                                   : (std::uint64_t{device()} << 32 | device()) | 1;
    }
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
                         .name = {hash, of_policy, policy.name, item.identifier,
                                  policy.shadow && policy.twin_of == nullptr},
                         .shard = hash & (shard_count - 1),
                         .cost = charge.cost_of(item)});
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
    Call call(*impl_, charge, now);
    Scratch& work = call.work;
    begin_verdict(call.asked, work, verdict);
    if (choose_takers(verdict, work)) {
        if (!impl_->make_states(now, work.found)) {
            leave_out_unenforced(work);
            if (!impl_->make_states(now, work.found)) {
                if (verdict.admitted) return Outcome::full;
                // A denial stands, though what it should have counted has no room.
                for (Step& step : work.steps) step.takes = false;
            }
        }
        make_records(call.asked, work);
        store::take(call.asked, work);
    }
    end_verdict(call.asked, work, verdict);
    write_receipt(call.asked, work, verdict.receipt);
    return Outcome::decided;
}

void MemoryStore::load_ahead(const limit::ChargeItem& item, Ahead& ahead) const {
    if (ahead.step == 0) ahead.hash = impl_->hash_of(item.policy->name, item.identifier);
    const Shard& shard = impl_->shards[ahead.hash & (impl_->shard_count - 1)];
    switch (ahead.step++) {
        case 0:
            return shard.load_bucket(ahead.hash);
        case 1:
            return shard.load_state(ahead.hash);
        case 2:
            ahead.state = shard.find_by_hash(ahead.hash);
            if (ahead.state == nullptr) return;
            load_bytes(ahead.state->name.data(), ahead.state->name.size());
            return load_bytes(ahead.state->records.data(),
                              ahead.state->records.size() * sizeof(Record));
        default:
            if (ahead.state == nullptr) return;
            for (const Record& record : ahead.state->records) record.load_ahead();
    }
}

MemoryStore::Outcome MemoryStore::take(const limit::Charge& charge, const limit::Now& now) {
    Call call(*impl_, charge, now);
    Scratch& work = call.work;
    limit::Verdict verdict;
    begin_verdict(call.asked, work, verdict);
    verdict.admitted = verdict.shadow_admitted = true;
    if (!choose_takers(verdict, work)) return Outcome::decided;
    for (Step& step : work.steps) {
        if (step.limit->traits().has_slots) step.takes = false;
    }
    if (!impl_->make_states(now, work.found)) return Outcome::full;
    make_records(call.asked, work);
    store::take(call.asked, work);
    return Outcome::decided;
}

void MemoryStore::look(const limit::Charge& charge, const limit::Now& now,
                       limit::Verdict& verdict) {
    Call call(*impl_, charge, now);
    begin_verdict(call.asked, call.work, verdict);
    end_verdict(call.asked, call.work, verdict);
}

void MemoryStore::give_back(const limit::Refund& refund, const limit::Now& now) {
    const limit::Charge& charge = refund.charge;
    const auto& generations = refund.receipt->generations;
    if (!charge.takes() || generations.size() != charge.items.size()) return;
    Call call(*impl_, charge, now, generations);
    call.for_each_record([&](std::size_t item, const Limit& limit, State&, Record& record) {
        if (!refund.concerns(limit)) return;
        call.asked.cost = call.work.found[item].cost;
        if (call.asked.cost == 0) return;
        record.give_back(limit, call.asked, refund.receipt->at);
    });
}

void MemoryStore::release(const limit::Charge& charge, Micros until) {
    Call call(*impl_, charge, Micros{0});
    call.for_each_record([&](std::size_t, const Limit& limit, State& state, Record& record) {
        if (!limit.traits().has_slots) return;
        record.release(limit, call.asked, until);
        state.expires_us = std::max(state.expires_us, record.ends_us({}));
    });
}

Counts MemoryStore::count(std::span<const limit::ChargeItem> items, const limit::Now& now) const {
    const limit::Charge charge{.items = items, .cost = 1, .slot_hold = {}, .moment = now.wall};
    const Call call(*impl_, charge, now);
    Counts counts{now.wall};
    for (const Found& found : call.work.found) {
        counts.items.push_back(count_item(found, call.asked));
    }
    return counts;
}

std::string MemoryStore::counts_of(const limit::ChargeItem& item) const {
    const limit::Charge charge{.items = {&item, 1}};
    const Call call(*impl_, charge, Micros{0});
    const State* const state = call.work.found.front().state;
    limit::CountsWriter out;
    if (state == nullptr) return {};
    for (const Record& record : state->records) record.save(out);
    return out.bytes();
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

// Counts as bytes, for the process that takes the place of this one.
//
// The bytes are a head, then for each identifier a text of its name and its records, with a hash of
// that text, and an empty text in the end. What has the right hash is as a store has written it, so
// that records need no check of their own. They hold no secret of the store and no position in it.
// A request in flight holds a slot in the process that serves it: that slot is left out.
void MemoryStore::save(const std::function<void(std::string_view)>& put) const {
    put(kHead);
    limit::CountsWriter one;
    limit::CountsWriter out;
    for (std::size_t i = 0; i < impl_->shard_count; ++i) {
        Shard& shard = impl_->shards[i];
        bool goes_on = true;
        for (std::size_t bucket = 0; goes_on; bucket += kBucketsAtOnce) {
            out.clear();
            {
                const std::lock_guard lock(shard.mutex());
                goes_on = shard.visit(bucket, kBucketsAtOnce, [&](const State& state) {
                    one.clear();
                    one.text(state.name);
                    one.number(std::uint64_t{state.records.size()});
                    for (const Record& record : state.records) record.save(one);
                    out.text(one.bytes());
                    out.number(hash_of(one.bytes()));
                });
            }
            if (!out.bytes().empty()) put(out.bytes());
        }
    }
    out.clear();
    out.text({});
    put(out.bytes());
}

std::optional<std::size_t> MemoryStore::load(std::string_view bytes, const limit::Now& now) {
    if (!bytes.starts_with(kHead)) return std::nullopt;
    limit::CountsReader all(bytes.substr(kHead.size()));
    std::size_t loaded = 0;
    for (;;) {
        const std::string_view one = all.text();
        if (one.empty()) break;
        if (all.number() != hash_of(one) || all.is_broken()) return std::nullopt;
        limit::CountsReader in(one);
        const std::string_view whole = in.text();
        const std::size_t middle = whole.find('\0');
        std::vector<Record> records;
        std::int64_t expires_us = 0;
        for (std::size_t left = in.count(24); left > 0; --left) {
            auto record = Record::load(in);
            if (!record) return std::nullopt;
            expires_us = std::max(expires_us, record->ends_us(now));
            records.push_back(std::move(*record));
        }
        if (in.is_broken() || middle == std::string_view::npos) return std::nullopt;
        if (expires_us <= now.steady.count()) continue;
        if (impl_->put(whole.substr(0, middle), whole.substr(middle + 1), std::move(records),
                       expires_us, now)) {
            ++loaded;
        }
    }
    if (all.is_broken() || !all.is_at_end()) return std::nullopt;
    return loaded;
}

}  // namespace tidegate::store
