#include "store/memory_store_names.hpp"

#include <algorithm>

namespace tidegate::store {
namespace {

constexpr std::size_t kLooked = 8;      // states of each kind
constexpr std::size_t kStepsMost = 64;  // of each kind, past states that may not go
constexpr std::size_t kFurtherStepsMost = 4 * kStepsMost;  // if none of those may go

}  // namespace

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

}  // namespace tidegate::store
