// The states of a shard by name: a hash table that grows by a bucket or two with each name, so that
// no name waits while all the others move. (Linear hashing: bucket `n` takes its states from bucket
// `n - bit_floor(n)`.)
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "store/memory_store_state.hpp"

namespace tidegate::store {

// Owns the states. Not thread-safe: the caller holds the mutex of the shard.
class StateTable {
  public:
    StateTable();

    // Null if there is no state of that name.
    State* find(const StateName& name) const;
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

}  // namespace tidegate::store
