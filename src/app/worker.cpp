#include "app/worker.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "proxy/request.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

using telemetry::Level;
using telemetry::log;

// Connections taken from one listener before others get their turn.
constexpr int kAcceptedAtOnce = 64;
constexpr std::chrono::milliseconds kStarvedPause{100};
// What the kernel may hold of an answer that a client's window has no room for. Without a bound, a
// thousand clients that do not read take gigabytes, which all connections of the machine share.
constexpr int kUnsentBytesMax = 262'144;
constexpr std::chrono::seconds kSweepEvery{1};

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

// A worker's share of what may be remembered.
store::DenyCache::Options denials_of(const config::Config& config, std::size_t workers) {
    const config::DenyCache& wanted = config.deny_cache;
    return {
        .max_ttl = wanted.max_ttl,
        .entries = wanted.entries == 0 ? 0 : std::max<std::size_t>(1, wanted.entries / workers)};
}

// A worker's share of the local counts reported to Redis when it is back: in all, some ten thousand
// identifiers, about two hundred a second. With more than ten workers it is twenty a second for
// each of them, and with more than a hundred as many hundred identifiers.
store::LocalReport::Options reports_of(std::size_t workers) {
    store::LocalReport::Options options;
    options.ledger.identifiers_max = std::max<std::size_t>(100, 10'000 / workers);
    options.ledger.portions_max = std::max<std::size_t>(10'000, 1'000'000 / workers);
    options.at_once = std::max<std::size_t>(1, 10 / workers);
    return options;
}

}  // namespace

Worker::Worker(SharedState& shared, std::size_t index, const std::vector<ListenerGroup>& listeners,
               const ConfigSnapshot& snapshot)
    : shared_(shared),
      index_(index),
      readiness_(io_),
      deadlines_(steady_now()),
      redis_(make_redis()),
      limiter_(make_limiter(*snapshot.config)),
      context_{
          .executor = io_.get_executor(),
          .generation = {},
          .thread = index,
          .metrics = shared.metrics.shard(index),
          .engine = {io_.get_executor(), limiter_, shared.passwords, shared.metrics.shard(index)},
          .request_ids = {},
          .exchanges = {io_.get_executor(), deadlines_, buffers_},
          .date = {}},
      clients_(connection_context(&proxy::serve, &context_)),
      refused_connections_(context_.metrics),
      tick_timer_(io_) {
    context_.generation = make_generation(snapshot);
    context_.date.set(std::chrono::system_clock::now());
    clients_.config = context_.generation->config.get();
    for (const ListenerGroup& group : listeners) add_listener(group);
}

client::ConnectionContext Worker::connection_context(client::ConnectionContext::Serve serve,
                                                     void* server) {
    return {.executor = io_.get_executor(),
            .deadlines = deadlines_,
            .buffers = buffers_,
            .metrics = context_.metrics,
            .serve = serve,
            .server = server};
}

void Worker::add_listener(const ListenerGroup& group) {
    const config::Listen& settings = group.settings;
    std::unique_ptr<Listener> listener(new Listener{
        .settings = settings,
        .acceptor = adopt_listener(io_.get_executor(), settings.address, group.descriptors[index_]),
        .forward_auth = {},
        .check = {},
        .clients = {}});
    if (listener->settings.face == Face::forward_auth) {
        listener->forward_auth =
            std::make_unique<faces::ForwardAuth>(faces::ForwardAuth{context_, listener->settings});
        listener->clients = std::make_unique<client::ConnectionContext>(
            connection_context(&faces::serve_forward_auth, listener->forward_auth.get()));
    } else if (listener->settings.face == Face::check) {
        listener->check = std::make_unique<faces::Check>(
            faces::Check{context_, listener->settings, shared_.reservations});
        listener->clients = std::make_unique<client::ConnectionContext>(
            connection_context(&faces::serve_check, listener->check.get()));
    }
    if (listener->clients) listener->clients->config = clients_.config;
    listeners_.push_back(std::move(listener));
}

Worker::~Worker() {
    join();
}

redis::Servers Worker::make_redis() {
    if (!shared_.redis) return {};
    const auto on_state = [this](bool up, std::string_view reason) {
        shared_.metrics.shard(index_).set_store_state(up ? telemetry::StoreState::up
                                                         : telemetry::StoreState::down);
        shared_.store_changed(up, reason);
    };
    const Executor executor = io_.get_executor();
    if (shared_.redis_cluster) {
        return std::make_shared<redis::Cluster>(executor, *shared_.redis_cluster, on_state);
    }
    return std::make_shared<redis::Client>(executor, *shared_.redis, on_state);
}

store::Limiter Worker::make_limiter(const config::Config& config) {
    telemetry::MetricsShard& metrics = shared_.metrics.shard(index_);
    if (!redis_) return {shared_.memory_store, metrics};
    return {shared_.memory_store,
            {redis_store(config), &shared_.replicas, denials_of(config, shared_.workers),
             reports_of(shared_.workers), &shared_.freed},
            metrics};
}

store::RedisStore Worker::redis_store(const config::Config& config) const {
    const auto& settings = std::get<config::RedisSettings>(config.store);
    return {redis_, settings.key_prefix, settings.local_clock};
}

proxy::GenerationPtr Worker::make_generation(const ConfigSnapshot& snapshot) {
    boost::intrusive_ptr<proxy::Generation> made(
        new proxy::Generation(snapshot.config, snapshot.remembered));
    made->slots = snapshot.slots;
    made->access_log = snapshot.access_log;
    for (std::size_t i = 0; i < snapshot.upstreams.size(); ++i) {
        made->upstreams.push_back(
            find_or_make_pool(snapshot.upstreams[i], snapshot.slots.upstream(i)));
    }
    return made;
}

std::shared_ptr<upstream::Pool> Worker::find_or_make_pool(const upstream::GroupPtr& group,
                                                          std::size_t metrics_slot) {
    if (context_.generation) {
        const auto& before = context_.generation->upstreams;
        const auto same = std::find_if(before.begin(), before.end(),
                                       [&](const auto& pool) { return pool->group() == group; });
        if (same != before.end()) return *same;
    }
    auto pool = std::make_shared<upstream::Pool>(context_.executor, readiness_, group, index_,
                                                 metrics_slot, context_.metrics);
    group->on_ask_for_room(index_, [executor = context_.executor, weak = std::weak_ptr(pool)] {
        asio::post(executor, [weak] {
            if (const auto asked = weak.lock()) asked->make_room(steady_now());
        });
    });
    return pool;
}

void Worker::start_heartbeat() {
    const config::Config& config = *context_.generation->config;
    heartbeat_ = std::make_shared<store::Heartbeat>(
        context_.executor, redis_store(config),
        store::Heartbeat::Options{.name = shared_.name, .configured = config.replicas.value_or(0)},
        shared_.replicas);
    spawn_vital(context_.executor, store::Heartbeat::run(heartbeat_));
}

void Worker::start() {
    const Executor executor = io_.get_executor();
    if (redis_) {
        redis_.start(executor);
        if (index_ == 0) start_heartbeat();
    }
    for (const auto& listener : listeners_) {
        spawn_vital(executor, accept(*listener));
    }
    spawn_vital(executor, tick());
    thread_ = std::thread([this] { io_.run(); });
}

void Worker::reload(std::shared_ptr<const ConfigSnapshot> snapshot, std::function<void()> done) {
    asio::post(io_, [this, snapshot = std::move(snapshot), done = std::move(done)] {
        if (!clients_.is_draining) adopt(*snapshot);
        done();
    });
}

void Worker::inspect(std::function<void(const store::Inspector&)> ask) {
    asio::post(io_, [this, ask = std::move(ask)] { ask(limiter_.inspector()); });
}

void Worker::forget(std::shared_ptr<const std::vector<limit::ChargeItem>> items,
                    std::function<void()> done) {
    asio::post(io_, [this, items = std::move(items), done = std::move(done)] {
        limiter_.forget(*items);
        done();
    });
}

// Runs between two steps of the loop: no request sees half of it.
void Worker::adopt(const ConfigSnapshot& snapshot) {
    const proxy::GenerationPtr before =
        std::exchange(context_.generation, make_generation(snapshot));
    for_each_context([&](client::ConnectionContext& one) { one.config = snapshot.config.get(); });
    const auto has = [](const auto& pools, const auto& pool) {
        return std::find(pools.begin(), pools.end(), pool) != pools.end();
    };
    for (const auto& pool : before->upstreams) {
        if (!has(context_.generation->upstreams, pool)) pool->stop();
    }
    if (heartbeat_) heartbeat_->configure(snapshot.config->replicas.value_or(0));
    // They are of limits that may be others now.
    limiter_.forget_denials(denials_of(*snapshot.config, shared_.workers));
}

void Worker::drain() {
    asio::post(io_, [this] {
        if (clients_.is_draining) return;
        for_each_context([](client::ConnectionContext& one) { one.is_draining = true; });
        for (const auto& listener : listeners_) {
            // What waits in the queue would be reset by the close.
            while (accept_ready(*listener) == kAcceptedAtOnce) {
            }
            error_code ignored;
            listener->acceptor.close(ignored);
        }
        for (client::Http1Connection& one : connections_) one.on_drain();
        finish_if_empty();
    });
}

void Worker::cut() {
    asio::post(io_, [this] {
        for (client::Http1Connection& one : connections_) one.cut_off();
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
            try {
                open_connection(listener, descriptor, from);
            } catch (...) {
                tell_internal_error(std::current_exception());
            }
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
            refused_connections_.close_all();
            return accepted;
        }
        // Any other error: that one connection is gone.
    }
    return kAcceptedAtOnce;
}

Result<client::ConnectionLimit::Slot, telemetry::ConnectionRefusal> Worker::take_slot(
    const identity::Peer& peer) {
    const config::Config& config = *context_.generation->config;
    const auto address = client::counted_address(peer, config.client_ip);
    auto slot = shared_.connection_limit.take(address, config.connections);
    if (slot || slot.error() != telemetry::ConnectionRefusal::max ||
        !connection_eviction_.evict_for(address, connections_, config.client_ip, steady_now())) {
        return slot;
    }
    context_.metrics.client_made_room();
    // The evicted connection keeps its slot until the end of this turn.
    config::Connections one_more = config.connections;
    one_more.max = std::numeric_limits<std::size_t>::max();
    return shared_.connection_limit.take(address, one_more);
}

void Worker::open_connection(Listener& listener, int descriptor, const sockaddr_storage& from) {
    const config::Config& config = *context_.generation->config;
    identity::Peer peer{address_of(from)};
    peer.trusted =
        peer.address ? config.client_ip.trusts(*peer.address) : listener.settings.trusted;
    peer.is_gateway = listener.settings.face == Face::forward_auth;
    auto slot = take_slot(peer);
    if (!slot) {
        std::string request_id;
        context_.request_ids.next(request_id);
        refused_connections_.add({.descriptor = descriptor,
                                  .reason = slot.error(),
                                  .peer = peer.address,
                                  .request_id = request_id,
                                  .date_line = context_.date.line(),
                                  .more_lines = config.response.lines_without_request},
                                 steady_now());
        return;
    }
    if (peer.address) {
        const int on = 1;
        ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        ::setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytesMax,
                     sizeof kUnsentBytesMax);
    }
    auto connection = std::make_unique<client::Http1Connection>(
        listener.clients ? *listener.clients : clients_,
        ConnectionPtr(new Connection(readiness_, descriptor)), peer,
        listener.settings.address.port);
    connections_.push_back(*connection);
    spawn(io_.get_executor(), client::Http1Connection::run(std::move(connection)),
          // The slot comes back whether this is called or, with the loop, only destroyed.
          [this, taken = std::move(*slot)](const std::exception_ptr& failed) {
              if (failed) tell_internal_error(failed);
              finish_if_empty();
          });
}

void Worker::tell_internal_error(const std::exception_ptr& failure) {
    context_.metrics.count_internal_error();
    log(Level::error, "internal error, a client's connection was reset: {}", words_of(failure));
}

Task<> Worker::tick() {
    SteadyTime swept = steady_now();
    while (!finished_) {
        tick_timer_.expires_after(DeadlineWheel::kTick);
        co_await tick_timer_.async_wait(as_values);
        const SteadyTime time = steady_now();
        context_.date.set(std::chrono::system_clock::now());
        deadlines_.advance(time);
        refused_connections_.sweep(time);
        limiter_.report_local(time);
        for (const auto& pool : context_.generation->upstreams) pool->make_room(time);
        if (time - swept < kSweepEvery) continue;
        swept = time;
        for (const auto& pool : context_.generation->upstreams) pool->sweep(time);
        limiter_.renew_slots(time);
    }
}

// Drained, with no connection left: everything that keeps the loop going ends.
void Worker::finish_if_empty() {
    if (!clients_.is_draining || finished_ || !connections_.empty()) return;
    finished_ = true;
    readiness_.stop();
    tick_timer_.cancel();
    if (heartbeat_) heartbeat_->stop();
    redis_.stop();
    for (const auto& pool : context_.generation->upstreams) pool->stop();
}

}  // namespace tidegate::app
