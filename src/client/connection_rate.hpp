// How many connections each address opens in a second (`connections.new_per_ip`). One count for the
// whole process.
//
// A bucket for each address (gcra): it holds the connections of one second, and fills at the rate.
// The memory is bounded: a full bucket is as good as none, so in a table of fixed size it is the
// fullest that gives its place to an address that is new. A flood of addresses can only make
// addresses of that flood, and few others, seem newer than they are. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/ip.hpp"
#include "client/connection_limit.hpp"
#include "net/deadline.hpp"

namespace tidegate::client {

class ConnectionRate {
  public:
    // Addresses that the table has room for.
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

}  // namespace tidegate::client
