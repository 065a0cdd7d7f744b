#include "store/memory_store_table.hpp"

#include <utility>

namespace tidegate::store {
namespace {

constexpr std::size_t kBucketsAtFirst = 32;

}  // namespace

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

}  // namespace tidegate::store
