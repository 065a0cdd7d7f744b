// Where a server of Redis is: a master, a sentinel, a node of a cluster.
#pragma once

#include <cstdint>
#include <string>

namespace tidegate::redis {

struct NodeAddress {
    std::string host;
    std::uint16_t port = 0;

    // `127.0.0.1:7000`, `[::1]:7000`
    std::string to_string() const {
        const bool v6 = host.find(':') != std::string::npos;
        return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
    }
    bool operator==(const NodeAddress&) const = default;
};

}  // namespace tidegate::redis
