#include "client/connection_limit.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <random>
#include <span>

#include "base/secrets.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::client {

namespace {

constexpr std::chrono::nanoseconds kBucketTime = std::chrono::seconds{1};

}  // namespace

std::optional<IpAddress> counted_address(const identity::Peer& peer,
                                         const identity::ClientIpSettings& settings) {
    if (!peer.address || peer.trusted || peer.is_gateway) return std::nullopt;
    return settings.prefixes.widest(*peer.address);
}

std::size_t AddressHash::operator()(const IpAddress& ip) const {
    std::array<std::uint64_t, 2> words{};
    static_assert(sizeof words == sizeof ip.bytes);
    std::memcpy(words.data(), ip.bytes.data(), sizeof words);
    return mix(mix(words[0] ^ secret[0], secret[1]) ^ words[1], secret[0]);
}

AddressHash AddressHash::with_secret() {
    std::random_device random;
    AddressHash hash;
    // Odd, so never 0, which would make all alike.
    for (auto& half : hash.secret) half = (std::uint64_t{random()} << 32) | random() | 1;
    return hash;
}

ConnectionLimit::ConnectionLimit(std::size_t most)
    : most_(most), hash_(AddressHash::with_secret()) {
    for (Shard& shard : shards_) shard.table = Table(0, hash_);
}

ConnectionLimit::Shard& ConnectionLimit::shard_of(const IpAddress& address) {
    // The table takes the hash modulo its size; the shard comes from other bits.
    return shards_[(hash_(address) >> 32) % kShards];
}

Result<ConnectionLimit::Slot, ConnectionRefusal> ConnectionLimit::take(
    const std::optional<IpAddress>& address, const config::Connections& bounds) {
    if (taken_.fetch_add(1, std::memory_order_relaxed) >= std::min(bounds.max, most_)) {
        taken_.fetch_sub(1, std::memory_order_relaxed);
        return ConnectionRefusal::max;
    }
    Slot slot(*this, nullptr);
    if (!add_address(slot, address, bounds)) return ConnectionRefusal::per_ip;
    return slot;
}

bool ConnectionLimit::add_address(Slot& slot, const std::optional<IpAddress>& address,
                                  const config::Connections& bounds) {
    assert(slot.entry_ == nullptr);
    if (!address || bounds.per_ip == 0) return true;
    slot.entry_ = add_to(*address, bounds);
    return slot.entry_ != nullptr;
}

std::optional<ConnectionLimit::Unfinished> ConnectionLimit::take_unfinished(
    const config::Connections& bounds) {
    const std::size_t most = std::max<std::size_t>(1, std::min(bounds.max, most_) / 4);
    if (unfinished_.fetch_add(1, std::memory_order_relaxed) < most) return Unfinished(*this);
    unfinished_.fetch_sub(1, std::memory_order_relaxed);
    return std::nullopt;
}

const ConnectionLimit::Table::value_type* ConnectionLimit::add_to(
    const IpAddress& address, const config::Connections& bounds) {
    Shard& shard = shard_of(address);
    const std::lock_guard lock(shard.mutex);
    // A new one has room: the bound is not 0.
    const auto entry = shard.table.try_emplace(address, 0).first;
    if (entry->second >= bounds.per_ip) return nullptr;
    ++entry->second;
    return &*entry;
}

void ConnectionLimit::give_back(const Table::value_type* entry) {
    taken_.fetch_sub(1, std::memory_order_relaxed);
    if (entry == nullptr) return;
    Shard& shard = shard_of(entry->first);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.table.find(entry->first);
    if (--found->second == 0) shard.table.erase(found);
}

std::size_t ConnectionLimit::addresses() const {
    std::size_t sum = 0;
    for (const Shard& shard : shards_) {
        const std::lock_guard lock(shard.mutex);
        sum += shard.table.size();
    }
    return sum;
}

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

bool ConnectionEviction::evict_for(const std::optional<IpAddress>& address,
                                   ServedConnectionList& connections,
                                   const identity::ClientIpSettings& settings, SteadyTime now) {
    if (!counted_ || now - *counted_ >= kCountEvery) {
        counted_ = now;
        count(connections, settings);
    }
    if (address && heavy_.contains(*address)) return false;
    for (std::size_t looked_at = 0; looked_at < kLookedAt && !connections.empty(); ++looked_at) {
        // Every connection gets its turn to be looked at.
        ServedConnection& one = connections.front();
        connections.splice(connections.end(), connections, connections.begin());
        const auto its = counted_address(one.peer(), settings);
        if (!its || !one.is_evictable() || !heavy_.contains(*its)) continue;
        log(*its, now);
        one.cut_off();
        return true;
    }
    return false;
}

void ConnectionEviction::count(const ServedConnectionList& connections,
                               const identity::ClientIpSettings& settings) {
    heavy_ = {};
    std::size_t all = 0;
    for (const ServedConnection& one : connections) {
        ++all;
        if (const auto address = counted_address(one.peer(), settings)) heavy_.add(*address);
    }
    heavy_.erase_if([&](const IpAddress& address) {
        const auto its =
            std::count_if(connections.begin(), connections.end(), [&](const ServedConnection& one) {
                return counted_address(one.peer(), settings) == address;
            });
        return static_cast<std::size_t>(its) <= std::max<std::size_t>(1, all / 4);
    });
}

void ConnectionEviction::log(const IpAddress& address, SteadyTime now) {
    if (!log_interval_.is_due(now)) return;
    telemetry::log(
        telemetry::Level::warn,
        "connections.max is reached and {} has more than a quarter of the connections of "
        "this thread: the proxy closes those of them that have no request, for other "
        "clients. Set connections.per_ip to bound each address",
        address.to_string());
}

}  // namespace tidegate::client
