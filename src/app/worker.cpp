#include "app/worker.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

using telemetry::Level;
using telemetry::log;

// Connections taken from one listener before others get their turn.
constexpr int kAcceptedAtOnce = 64;
constexpr std::chrono::milliseconds kStarvedPause{100};
constexpr std::chrono::seconds kSweepEvery{1};

SteadyTime now() {
    return std::chrono::steady_clock::now();
}

std::optional<IpAddress> address_of(const sockaddr_storage& from) {
    IpAddress ip;
    if (from.ss_family == AF_INET) {
        sockaddr_in in{};
        std::memcpy(&in, &from, sizeof in);
        std::memcpy(ip.bytes.data(), &in.sin_addr, 4);
        return ip;
    }
    if (from.ss_family != AF_INET6) return std::nullopt;
    sockaddr_in6 in{};
    std::memcpy(&in, &from, sizeof in);
    if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
        std::memcpy(ip.bytes.data(), in.sin6_addr.s6_addr + 12, 4);
    } else {
        ip.v4 = false;
        std::memcpy(ip.bytes.data(), in.sin6_addr.s6_addr, 16);
    }
    return ip;
}

std::vector<std::unique_ptr<proxy::UpstreamPool>> make_pools(const Process& process,
                                                             Executor executor,
                                                             Readiness& readiness,
                                                             telemetry::MetricsShard& metrics) {
    std::vector<std::unique_ptr<proxy::UpstreamPool>> pools;
    for (std::size_t i = 0; i < process.config->upstreams.size(); ++i) {
        pools.push_back(std::make_unique<proxy::UpstreamPool>(
            executor, readiness, process.config->upstreams[i], i, process.workers, metrics));
    }
    return pools;
}

}  // namespace

Worker::Worker(Process& process, std::size_t index, const std::vector<ListenerGroup>& listeners)
    : process_(process),
      index_(index),
      readiness_(io_),
      deadlines_(now()),
      redis_(make_redis()),
      limiter_(make_limiter()),
      context_{.executor = io_.get_executor(),
               .config = process.config,
               .thread = index,
               .metrics = process.metrics.shard(index),
               .access_log = process.access_log.get(),
               .limiter = limiter_,
               .deadlines = deadlines_,
               .buffers = buffers_,
               .upstreams = make_pools(process, io_.get_executor(), readiness_,
                                       process.metrics.shard(index)),
               .request_ids = {},
               .policy_texts = proxy::PolicyTexts(*process.config),
               .exchanges = {io_.get_executor(), deadlines_, buffers_}},
      tick_timer_(io_) {
    for (const ListenerGroup& group : listeners) {
        listeners_.push_back(std::make_unique<Listener>(Listener{
            group.settings,
            adopt_listener(io_.get_executor(), group.settings.address, group.descriptors[index])}));
    }
}

Worker::~Worker() {
    join();
}

std::shared_ptr<redis::Client> Worker::make_redis() {
    if (!process_.redis) return nullptr;
    return std::make_shared<redis::Client>(
        io_.get_executor(), *process_.redis, [this](bool up, std::string_view reason) {
            process_.metrics.shard(index_).set_store_state(up ? telemetry::StoreState::up
                                                              : telemetry::StoreState::down);
            process_.store_changed(up, reason);
        });
}

store::Limiter Worker::make_limiter() {
    telemetry::MetricsShard& metrics = process_.metrics.shard(index_);
    if (!redis_) return {process_.memory_store, metrics};
    const auto& settings = std::get<config::RedisSettings>(process_.config->store);
    return {process_.memory_store,
            {redis_, settings.key_prefix, settings.local_clock, &process_.replicas},
            metrics};
}

void Worker::start() {
    const Executor executor = io_.get_executor();
    if (redis_) {
        asio::co_spawn(executor, redis::Client::run(redis_), asio::detached);
        if (index_ == 0) {
            const auto& settings = std::get<config::RedisSettings>(process_.config->store);
            heartbeat_ = std::make_shared<store::Heartbeat>(
                executor, redis_,
                store::Heartbeat::Options{.key_prefix = settings.key_prefix,
                                          .name = process_.name,
                                          .local_clock = settings.local_clock,
                                          .configured = process_.config->replicas.value_or(0)},
                process_.replicas);
            asio::co_spawn(executor, store::Heartbeat::run(heartbeat_), asio::detached);
        }
    }
    for (const auto& pool : context_.upstreams) {
        asio::co_spawn(executor, pool->resolve_names(), asio::detached);
    }
    for (const auto& listener : listeners_) {
        asio::co_spawn(executor, accept(*listener), asio::detached);
    }
    asio::co_spawn(executor, tick(), asio::detached);
    thread_ = std::thread([this] { io_.run(); });
}

void Worker::drain() {
    asio::post(io_, [this] {
        if (context_.draining) return;
        context_.draining = true;
        for (const auto& listener : listeners_) {
            // What waits in the queue would be reset by the close.
            while (accept_ready(*listener) == kAcceptedAtOnce) {
            }
            error_code ignored;
            listener->acceptor.close(ignored);
        }
        for (proxy::Session& session : sessions_) session.on_drain();
        finish_if_empty();
    });
}

void Worker::cut() {
    asio::post(io_, [this] {
        for (proxy::Session& session : sessions_) session.abort();
    });
}

void Worker::join() {
    if (thread_.joinable()) thread_.join();
}

Task<> Worker::accept(Listener& listener) {
    while (listener.acceptor.is_open()) {
        co_await listener.acceptor.async_wait(Acceptor::wait_read, as_values);
        if (!listener.acceptor.is_open()) break;
        accept_ready(listener);
        if (!listener.starved) continue;
        // Out of descriptors: others may close some meanwhile. Never stop listening.
        Timer pause(io_, kStarvedPause);
        co_await pause.async_wait(as_values);
    }
}

int Worker::accept_ready(Listener& listener) {
    for (int accepted = 0; accepted < kAcceptedAtOnce; ++accepted) {
        sockaddr_storage from{};
        socklen_t size = sizeof from;
        const int descriptor =
            ::accept4(listener.acceptor.native_handle(), reinterpret_cast<sockaddr*>(&from), &size,
                      SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor >= 0) {
            listener.starved = false;
            open_session(listener, descriptor, from);
            continue;
        }
        const int error = errno;
        if (error == EAGAIN || error == EWOULDBLOCK) return accepted;
        if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
            if (!std::exchange(listener.starved, true)) {
                log(Level::error, "cannot accept connections on {}: {}; trying again",
                    listener.settings.address.to_string(),
                    error_code(error, boost::system::system_category()).message());
            }
            return accepted;
        }
        // Any other error: that one connection is gone.
    }
    return kAcceptedAtOnce;
}

void Worker::open_session(Listener& listener, int descriptor, const sockaddr_storage& from) {
    if (process_.connections.fetch_add(1) >= process_.config->connections.max) {
        process_.connections.fetch_sub(1);
        context_.metrics.client_refused();
        ::close(descriptor);
        return;
    }
    identity::Peer peer{address_of(from)};
    if (peer.address) {
        const int on = 1;
        ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        peer.trusted = process_.config->client_ip.trusts(*peer.address);
    } else {
        peer.trusted = listener.settings.trusted;
    }
    auto session = std::make_unique<proxy::Session>(
        context_, ConnectionPtr(new Connection(readiness_, descriptor)), peer,
        listener.settings.address.port);
    sessions_.push_back(*session);
    asio::co_spawn(io_, proxy::Session::run(std::move(session)),
                   [this](const std::exception_ptr& failed) {
                       process_.connections.fetch_sub(1);
                       if (failed) log(Level::error, "a session ended with an exception");
                       finish_if_empty();
                   });
}

Task<> Worker::tick() {
    SteadyTime swept = now();
    while (!finished_) {
        tick_timer_.expires_after(DeadlineWheel::kTick);
        co_await tick_timer_.async_wait(as_values);
        const SteadyTime time = now();
        deadlines_.advance(time);
        if (time - swept < kSweepEvery) continue;
        swept = time;
        for (const auto& pool : context_.upstreams) pool->sweep(time);
    }
}

// Draining, and nobody is left: everything that keeps the loop going ends.
void Worker::finish_if_empty() {
    if (!context_.draining || finished_ || !sessions_.empty()) return;
    finished_ = true;
    readiness_.stop();
    tick_timer_.cancel();
    if (heartbeat_) heartbeat_->stop();
    if (redis_) redis_->stop();
    for (const auto& pool : context_.upstreams) pool->stop();
}

}  // namespace tidegate::app
