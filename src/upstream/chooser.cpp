#include "upstream/chooser.hpp"

namespace tidegate::upstream {

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
