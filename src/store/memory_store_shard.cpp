#include "store/memory_store_shard.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace tidegate::store {

namespace {

constexpr std::size_t kLooked = 8;      // states of each kind
constexpr std::size_t kStepsMost = 64;  // of each kind, past states that may not go
constexpr std::size_t kFurtherStepsMost = 4 * kStepsMost;  // if none of those may go

constexpr std::size_t kBucketsAtFirst = 32;

// A new name looks at so many buckets for expired ones: at capacity, and before the table grows.
// That is more than it grows by, so names that expired make room instead.
constexpr std::size_t kSweepStepsAtCapacity = 64;
constexpr std::size_t kSweepStepsToGrow = 3;

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();  // any number of names

// Of weights, which are microseconds or infinite.
constexpr std::int64_t kInfinite = -1;

}  // namespace

void Record::save(limit::CountsWriter& out) const {
    out.number(std::uint64_t{id_});
    out.number(std::uint64_t{kept_.index()});
    out.number(std::isfinite(weight_) ? static_cast<std::int64_t>(weight_) : kInfinite);
    with([&](const auto& kind) { kind.save(out); });
}

std::optional<Record> Record::load(limit::CountsReader& in) {
    const auto id = static_cast<std::uint32_t>(in.number());
    const std::uint64_t kind = in.number();
    if (kind >= limit::kStateKinds) return std::nullopt;
    const std::int64_t weight = in.time_us();
    Record record(id, static_cast<limit::StateKind>(kind));
    record.with([&](auto& one) { one.load(in); });
    record.weight_ =
        weight == kInfinite ? std::numeric_limits<float>::infinity() : static_cast<float>(weight);
    if (in.is_broken()) return std::nullopt;
    return record;
}

void Record::reset(std::uint32_t id, limit::StateKind kind) {
    id_ = id;
    weight_ = 0;
    limit::with_kind(kind, [&]<class Kind>(std::type_identity<Kind>) {
        constexpr std::size_t kPlace = boost::mp11::mp_find<limit::Kinds, Kind>::value;
        if constexpr (std::is_same_v<Kept<Kind>, Kind>) {
            kept_.emplace<kPlace>();
        } else {
            kept_.emplace<kPlace>(std::make_unique<Kind>());
        }
    });
}

void Record::give_back(const limit::Limit& limit, const limit::Asked& asked, limit::Micros at) {
    weight_ = static_cast<float>(with([&](auto& kind) {
        kind.give_back(limit, asked, at);
        return kind.weight(limit, asked);
    }));
}

void Record::release(const limit::Limit& limit, const limit::Asked& asked, limit::Micros until) {
    weight_ = static_cast<float>(with([&](auto& kind) {
        kind.release(asked.charge.slot_hold, until);
        return kind.weight(limit, asked);
    }));
}

std::size_t State::find(const limit::Limit& limit, std::size_t hint) const {
    if (hint < records.size() && records[hint].counts(limit)) return hint;
    const auto found = std::find_if(records.begin(), records.end(),
                                    [&](const Record& record) { return record.counts(limit); });
    return static_cast<std::size_t>(found - records.begin());
}

bool State::may_go() const {
    return !pinned && std::none_of(records.begin(), records.end(),
                                   [](const Record& record) { return record.is_held(); });
}

bool State::has_expired(const limit::Now& now) const {
    const std::int64_t now_us = now.steady.count();
    return expires_us <= now_us && may_go() &&
           std::none_of(records.begin(), records.end(),
                        [&](const Record& record) { return record.ends_us(now) > now_us; });
}

double State::weight(const limit::Now& now) const {
    double heaviest = 0;
    for (const Record& record : records) heaviest = std::max(heaviest, record.weight(now));
    return heaviest;
}

bool is_called(const State& state, const StateName& name) {
    const std::string_view whole = state.name;
    return whole.size() == name.policy.size() + 1 + name.identifier.size() &&
           whole.starts_with(name.policy) && whole[name.policy.size()] == '\0' &&
           whole.ends_with(name.identifier);
}

void PolicyNames::add(State& state) {
    state.settled = false;
    state.older = newest_;
    state.newer = nullptr;
    (newest_ != nullptr ? newest_->newer : oldest_) = &state;
    newest_ = &state;
    if (mark_ == nullptr) mark_ = &state;
    ++size_;
    ++fresh_;
    move_mark();
}

void PolicyNames::remove(State& state) {
    if (mark_ == &state) mark_ = state.newer;
    if (hand_ == &state) hand_ = state.newer;
    if (further_ == &state) further_ = state.newer;
    (state.older != nullptr ? state.older->newer : oldest_) = state.newer;
    (state.newer != nullptr ? state.newer->older : newest_) = state.older;
    --size_;
    if (!state.settled) --fresh_;
    move_mark();
}

// By a step or two: a name came or went.
void PolicyNames::move_mark() {
    const std::size_t fresh = std::max<std::size_t>(size_ / 4, std::min<std::size_t>(size_, 1));
    for (; fresh_ > fresh; --fresh_) {
        mark_->settled = true;
        mark_ = mark_->newer;
    }
    for (; fresh_ < fresh; ++fresh_) {
        mark_ = mark_ != nullptr ? mark_->older : newest_;
        mark_->settled = false;
    }
}

PolicyNames::Choice PolicyNames::choose(const limit::Now& now) {
    Choice choice;
    if (hand_ == nullptr || !hand_->settled) hand_ = oldest_;
    if (hand_ != nullptr && hand_->settled) {
        std::size_t steps = kStepsMost;
        hand_ = look_from(hand_, mark_, kLooked, steps, now, choice);
    }
    // Half of those that have not settled have to stay.
    std::size_t steps = kStepsMost;
    look_from(mark_, nullptr, std::min(kLooked, (fresh_ + 1) / 2), steps, now, choice);
    if (choice.state == nullptr) look_on(now, choice);
    if (!decides()) choice.weight = 0;
    return choice;
}

// To the newest, and then from the oldest.
void PolicyNames::look_on(const limit::Now& now, Choice& choice) {
    std::size_t steps = std::min(kFurtherStepsMost, size_);
    while (choice.state == nullptr && steps > 0) {
        if (further_ == nullptr) further_ = oldest_;
        further_ = look_from(further_, nullptr, kLooked, steps, now, choice);
    }
}

// Looks at up to `most` states that may go, from `from` towards `end`, for a better choice, and
// takes what it goes from `steps`, which bounds it. Returns where it stopped.
State* PolicyNames::look_from(State* from, const State* end, std::size_t most, std::size_t& steps,
                              const limit::Now& now, Choice& choice) {
    for (; from != end && most > 0 && steps > 0; --steps) {
        State& state = *from;
        from = state.newer;
        if (!state.may_go()) continue;
        --most;
        const double weight = state.weight(now);
        // It is newer than those before it.
        if (choice.state != nullptr && weight > choice.weight) continue;
        choice = {&state, weight};
    }
    return from;
}

StateTable::StateTable() : buckets_(kBucketsAtFirst) {
    segments_.push_back(std::make_unique<std::array<Bucket, kSegment>>());
}

State* StateTable::find(const StateName& name) const {
    State* state = first(bucket_of(name.hash));
    while (state != nullptr && (state->hash != name.hash || !is_called(*state, name))) {
        state = state->next.get();
    }
    return state;
}

void StateTable::insert(std::unique_ptr<State> state) {
    while (grows_next()) add_bucket();
    Bucket& bucket = bucket_at(bucket_of(state->hash));
    state->next = std::move(bucket);
    bucket = std::move(state);
    ++states_;
}

void StateTable::erase(const State& state) {
    Bucket* place = &bucket_at(bucket_of(state.hash));
    while (place->get() != &state) place = &(*place)->next;
    // In this order: the state must not go while the next one is still its own.
    const Bucket gone = std::exchange(*place, std::move((*place)->next));
    --states_;
}

void StateTable::add_bucket() {
    if (buckets_ % kSegment == 0) {
        segments_.push_back(std::make_unique<std::array<Bucket, kSegment>>());
    }
    Bucket* place = &bucket_at(buckets_ - std::bit_floor(buckets_));
    Bucket* const made = &bucket_at(buckets_);
    const std::size_t added = buckets_++;
    while (*place) {
        if (bucket_of((*place)->hash) != added) {
            place = &(*place)->next;
            continue;
        }
        Bucket moved = std::exchange(*place, std::move((*place)->next));
        moved->next = std::move(*made);
        *made = std::move(moved);
    }
}

void Shard::set_policies(PolicyHashes policies) {
    configured_ = std::move(policies);
    for (PolicyNames& names : policies_) {
        names.set_share(
            std::binary_search(configured_->begin(), configured_->end(), names.policy()));
    }
}

State* Shard::insert(const StateName& name, const limit::Now& now, bool evict) {
    if (size() >= capacity_) {
        sweep(kSweepStepsAtCapacity, now);
    } else if (table_.grows_next()) {
        sweep(kSweepStepsToGrow, now);
    }
    const std::uint32_t policy = policy_of(name);
    if (size() > capacity_ && evict) evict_for(policy, now);  // it was lowered
    if (size() >= capacity_ && !(evict && evict_for(policy, now))) return nullptr;

    auto state = std::make_unique<State>();
    state->name.reserve(name.policy.size() + 1 + name.identifier.size());
    state->name.append(name.policy).append(1, '\0').append(name.identifier);
    state->hash = name.hash;
    state->generation = ++made_;
    state->policy = policy;
    state->pinned = true;
    State* const made = state.get();
    table_.insert(std::move(state));
    policies_[policy].add(*made);
    size_.store(size() + 1, std::memory_order_relaxed);
    return made;
}

void Shard::erase(State& state) {
    policies_[state.policy].remove(state);
    table_.erase(state);
    size_.store(size() - 1, std::memory_order_relaxed);
}

bool Shard::forget(const StateName& name) {
    State* const state = find(name);
    if (state == nullptr) return false;
    const auto is_something = [](const Record& record) {
        return !record.stays() && record.ends_us({}) > 0;
    };
    const bool any = std::any_of(state->records.begin(), state->records.end(), is_something);
    std::erase_if(state->records, [](const Record& record) {
        return !record.stays() || (!record.is_held() && record.ends_us({}) == 0);
    });
    if (state->records.empty()) {
        erase(*state);
    } else {
        state->generation = ++made_;
        state->expires_us = 0;
        for (const Record& record : state->records) {
            state->expires_us = std::max(state->expires_us, record.ends_us({}));
        }
    }
    return any;
}

// Policies are few: a walk past their hashes, for new names alone.
std::uint32_t Shard::policy_of(const StateName& name) {
    auto place = std::find_if(policies_.begin(), policies_.end(), [&](const PolicyNames& names) {
        return names.policy() == name.policy_hash;
    });
    if (place == policies_.end()) {
        place = std::find_if(policies_.begin(), policies_.end(),
                             [](const PolicyNames& names) { return names.size() == 0; });
        if (place == policies_.end()) place = policies_.emplace(place, name.policy_hash);
        *place = PolicyNames(name.policy_hash);
        place->set_share(
            configured_ == nullptr ||
            std::binary_search(configured_->begin(), configured_->end(), name.policy_hash));
    }
    place->set_shadow(name.shadow);
    return static_cast<std::uint32_t>(place - policies_.begin());
}

void Shard::sweep(std::size_t steps, const limit::Now& now) {
    for (; steps > 0; --steps) {
        if (++hand_ >= table_.buckets()) hand_ = 0;
        for (State* state = table_.first(hand_); state != nullptr;) {
            State* const next = state->next.get();
            if (state->has_expired(now)) erase(*state);
            state = next;
        }
    }
}

// Makes room for a name of policy `own`. Each policy with names has an equal share of the table,
// and no other policy's name pushes it below that. Of the names above the share the lightest goes;
// of equals one of the policy that asks for room. Where slots in flight leave none above it, a
// policy in its share makes room for one that has fewer names.
bool Shard::evict_for(std::uint32_t own, const limit::Now& now) {
    const std::size_t share = share_beside(own);
    PolicyNames& mine = policies_[own];
    PolicyNames::Choice choice = ask_others(own, share, kAny, now);
    const bool is_owed_room = mine.has_share() && mine.size() < share;
    if (choice.state == nullptr && is_owed_room && mine.decides()) {
        choice = ask_others(own, mine.size(), share, now);
    }
    if (choice.state == nullptr || !is_owed_room) {
        const PolicyNames::Choice from_mine = mine.choose(now);
        const bool is_lighter = choice.state == nullptr || from_mine.weight <= choice.weight;
        if (from_mine.state != nullptr && is_lighter) choice = from_mine;
    }
    if (choice.state == nullptr) return false;
    // Only an identifier that still counts loses its count; the sweep has not come to an expired
    // one.
    if (!choice.state->has_expired(now)) {
        evictions_.store(evictions() + 1, std::memory_order_relaxed);
    }
    erase(*choice.state);
    return true;
}

// What each policy may hold, that one included which asks for room.
std::size_t Shard::share_beside(std::uint32_t own) const {
    std::size_t policies = 0;
    for (const PolicyNames& names : policies_) {
        const bool has_names = names.size() > 0 || &names == &policies_[own];
        if (has_names && names.has_share()) ++policies;
    }
    return capacity_ / std::max<std::size_t>(1, policies);
}

// Asks the other policies that hold more than `above` names and up to `up_to`, each once, for a
// name that may go, until one has some. One whose counts decide nothing comes first, then the one
// that holds the most; all that one without a share holds is above the share.
PolicyNames::Choice Shard::ask_others(std::uint32_t own, std::size_t above, std::size_t up_to,
                                      const limit::Now& now) {
    // Whether its counts decide nothing, the number that it holds, and which it is: no two compare
    // equal.
    using Rank = std::tuple<bool, std::size_t, std::size_t>;
    for (Rank last{true, kAny, 0};;) {
        Rank first{false, 0, 0};
        PolicyNames* next = nullptr;
        for (std::size_t i = 0; i < policies_.size(); ++i) {
            PolicyNames& names = policies_[i];
            if (i == own || names.size() == 0) continue;
            const std::size_t held = names.size() + (names.has_share() ? 0 : capacity_);
            const Rank rank{!names.decides(), held, policies_.size() - i};
            if (held <= above || held > up_to || rank >= last || rank <= first) continue;
            first = rank;
            next = &names;
        }
        if (next == nullptr) return {};
        const PolicyNames::Choice choice = next->choose(now);
        if (choice.state != nullptr) return choice;
        last = first;
    }
}

}  // namespace tidegate::store
