#include "store/memory_store_shard.hpp"

#include <algorithm>
#include <utility>

namespace tidegate::store {
namespace {

constexpr std::size_t kSlotsAtFirst = 16;
// At capacity each new name looks at so many slots for what has expired.
constexpr std::size_t kSweepSteps = 64;
constexpr std::size_t kEvictionSamples = 16;
constexpr std::size_t kSampleSteps = 64;  // from a random slot to one that may go
constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

bool is_called(const State& state, const StateName& name) {
    const std::string_view whole = state.name;
    return whole.size() == name.policy.size() + 1 + name.identifier.size() &&
           whole.starts_with(name.policy) && whole[name.policy.size()] == '\0' &&
           whole.ends_with(name.identifier);
}

}  // namespace

std::size_t State::find(const limit::Limit& limit, std::size_t hint) const {
    if (hint < records.size() && records[hint].counts(limit)) return hint;
    const auto found = std::find_if(records.begin(), records.end(),
                                    [&](const Record& record) { return record.counts(limit); });
    return static_cast<std::size_t>(found - records.begin());
}

bool State::may_go() const {
    return !pinned && std::none_of(records.begin(), records.end(),
                                   [](const Record& record) { return record.holds_slots(); });
}

double State::fullness(std::int64_t now_us) const {
    double fullest = 0;
    for (const Record& record : records) fullest = std::max(fullest, record.fullness(now_us));
    return fullest;
}

void Shard::configure(std::size_t capacity, std::uint64_t seed) {
    capacity_ = capacity;
    random_ = seed | 1;
    slots_.resize(kSlotsAtFirst);
}

State* Shard::find(const StateName& name) {
    const std::size_t position = position_of(name);
    return position == kNowhere ? nullptr : slots_[position].state.get();
}

State* Shard::insert(const StateName& name, std::int64_t now_us, bool evict) {
    if (size() >= capacity_) sweep(kSweepSteps, now_us);
    if (size() > capacity_ && evict) evict_emptiest(now_us);  // it was lowered
    if (size() >= capacity_ && !(evict && evict_emptiest(now_us))) return nullptr;
    if ((size() + 1) * 4 > slots_.size() * 3) widen(now_us);

    auto state = std::make_unique<State>();
    state->name.reserve(name.policy.size() + 1 + name.identifier.size());
    state->name.append(name.policy).append(1, '\0').append(name.identifier);
    state->generation = ++made_;
    state->pinned = true;
    State* const made = state.get();
    place(Slot{name.hash, std::move(state)});
    size_.store(size() + 1, std::memory_order_relaxed);
    return made;
}

void Shard::erase(const StateName& name) {
    if (const std::size_t position = position_of(name); position != kNowhere) erase_at(position);
}

bool Shard::forget(const StateName& name) {
    const std::size_t position = position_of(name);
    if (position == kNowhere) return false;
    State& state = *slots_[position].state;
    const auto is_something = [](const Record& record) {
        return !record.is_of_slots() && record.ends_us() > 0;
    };
    const bool any = std::any_of(state.records.begin(), state.records.end(), is_something);
    std::erase_if(state.records, [](const Record& record) {
        return !record.is_of_slots() || (!record.holds_slots() && record.ends_us() == 0);
    });
    if (state.records.empty()) {
        erase_at(position);
    } else {
        state.generation = ++made_;
        state.expires_us = 0;
        for (const Record& record : state.records) {
            state.expires_us = std::max(state.expires_us, record.ends_us());
        }
    }
    return any;
}

std::size_t Shard::position_of(const StateName& name) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = home(name.hash); slots_[i].state; i = (i + 1) & mask) {
        if (slots_[i].hash == name.hash && is_called(*slots_[i].state, name)) return i;
    }
    return kNowhere;
}

// What has expired makes room first. The table doubles only if that was less than a quarter of it,
// so that the work, here and there, stays a constant a name.
void Shard::widen(std::int64_t now_us) {
    sweep(slots_.size() + size(), now_us);
    if (size() * 2 <= slots_.size()) return;
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (Slot& slot : old) {
        if (slot.state) place(std::move(slot));
    }
}

void Shard::place(Slot slot) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = home(slot.hash);
    while (slots_[i].state) i = (i + 1) & mask;
    slots_[i] = std::move(slot);
}

// Closes the gap by moving back what was pushed past it, so that no tombstones pile up.
void Shard::erase_at(std::size_t position) {
    const std::size_t mask = slots_.size() - 1;
    slots_[position].state.reset();
    size_.store(size() - 1, std::memory_order_relaxed);
    std::size_t gap = position;
    for (std::size_t i = (gap + 1) & mask; slots_[i].state; i = (i + 1) & mask) {
        const std::size_t from_home = (i - home(slots_[i].hash)) & mask;
        if (from_home < ((i - gap) & mask)) continue;
        slots_[gap] = std::move(slots_[i]);
        gap = i;
    }
}

void Shard::sweep(std::size_t steps, std::int64_t now_us) {
    const std::size_t mask = slots_.size() - 1;
    for (; steps > 0; --steps) {
        hand_ &= mask;
        const State* const state = slots_[hand_].state.get();
        if (state != nullptr && state->has_expired(now_us)) {
            erase_at(hand_);  // what moved into the gap is looked at next
        } else {
            ++hand_;
        }
    }
}

bool Shard::evict_emptiest(std::int64_t now_us) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t emptiest = kNowhere;
    double least = 0;
    for (std::size_t sample = 0; sample < kEvictionSamples; ++sample) {
        std::size_t i = random() & mask;
        const auto goes = [&] { return slots_[i].state && slots_[i].state->may_go(); };
        // At least one slot in three is in use at capacity, or the table is small: this ends soon,
        // unless nearly all must stay.
        for (std::size_t step = 0; !goes() && step < kSampleSteps; ++step) i = (i + 1) & mask;
        if (!goes()) continue;
        const double fullness = slots_[i].state->fullness(now_us);
        if (emptiest != kNowhere && fullness >= least) continue;
        emptiest = i;
        least = fullness;
    }
    if (emptiest == kNowhere) return false;
    erase_at(emptiest);
    evictions_.store(evictions() + 1, std::memory_order_relaxed);
    return true;
}

// xorshift64: good enough to sample by, and nobody outside sees it.
std::uint64_t Shard::random() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
}

}  // namespace tidegate::store
