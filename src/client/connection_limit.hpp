// Bounds on the connections of clients: how many there are, how many an address opens, and which
// one closes for a new client.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ip.hpp"
#include "base/result.hpp"
#include "client/connection.hpp"
#include "client/metrics.hpp"
#include "config/config.hpp"
#include "identity/client_ip.hpp"
#include "net/deadline.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::client {

// Bounds how many connections clients hold, in all and for each address. The whole process shares
// one count.
//
// Any thread. Costs an atomic for a connection that opens or closes, and where `per_ip` is set a
// look into a table under a lock that is held for a moment. Requests cost nothing. The table has an
// entry for each address that is connected, and no other.

// The address that `per_ip` counts connections of `peer` for, by the widest of the prefixes that
// count as one client (its bound is reached before any narrower one's). None for a trusted
// proxy, as all clients come through it, and for Unix sockets.
std::optional<IpAddress> counted_address(const identity::Peer& peer,
                                         const identity::ClientIpSettings& settings);

// The hash has a secret: clients choose among addresses, and must not be able to make many of them
// collide.
struct AddressHash {
    std::array<std::uint64_t, 2> secret{};

    static AddressHash with_secret();

    std::size_t operator()(const IpAddress& ip) const;
};

class ConnectionLimit {
    using Table = std::unordered_map<IpAddress, std::size_t, AddressHash>;

  public:
    // Counts one connection for as long as it lives. The limit must outlive it.
    class Slot {
      public:
        Slot(Slot&& other) noexcept
            : limit_(std::exchange(other.limit_, nullptr)), entry_(other.entry_) {}
        Slot& operator=(Slot&&) = delete;
        ~Slot() {
            if (limit_ != nullptr) limit_->give_back(entry_);
        }

      private:
        friend class ConnectionLimit;
        Slot(ConnectionLimit& limit, const Table::value_type* entry)
            : limit_(&limit), entry_(entry) {}

        ConnectionLimit* limit_;
        const Table::value_type* entry_;  // null: counted in all only
    };

    // Counts one connection that cannot speak HTTP yet: its PROXY header or its TLS handshake is
    // not finished. The limit must outlive it.
    class Unfinished {
      public:
        Unfinished(Unfinished&& other) noexcept : limit_(std::exchange(other.limit_, nullptr)) {}
        Unfinished& operator=(Unfinished&&) = delete;
        ~Unfinished() {
            if (limit_ != nullptr) limit_->unfinished_.fetch_sub(1, std::memory_order_relaxed);
        }

      private:
        friend class ConnectionLimit;
        explicit Unfinished(ConnectionLimit& limit) : limit_(&limit) {}

        ConnectionLimit* limit_;
    };

    // There are never more than `most` connections, whatever the bounds say.
    explicit ConnectionLimit(std::size_t most = std::numeric_limits<std::size_t>::max());

    // Returns a slot for one more connection, or the bound that is reached. Without an address, or
    // without a bound for one, the slot counts in all only.
    Result<Slot, ConnectionRefusal> take(const std::optional<IpAddress>& address,
                                         const config::Connections& bounds);

    // Counts a connection that holds a slot for `address`, too, which was not known when it took
    // the slot. False: the address has `per_ip` already.
    bool add_address(Slot& slot, const std::optional<IpAddress>& address,
                     const config::Connections& bounds);

    // Takes room for one more connection that cannot speak HTTP yet; nothing if there is none. Such
    // connections have a quarter of `max`, so that they leave room for those that send requests.
    std::optional<Unfinished> take_unfinished(const config::Connections& bounds);

    std::size_t taken() const { return taken_; }
    std::size_t unfinished() const { return unfinished_; }
    // How many addresses hold a slot.
    std::size_t addresses() const;

  private:
    struct alignas(64) Shard {
        mutable std::mutex mutex;
        Table table;  // guarded by mutex
    };
    static constexpr std::size_t kShards = 16;

    Shard& shard_of(const IpAddress& address);
    // Adds a connection to the entry of `address`, and returns it; null if the address has `per_ip`
    // already.
    const Table::value_type* add_to(const IpAddress& address, const config::Connections& bounds);
    void give_back(const Table::value_type* entry);

    const std::size_t most_;
    std::atomic<std::size_t> taken_{0};
    std::atomic<std::size_t> unfinished_{0};
    AddressHash hash_;
    std::array<Shard, kShards> shards_;
};

// Bounds how many connections each address opens in a second (`connections.new_per_ip`). The whole
// process shares one count.
//
// Each address has a bucket (gcra), which holds the connections of one second and fills at the
// rate. The memory is bounded: a full bucket is as good as none, so in a table of fixed size it is
// the fullest that gives its place to an address that is new. A flood of addresses can only make
// addresses of that flood, and few others, seem newer than they are. Any thread.
class ConnectionRate {
  public:
    // The number of addresses that the table has room for.
    static constexpr std::size_t kAddresses = 65'536;

    ConnectionRate();

    // Takes a connection of `address` (see counted_address()) from its bucket. False: the bucket is
    // empty, and stays as it is. Requires per_second >= 1, which may differ from call to call.
    bool admit(const IpAddress& address, std::uint32_t per_second, SteadyTime now);

  private:
    // An address may be in any place of its set.
    static constexpr std::size_t kPlaces = 8;
    static constexpr std::size_t kShards = 16;
    static constexpr std::size_t kSets = kAddresses / kPlaces / kShards;

    struct Place {
        std::uint64_t address = 0;  // its hash, which has a secret; 0: of none
        SteadyTime full_at{};
    };
    struct Shard {
        std::mutex mutex;
        std::vector<Place> places;  // guarded by mutex; empty until it is needed
    };

    AddressHash hash_;
    std::array<Shard, kShards> shards_;
};

// Makes room for a new client when `connections.max` is reached: if an address has more than a
// quarter of a worker's connections, it closes one of them that has no request.
//
// So one address cannot keep all others out by connections that it only holds. Owned by a worker,
// one thread.
class ConnectionEviction {
  public:
    // The least time between two counts of the connections: with many of them a count takes a
    // while.
    static constexpr std::chrono::seconds kCountEvery{1};
    // How many connections a search for one to close looks at.
    static constexpr std::size_t kLookedAt = 64;

    // Closes a connection for a client of `address` (see counted_address()), unless `address` has
    // more than a quarter itself. The connection gives its slot back later in this turn; its
    // descriptor is closed. Connections change their places. False when there is none to close.
    // Logs one eviction a minute.
    bool evict_for(const std::optional<IpAddress>& address, ServedConnectionList& connections,
                   const identity::ClientIpSettings& settings, SteadyTime now);

  private:
    void count(const ServedConnectionList& connections, const identity::ClientIpSettings& settings);
    void log(const IpAddress& address, SteadyTime now);

    HeavyHitters heavy_;
    std::optional<SteadyTime> counted_;
    telemetry::LogInterval log_interval_;
};

}  // namespace tidegate::client
