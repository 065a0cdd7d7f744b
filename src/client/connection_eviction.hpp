// Room for a new client when `connections.max` is reached: of an address that has more than a
// quarter of a worker's connections, one without a request closes.
//
// So one address cannot keep all others out by connections that it only holds. Owned by a worker,
// one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "base/ip.hpp"
#include "client/served_connection.hpp"
#include "config/config.hpp"
#include "net/deadline.hpp"
#include "telemetry/log_interval.hpp"

namespace tidegate::client {

class ConnectionEviction {
  public:
    // How often connections are counted at most: with many of them that takes a while.
    static constexpr std::chrono::seconds kCountEvery{1};
    // How many connections are looked at for one to close.
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
