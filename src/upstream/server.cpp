#include "upstream/server.hpp"

#include <utility>

namespace tidegate::upstream {

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

Http2ConnectionPtr Server::find_http2(bool is_fresh) const {
    for (const Http2ConnectionPtr& connection : http2_) {
        if (is_fresh && connection->has_answered()) continue;
        if (connection->has_room()) return connection;
    }
    return nullptr;
}

std::uint32_t Server::streams_said() const {
    for (const Http2ConnectionPtr& connection : http2_) {
        if (const std::uint32_t said = connection->streams_said()) return said;
    }
    return streams_said_;
}

std::uint32_t Server::list_bytes_said() const {
    for (const Http2ConnectionPtr& connection : http2_) {
        if (connection->streams_said() > 0) return connection->list_bytes_said();
    }
    return list_bytes_said_;
}

// A connection that has ended before its SETTINGS takes the bound of heads with it: the server may
// take larger ones by now, and would never be asked if every request were too large.
void Server::forget(const Http2Connection& connection) {
    if (const std::uint32_t said = connection.streams_said()) streams_said_ = said;
    list_bytes_said_ = connection.list_bytes_said();
    std::erase_if(http2_, [&](const Http2ConnectionPtr& one) { return one.get() == &connection; });
}

Chooser::Chooser(const config::Upstream& settings, std::size_t worker)
    : round_robin_(worker, settings.slow_start) {
    if (settings.balance == config::Balance::least_connections) {
        least_connections_.emplace(worker, settings.slow_start);
    } else if (settings.balance == config::Balance::hash) {
        hash_.emplace(settings.slow_start);
    }
}

void Chooser::reset(const std::vector<ServerPtr>& servers) {
    states_.clear();
    for (const ServerPtr& server : servers) states_.push_back(&server->shared().state);
    if (least_connections_) {
        least_connections_->reset(states_);
        return;
    }
    if (hash_) hash_->reset(states_);
    round_robin_.reset(states_);
}

balance::Chosen Chooser::choose(std::optional<std::uint64_t> key, SteadyTime now,
                                const balance::Tried& tried) {
    if (least_connections_) return least_connections_->choose(now, tried);
    if (hash_ && key) return hash_->choose(now, *key, tried);
    return round_robin_.choose(now, tried);
}

}  // namespace tidegate::upstream
