#include "store/memory_store_shard.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace tidegate::store {
namespace {

// A new name looks at so many buckets for expired ones: at capacity, and before the table grows.
// That is more than it grows by, so names that expired make room instead.
constexpr std::size_t kSweepStepsAtCapacity = 64;
constexpr std::size_t kSweepStepsToGrow = 3;

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();  // any number of names

}  // namespace

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
        return !record.is_of_slots() && record.ends_us({}) > 0;
    };
    const bool any = std::any_of(state->records.begin(), state->records.end(), is_something);
    std::erase_if(state->records, [](const Record& record) {
        return !record.is_of_slots() || (!record.holds_slots() && record.ends_us({}) == 0);
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
    erase(*choice.state);
    evictions_.store(evictions() + 1, std::memory_order_relaxed);
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
