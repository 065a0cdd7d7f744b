// How many connections clients hold: in all, and each address. One count for the whole process.
//
// Any thread. Costs an atomic for a connection that opens or closes, and where addresses are
// counted a look into a table under a lock nobody waits long for. Requests cost nothing. The table
// has an entry for each address that is connected, and no other.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/ip.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "identity/client_ip.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::app {

// Whose connections are counted together: an address, of IPv6 the widest of the prefixes that count
// as one client (its bound is reached before any narrower one's). Nothing for who may speak for
// others, as everybody comes through it, and for Unix sockets.
std::optional<IpAddress> seat_holder(const identity::Peer& peer,
                                     const identity::ClientIpSettings& settings);

// Clients choose among addresses and must not be able to pile them up: the hash has a secret.
struct AddressHash {
    std::array<std::uint64_t, 2> secret{};

    std::size_t operator()(const IpAddress& ip) const;
};

class ConnectionLimit {
    using Table = std::unordered_map<IpAddress, std::size_t, AddressHash>;

  public:
    // Counts one connection for as long as it lives. The seats must outlive it.
    class Seat {
      public:
        Seat(Seat&& other) noexcept
            : seats_(std::exchange(other.seats_, nullptr)), entry_(other.entry_) {}
        Seat& operator=(Seat&&) = delete;
        ~Seat() {
            if (seats_ != nullptr) seats_->give_back(entry_);
        }

      private:
        friend class ConnectionLimit;
        Seat(ConnectionLimit& seats, const Table::value_type* entry)
            : seats_(&seats), entry_(entry) {}

        ConnectionLimit* seats_;
        const Table::value_type* entry_;  // null: counted in all only
    };

    // There are never more than `most`, whatever the bounds say.
    explicit ConnectionLimit(std::size_t most = std::numeric_limits<std::size_t>::max());

    // A seat for one more, or the bound that has none left. No holder, or no bound for one: counted
    // in all only.
    Result<Seat, telemetry::ConnectionRefusal> take(const std::optional<IpAddress>& holder,
                                                    const config::Connections& bounds);

    std::size_t taken() const { return taken_; }
    // Addresses that hold a seat.
    std::size_t holders() const;

  private:
    struct alignas(64) Shard {
        mutable std::mutex mutex;
        Table table;  // guarded by mutex
    };
    static constexpr std::size_t kShards = 16;

    Shard& shard_of(const IpAddress& holder);
    void give_back(const Table::value_type* entry);

    const std::size_t most_;
    std::atomic<std::size_t> taken_{0};
    AddressHash hash_;
    std::array<Shard, kShards> shards_;
};

}  // namespace tidegate::app
