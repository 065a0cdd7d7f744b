// Room for a new client when `connections.max` is reached: an address that has more than a quarter
// of a worker's connections gives one up on which no request is served.
//
// So one address cannot keep all others out by connections that it only holds. Owned by a worker,
// one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "base/heavy_hitters.hpp"
#include "base/ip.hpp"
#include "config/config.hpp"
#include "net/deadline.hpp"
#include "proxy/session.hpp"
#include "telemetry/log_interval.hpp"

namespace tidegate::app {

class ConnectionEviction {
  public:
    // The sessions are counted so often at most: with many of them that takes a while.
    static constexpr std::chrono::seconds kCountEvery{1};
    // So many are looked at for one that makes room.
    static constexpr std::size_t kLookedAt = 64;

    // Ends a session for a client of `holder` (see client::counted_address()), unless `holder` is
    // such an address itself. The session gives its slot back later in this turn; its descriptor is
    // closed. Sessions change their places. False when there is no session to end. The first of a
    // minute is logged.
    bool make(proxy::SessionList& sessions, const std::optional<IpAddress>& holder,
              const identity::ClientIpSettings& settings, SteadyTime now);

  private:
    void count(const proxy::SessionList& sessions, const identity::ClientIpSettings& settings);
    void say(const IpAddress& address, SteadyTime now);

    HeavyHitters crowds_;
    std::optional<SteadyTime> counted_;
    telemetry::LogInterval log_interval_;
};

}  // namespace tidegate::app
