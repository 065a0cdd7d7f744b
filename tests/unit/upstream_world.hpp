// What the tests of upstreams share: settings that come from no file, and addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/deadline.hpp"
#include "upstream/group.hpp"

namespace tidegate::upstream {

inline config::UpstreamServer server_at(const std::string& host, std::uint16_t port,
                                        int weight = 1) {
    return {{host, port, {}}, weight, host + ":" + std::to_string(port)};
}

inline config::Upstream upstream_of(std::vector<config::UpstreamServer> servers) {
    config::Upstream settings;
    settings.name = "api";
    settings.servers = std::move(servers);
    return settings;
}

inline StreamProtocol::endpoint endpoint_at(const char* ip, std::uint16_t port) {
    return asio::ip::tcp::endpoint(asio::ip::make_address(ip), port);
}

inline GroupPtr group_of(config::Upstream settings, std::size_t workers = 1,
                         const Group* former = nullptr) {
    return std::make_shared<Group>(std::move(settings), workers, former);
}

// Runs events until `is_done`. False: that was not so in good time.
template <class IsDone>
bool runs_until(asio::io_context& io, IsDone is_done) {
    const SteadyTime until = steady_now() + std::chrono::seconds{20};
    const auto guard = asio::make_work_guard(io);
    io.restart();
    while (!is_done()) {
        if (steady_now() >= until) return false;
        io.run_one_until(until);
    }
    return true;
}

}  // namespace tidegate::upstream
