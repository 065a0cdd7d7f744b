#include "proxy/upstream_pool.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

#include <boost/asio/ip/tcp.hpp>

#include "net/name_lookup.hpp"
#include "telemetry/log.hpp"

namespace tidegate::proxy {

namespace {

using telemetry::Level;
using telemetry::log;

// A server that could not be reached is left alone for so long, unless there is no other.
constexpr std::chrono::seconds kShunned{1};
// How often the log says that requests make room for others.
// How soon a name that has never been resolved is looked up again.
constexpr config::milliseconds kUnresolved{1'000};
// How often a look-up that is under way is asked whether it is done.
constexpr config::milliseconds kLookupPause{10};

SteadyTime now() {
    return std::chrono::steady_clock::now();
}

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

}  // namespace

UpstreamPool::UpstreamPool(Executor executor, Readiness& readiness,
                           const config::Upstream& settings, std::size_t metrics_slot,
                           std::size_t workers, telemetry::MetricsShard& metrics)
    : readiness_(readiness),
      settings_(settings),
      metrics_slot_(metrics_slot),
      connections_max_(std::max<std::size_t>(1, settings.max_connections / workers)),
      idle_max_(settings.idle_connections == 0
                    ? 0
                    : std::max<std::size_t>(1, settings.idle_connections / workers)),
      seats_(connections_max_),
      metrics_(metrics),
      servers_(settings.servers.size()),
      resolve_timer_(executor) {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
        UpstreamServer& server = servers_[i];
        server.settings_ = &settings_.servers[i];
        server.address_ = server.settings_->address.to_string();
        server.authority_ = server.settings_->authority;
        const config::Address& address = server.settings_->address;
        if (address.is_unix()) {
            server.endpoints_.push_back(asio::local::stream_protocol::endpoint(address.unix_path));
            continue;
        }
        error_code ec;
        const auto ip = asio::ip::make_address(address.host, ec);
        server.named_ = ec.failed();
        if (!ec) server.endpoints_.push_back(asio::ip::tcp::endpoint(ip, address.port));
    }
}

void UpstreamPool::learn(const KnownAddresses& known) {
    for (UpstreamServer& server : servers_) {
        if (!server.named_ || !server.endpoints_.empty()) continue;
        const auto found = known.find(server.address_);
        if (found != known.end()) server.endpoints_ = found->second;
    }
}

void UpstreamPool::tell(KnownAddresses& known) const {
    for (const UpstreamServer& server : servers_) {
        if (server.named_ && !server.endpoints_.empty()) {
            known.try_emplace(server.address_, server.endpoints_);
        }
    }
}

UpstreamServer& UpstreamPool::next_server(const UpstreamServer* other_than) {
    if (servers_.size() == 1) return servers_.front();
    const SteadyTime time = now();
    const auto usable = [&](const UpstreamServer& server) {
        return &server != other_than && server.shunned_until_ <= time;
    };
    const bool any = std::any_of(servers_.begin(), servers_.end(), usable);
    UpstreamServer* best = nullptr;
    std::int64_t weights = 0;
    for (UpstreamServer& server : servers_) {
        if (any ? !usable(server) : &server == other_than) continue;
        server.turn_ += server.settings_->weight;
        weights += server.settings_->weight;
        if (best == nullptr || server.turn_ > best->turn_) best = &server;
    }
    best->turn_ -= weights;
    return *best;
}

bool UpstreamPool::admit(UpstreamSeat& seat) {
    if (seats_.is_short()) {
        const std::size_t used = connections_ - idle();
        if (!seats_.may_join(seat, connections_max_ - used, now())) return false;
    }
    seats_.join(seat);
    return true;
}

UpstreamLease UpstreamPool::take_idle(UpstreamServer& server) {
    while (!server.idle_.empty()) {
        ConnectionPtr connection = std::move(server.idle_.back().connection);
        server.idle_.pop_back();
        // An idle connection that became readable has closed, or its server speaks out of turn:
        // what it says must never be taken for the next answer.
        if (!connection->has_spoken()) return {&server, std::move(connection), true};
        forget(connection);
    }
    return {};
}

Task<UpstreamPool::ConnectFault> UpstreamPool::connect(UpstreamServer& server, Sleeper& sleeper,
                                                       UpstreamLease& lease,
                                                       const UpstreamSeat& seat) {
    if (server.endpoints_.empty()) co_return ConnectFault::unreachable;
    if (connections_ >= connections_max_ && !forget_oldest_idle() && !make_room(seat)) {
        co_return ConnectFault::exhausted;
    }
    const auto endpoint = server.endpoints_[server.next_endpoint_++ % server.endpoints_.size()];
    int descriptor = -1;
    int error = begin_connect(endpoint, descriptor);
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
        server.shunned_until_ = {};
        if (std::exchange(server.down_, false)) {
            log(Level::info, "upstream {}: {} is back", settings_.name, server.address_);
        }
        lease = {&server, std::move(connection), false};
        co_return ConnectFault::none;
    }
    server.shunned_until_ = now() + kShunned;
    metrics_.count_upstream_failure(metrics_slot_);
    if (!std::exchange(server.down_, true)) {
        log(Level::warn, "upstream {}: cannot connect to {}: {}", settings_.name, server.address_,
            error_code(error, boost::system::system_category()).message());
    }
    forget(connection);
    co_return error == ETIMEDOUT ? ConnectFault::timeout : ConnectFault::unreachable;
}

void UpstreamPool::give_back(UpstreamLease& lease) {
    if (idle() >= idle_max_ || stopped_ || lease.withdrawn) {
        throw_away(lease);
        return;
    }
    lease.connection->watch_read(nullptr);
    lease.server->idle_.push_back({std::move(lease.connection), now()});
    lease = {};
}

void UpstreamPool::throw_away(UpstreamLease& lease) {
    withdraw(lease);
    lease = {};
}

void UpstreamPool::withdraw(UpstreamLease& lease) {
    if (lease.connection && !std::exchange(lease.withdrawn, true)) forget(lease.connection);
}

void UpstreamPool::sweep(SteadyTime time) {
    for (UpstreamServer& server : servers_) {
        std::erase_if(server.idle_, [&](const UpstreamServer::Idle& idle) {
            const bool stale =
                idle.connection->readable() || idle.since + settings_.idle_timeout <= time;
            if (stale) forget(idle.connection);
            return stale;
        });
    }
}

Task<> UpstreamPool::resolve_names(std::shared_ptr<UpstreamPool> self) {
    while (!self->stopped_) {
        bool all_known = true;
        for (UpstreamServer& server : self->servers_) {
            if (server.named_ && !self->stopped_) co_await self->resolve(server);
            all_known = all_known && !server.endpoints_.empty();
        }
        if (self->stopped_) break;
        const auto pause = self->settings_.resolve_every;
        self->resolve_timer_.expires_after(all_known ? pause : std::min(pause, kUnresolved));
        co_await self->resolve_timer_.async_wait(as_values);
    }
}

void UpstreamPool::stop() {
    stopped_ = true;
    resolve_timer_.cancel();
    for (UpstreamServer& server : servers_) {
        for (const auto& idle : server.idle_) forget(idle.connection);
        server.idle_.clear();
    }
}

// What was known before stays when a look-up fails.
Task<> UpstreamPool::resolve(UpstreamServer& server) {
    const config::Address& address = server.settings_->address;
    const NameLookup lookup(address.host, address.port);
    while (!lookup.done()) {
        resolve_timer_.expires_after(kLookupPause);
        co_await resolve_timer_.async_wait(as_values);
        if (stopped_) co_return;
    }
    if (lookup.endpoints().empty()) {
        log(Level::warn, "upstream {}: cannot resolve {}: {}", settings_.name, address.host,
            lookup.error());
        co_return;
    }
    server.endpoints_ = lookup.endpoints();
}

// Idle connections to one server must not keep those to another from being made.
bool UpstreamPool::forget_oldest_idle() {
    UpstreamServer* oldest = nullptr;
    for (UpstreamServer& server : servers_) {
        if (server.idle_.empty()) continue;
        if (oldest == nullptr || server.idle_.front().since < oldest->idle_.front().since) {
            oldest = &server;
        }
    }
    if (oldest == nullptr) return false;
    forget(oldest->idle_.front().connection);
    oldest->idle_.erase(oldest->idle_.begin());
    return true;
}

// The place is free when this returns: the caller takes it in the same step.
bool UpstreamPool::make_room(const UpstreamSeat& seat) {
    const SteadyTime time = now();
    UpstreamSeat* const leaving = seats_.find_room(seat, time);
    if (leaving == nullptr) return false;
    if (log_interval_.is_due(time)) {
        const auto holder = leaving->holder();
        log(Level::warn,
            "upstream {}: all {} connections of this thread are in use, {} of them by {}; the "
            "proxy ends requests whose clients are slow, to make room. Raise "
            "upstreams.{}.max_connections if this is normal load",
            settings_.name, connections_max_, seats_.held_by(holder),
            holder ? holder->to_string() : "clients without an address", settings_.name);
    }
    leaving->evict();
    return connections_ < connections_max_;
}

std::size_t UpstreamPool::idle() const {
    return std::accumulate(
        servers_.begin(), servers_.end(), std::size_t{0},
        [](std::size_t sum, const UpstreamServer& server) { return sum + server.idle_.size(); });
}

void UpstreamPool::forget(const ConnectionPtr& connection) {
    connection->close();
    --connections_;
    metrics_.upstream_disconnected();
}

}  // namespace tidegate::proxy
