#include "upstream/pool.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <numeric>
#include <utility>

#include "telemetry/log.hpp"
#include "telemetry/repeated_failures.hpp"

namespace tidegate::upstream {

namespace {

using telemetry::Level;
using telemetry::log;

// Begins to connect a new `descriptor` without waiting. 0, EINPROGRESS, or what went wrong.
int begin_connect(const StreamProtocol::endpoint& endpoint, int& descriptor) {
    const int family = endpoint.protocol().family();
    descriptor = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return errno;
    const int on = 1;
    if (family != AF_UNIX) ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int outcome =
        ::connect(descriptor, endpoint.data(), static_cast<socklen_t>(endpoint.size()));
    return outcome == 0 ? 0 : errno;
}

// A worker's share of a total; 0 only of 0.
std::size_t share_of(std::size_t total, std::size_t workers) {
    return total == 0 ? 0 : std::max<std::size_t>(1, total / workers);
}

}  // namespace

Pool::Pool(const Executor& executor, Readiness& readiness, const config::Upstream& settings,
           std::size_t metrics_slot, std::size_t workers, telemetry::MetricsShard& metrics)
    : readiness_(readiness),
      settings_(settings),
      metrics_slot_(metrics_slot),
      connections_max_(std::max<std::size_t>(1, settings.max_connections / workers)),
      idle_max_(share_of(settings.idle_connections, workers)),
      requests_(connections_max_),
      metrics_(metrics),
      servers_(settings_.servers.begin(), settings_.servers.end()),
      resolver_(executor, settings_, servers_) {}

Server& Pool::next_server(const Server* other_than) {
    if (servers_.size() == 1) return servers_.front();
    return next_by_weight(servers_, other_than, steady_now());
}

bool Pool::admit(ActiveRequest& request) {
    if (requests_.is_short()) {
        const std::size_t used = connections_ - idle_count();
        if (!requests_.admits(request, connections_max_ - used, steady_now())) return false;
    }
    requests_.add(request);
    return true;
}

bool Pool::take_idle(Server& server, Http1Stream& stream) {
    while (server.idle_count() > 0) {
        ConnectionPtr connection = server.take_idle();
        // An idle connection that became readable was closed, or its server speaks out of turn:
        // the proxy must never take what it says for the next answer.
        if (!connection->has_spoken()) {
            stream.open(server, std::move(connection), true);
            return true;
        }
        forget(connection);
    }
    return false;
}

Task<Pool::ConnectFault> Pool::connect(Server& server, Sleeper& sleeper, Http1Stream& stream,
                                       const ActiveRequest& request) {
    if (!server.is_resolved()) co_return ConnectFault::unreachable;
    if (connections_ >= connections_max_ && !forget_oldest_idle() && !evict_for(request)) {
        co_return ConnectFault::exhausted;
    }
    int descriptor = -1;
    int error = begin_connect(server.next_endpoint(), descriptor);
    ConnectionPtr connection(new Connection(readiness_, descriptor));
    ++connections_;
    metrics_.upstream_connected();
    if (error == EINPROGRESS) {
        sleeper.allow(settings_.connect_timeout);
        connection->watch_write(&sleeper.wakeup());
        while (!connection->writable() && !sleeper.expired()) co_await sleeper.sleep();
        error = connection->writable() ? connection->connect_error() : ETIMEDOUT;
    }
    if (error == 0) {
        if (server.connected()) log_recovery(server);
        stream.open(server, std::move(connection), false);
        co_return ConnectFault::none;
    }
    metrics_.count_upstream_failure(metrics_slot_);
    server.connect_failed(steady_now());
    log_failure(server, error);
    forget(connection);
    co_return error == ETIMEDOUT ? ConnectFault::timeout : ConnectFault::unreachable;
}

void Pool::log_failure(const Server& server, int error) const {
    const std::uint64_t times =
        telemetry::repeated_failures().note(failure_kind(server), steady_now());
    if (times == 0) return;
    log(Level::warn, "upstream {}: cannot connect to {}: {}{}", settings_.name, server.address(),
        error_code(error, boost::system::system_category()).message(),
        telemetry::times_text(times));
}

void Pool::log_recovery(const Server& server) const {
    if (!telemetry::repeated_failures().recovered(failure_kind(server))) return;
    log(Level::info, "upstream {}: {} is back", settings_.name, server.address());
}

std::string Pool::failure_kind(const Server& server) const {
    return "connect " + settings_.name + " " + server.address();
}

void Pool::give_back(Http1Stream& stream) {
    if (idle_count() >= idle_max_ || stopped_ || stream.is_evicted()) {
        throw_away(stream);
        return;
    }
    auto [server, connection] = stream.release();
    connection->watch_read(nullptr);
    server->add_idle(std::move(connection), steady_now());
}

void Pool::throw_away(Http1Stream& stream) {
    evict(stream);
    stream.release();
}

void Pool::evict(Http1Stream& stream) {
    if (stream && stream.evict()) forget(stream.connection());
}

void Pool::sweep(SteadyTime time) {
    for (Server& server : servers_) {
        server.erase_idle_if([&](const Server::Idle& idle) {
            const bool is_stale =
                idle.connection->readable() || idle.since + settings_.idle_timeout <= time;
            if (is_stale) forget(idle.connection);
            return is_stale;
        });
    }
}

Task<> Pool::resolve_names(std::shared_ptr<Pool> self) {
    co_await self->resolver_.run();
}

void Pool::stop() {
    stopped_ = true;
    resolver_.stop();
    for (Server& server : servers_) {
        server.erase_idle_if([&](const Server::Idle& idle) {
            forget(idle.connection);
            return true;
        });
    }
}

// Idle connections to one server must not keep those to another from being made.
bool Pool::forget_oldest_idle() {
    Server* oldest = nullptr;
    for (Server& server : servers_) {
        if (server.idle_count() > 0 &&
            (oldest == nullptr || server.oldest_idle_since() < oldest->oldest_idle_since())) {
            oldest = &server;
        }
    }
    if (oldest == nullptr) return false;
    forget(oldest->take_oldest_idle());
    return true;
}

// The evicted request's connection is closed when this returns: the caller takes its place in the
// same step.
bool Pool::evict_for(const ActiveRequest& request) {
    const SteadyTime time = steady_now();
    ActiveRequest* const evicted = requests_.find_evictable(request, time);
    if (evicted == nullptr) return false;
    log_eviction(*evicted, time);
    evicted->evict();
    return connections_ < connections_max_;
}

void Pool::log_eviction(const ActiveRequest& evicted, SteadyTime time) {
    if (!eviction_log_.is_due(time)) return;
    const auto key = evicted.key();
    log(Level::warn,
        "upstream {}: all {} connections of this thread are in use, {} of them by {}; the "
        "proxy ends requests whose clients are slow, to make room. Raise "
        "upstreams.{}.max_connections if this is normal load",
        settings_.name, connections_max_, requests_.held_by(key),
        key ? key->to_string() : "clients without an address", settings_.name);
}

std::size_t Pool::idle_count() const {
    return std::accumulate(
        servers_.begin(), servers_.end(), std::size_t{0},
        [](std::size_t sum, const Server& server) { return sum + server.idle_count(); });
}

void Pool::forget(const ConnectionPtr& connection) {
    connection->close();
    --connections_;
    metrics_.upstream_disconnected();
}

}  // namespace tidegate::upstream
