#include "app/connection_eviction.hpp"

#include <algorithm>

#include "client/connection_limit.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {}  // namespace

bool ConnectionEviction::make(proxy::SessionList& sessions, const std::optional<IpAddress>& holder,
                              const identity::ClientIpSettings& settings, SteadyTime now) {
    if (!counted_ || now - *counted_ >= kCountEvery) {
        counted_ = now;
        count(sessions, settings);
    }
    if (holder && crowds_.contains(*holder)) return false;
    for (std::size_t looked_at = 0; looked_at < kLookedAt && !sessions.empty(); ++looked_at) {
        // Every session gets its turn to be looked at.
        proxy::Session& session = sessions.front();
        sessions.splice(sessions.end(), sessions, sessions.begin());
        const auto address = client::counted_address(session.peer(), settings);
        if (!address || !session.may_make_room() || !crowds_.contains(*address)) continue;
        say(*address, now);
        session.abort();
        return true;
    }
    return false;
}

void ConnectionEviction::count(const proxy::SessionList& sessions,
                               const identity::ClientIpSettings& settings) {
    crowds_ = {};
    std::size_t all = 0;
    for (const proxy::Session& session : sessions) {
        ++all;
        if (const auto address = client::counted_address(session.peer(), settings))
            crowds_.add(*address);
    }
    crowds_.erase_if([&](const IpAddress& address) {
        const auto its =
            std::count_if(sessions.begin(), sessions.end(), [&](const proxy::Session& session) {
                return client::counted_address(session.peer(), settings) == address;
            });
        return static_cast<std::size_t>(its) <= std::max<std::size_t>(1, all / 4);
    });
}

void ConnectionEviction::say(const IpAddress& address, SteadyTime now) {
    if (!log_interval_.is_due(now)) return;
    telemetry::log(
        telemetry::Level::warn,
        "connections.max is reached and {} has more than a quarter of the connections of "
        "this thread: the proxy closes those of them that have no request, for other "
        "clients. Set connections.per_ip to bound each address",
        address.to_string());
}

}  // namespace tidegate::app
