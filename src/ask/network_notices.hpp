// One notice an hour for each network, in bounded memory.
//
// Any thread. A thread that finds another one here goes on without waiting, and without a notice.
// Time is an argument.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>

#include "base/ip.hpp"

namespace tidegate::ask {

// The network of `address` that gets a notice of its own: /24 of IPv4, /64 of IPv6.
IpNetwork noticed_network(const IpAddress& address);

class NetworkNotices {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // While so many networks have had their notice within the hour, no other network gets one.
    static constexpr std::size_t kNetworksMax = 64;
    static constexpr std::chrono::hours kEvery{1};

    // True for the first request of the network of `peer`, and then once an hour. No address: a
    // Unix socket, which counts as a network.
    bool is_due(const std::optional<IpAddress>& peer, Time now);

  private:
    struct Notice {
        std::optional<IpAddress> network;
        Time next;
    };

    std::mutex mutex_;
    std::array<Notice, kNetworksMax> notices_;  // guarded by mutex_
    std::size_t size_ = 0;                      // likewise
};

}  // namespace tidegate::ask
