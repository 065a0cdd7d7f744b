#include "client/connection_eviction.hpp"

#include <algorithm>

#include "client/connection_limit.hpp"
#include "telemetry/log.hpp"

namespace tidegate::client {

bool ConnectionEviction::evict_for(const std::optional<IpAddress>& address,
                                   ServedConnectionList& connections,
                                   const identity::ClientIpSettings& settings, SteadyTime now) {
    if (!counted_ || now - *counted_ >= kCountEvery) {
        counted_ = now;
        count(connections, settings);
    }
    if (address && heavy_.contains(*address)) return false;
    for (std::size_t looked_at = 0; looked_at < kLookedAt && !connections.empty(); ++looked_at) {
        // Every connection gets its turn to be looked at.
        ServedConnection& one = connections.front();
        connections.splice(connections.end(), connections, connections.begin());
        const auto its = counted_address(one.peer(), settings);
        if (!its || !one.is_evictable() || !heavy_.contains(*its)) continue;
        log(*its, now);
        one.cut_off();
        return true;
    }
    return false;
}

void ConnectionEviction::count(const ServedConnectionList& connections,
                               const identity::ClientIpSettings& settings) {
    heavy_ = {};
    std::size_t all = 0;
    for (const ServedConnection& one : connections) {
        ++all;
        if (const auto address = counted_address(one.peer(), settings)) heavy_.add(*address);
    }
    heavy_.erase_if([&](const IpAddress& address) {
        const auto its =
            std::count_if(connections.begin(), connections.end(), [&](const ServedConnection& one) {
                return counted_address(one.peer(), settings) == address;
            });
        return static_cast<std::size_t>(its) <= std::max<std::size_t>(1, all / 4);
    });
}

void ConnectionEviction::log(const IpAddress& address, SteadyTime now) {
    if (!log_interval_.is_due(now)) return;
    telemetry::log(
        telemetry::Level::warn,
        "connections.max is reached and {} has more than a quarter of the connections of "
        "this thread: the proxy closes those of them that have no request, for other "
        "clients. Set connections.per_ip to bound each address",
        address.to_string());
}

}  // namespace tidegate::client
