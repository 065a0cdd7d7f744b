// What `tidegate inspect --upstreams`, /readyz and /metrics say of the servers of an upstream.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/described_enum.hpp"

namespace tidegate::upstream {

// Whether requests go to a server.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    ServerHealth, std::uint8_t,
    up,         // as far as is known: a server without checks is up unless it is ejected
    unhealthy,  // its checks fail
    ejected)    // its requests failed, and others can serve

struct ServerStatus {
    std::string server;      // `10.0.0.7:3000`, or the socket's path
    std::string configured;  // as the configuration names it: `api.internal:3000`
    int weight = 1;
    ServerHealth health = ServerHealth::up;
    bool is_checked = false;     // a check has ended
    std::uint32_t active = 0;    // in flight, and those that wait for a connection
    std::uint64_t requests = 0;  // for which the server was chosen
    std::uint64_t failures = 0;
    std::uint64_t ejections = 0;
};

struct UpstreamStatus {
    std::string upstream;
    std::vector<ServerStatus> servers;
    std::vector<std::string> unresolved;  // names that have no address yet
    std::uint32_t names_failing = 0;      // names whose last look-up found no address
    std::uint32_t connections = 0;
    std::uint32_t connections_max = 0;
    std::uint32_t queued = 0;
};

}  // namespace tidegate::upstream
