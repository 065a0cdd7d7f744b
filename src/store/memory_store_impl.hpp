// What a MemoryStore consists of. Only the files of its own members include this.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/secrets.hpp"
#include "limit/charge.hpp"
#include "store/memory_store.hpp"
#include "store/memory_store_shard.hpp"

namespace tidegate::store {

struct Found;

inline constexpr std::size_t kShardsMax = 64;  // a set of shards is the bits of one word

using Shards = std::array<Shard, kShardsMax>;

struct MemoryStore::Impl {
    explicit Impl(const Options& options);

    std::uint64_t hash_of_policy(std::string_view name) const {
        return hash_text(name, secret[0], secret[1]);
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

}  // namespace tidegate::store
