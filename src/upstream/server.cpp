#include "upstream/server.hpp"

#include <algorithm>
#include <utility>

#include <boost/asio/ip/tcp.hpp>

namespace tidegate::upstream {

Server::Server(const config::UpstreamServer& settings)
    : settings_(&settings), address_(settings.address.to_string()) {
    const config::Address& address = settings.address;
    if (address.is_unix()) {
        endpoints_.push_back(asio::local::stream_protocol::endpoint(address.unix_path));
        return;
    }
    error_code ec;
    const auto ip = asio::ip::make_address(address.host, ec);
    has_name_ = ec.failed();
    if (!has_name_) endpoints_.push_back(asio::ip::tcp::endpoint(ip, address.port));
}

bool Server::connected() {
    fails_until_ = {};
    return std::exchange(is_down_, false);
}

void Server::connect_failed(SteadyTime now) {
    fails_until_ = now + kFailTimeout;
    is_down_ = true;
}

ConnectionPtr Server::take_idle() {
    ConnectionPtr connection = std::move(idle_.back().connection);
    idle_.pop_back();
    return connection;
}

ConnectionPtr Server::take_oldest_idle() {
    ConnectionPtr connection = std::move(idle_.front().connection);
    idle_.erase(idle_.begin());
    return connection;
}

Server& next_by_weight(std::vector<Server>& servers, const Server* other_than, SteadyTime now) {
    const auto is_usable = [&](const Server& server) {
        return &server != other_than && !server.failed_lately(now);
    };
    const bool any = std::any_of(servers.begin(), servers.end(), is_usable);
    Server* best = nullptr;
    std::int64_t weights = 0;
    for (Server& server : servers) {
        if (any ? !is_usable(server) : &server == other_than) continue;
        server.current_weight += server.settings().weight;
        weights += server.settings().weight;
        if (best == nullptr || server.current_weight > best->current_weight) best = &server;
    }
    best->current_weight -= weights;
    return *best;
}

}  // namespace tidegate::upstream
