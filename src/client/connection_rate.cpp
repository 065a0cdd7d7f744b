#include "client/connection_rate.hpp"

#include <algorithm>
#include <chrono>
#include <span>

namespace tidegate::client {

namespace {

constexpr std::chrono::nanoseconds kBucketTime = std::chrono::seconds{1};

}  // namespace

ConnectionRate::ConnectionRate() : hash_(AddressHash::with_secret()) {}

bool ConnectionRate::admit(const IpAddress& address, std::uint32_t per_second, SteadyTime now) {
    const std::uint64_t hash = std::max<std::uint64_t>(1, hash_(address));
    Shard& shard = shards_[hash % kShards];
    const std::lock_guard lock(shard.mutex);
    if (shard.places.empty()) shard.places.resize(kSets * kPlaces);
    const std::span<Place> set(shard.places.data() + (hash / kShards % kSets) * kPlaces, kPlaces);
    auto place =
        std::find_if(set.begin(), set.end(), [&](const Place& one) { return one.address == hash; });
    if (place == set.end()) {
        place = std::min_element(set.begin(), set.end(), [](const Place& a, const Place& b) {
            return a.full_at < b.full_at;
        });
        *place = {hash, now};
    }
    const SteadyTime full_at = std::max(place->full_at, now) + kBucketTime / per_second;
    if (full_at > now + kBucketTime) return false;
    place->full_at = full_at;
    return true;
}

}  // namespace tidegate::client
