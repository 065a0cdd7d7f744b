#include "app/worker.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "faces/faces.hpp"
#include "net/connection.hpp"
#include "proxy/request.hpp"
#include "store/process_clock.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

namespace {

using telemetry::Level;
using telemetry::log;

// Connections taken from one listener before others get their turn.
constexpr int kAcceptedAtOnce = 64;
constexpr std::chrono::milliseconds kStarvedPause{100};
constexpr std::chrono::seconds kSweepEvery{1};

}  // namespace

Worker::Worker(SharedState& shared, std::size_t index, const std::vector<ListenerGroup>& listeners,
               const ConfigSnapshot& snapshot)
    : shared_(shared),
      index_(index),
      metrics_(shared.metrics.worker(index)),
      readiness_(io_),
      deadlines_(steady_now()),
      http2_(io_.get_executor(), deadlines_, buffers_),
      grpc_http2_(io_.get_executor(), deadlines_, buffers_),
      redis_(make_redis()),
      limiter_(make_limiter(*snapshot.config)),
      context_{.executor = io_.get_executor(),
               .generation = {},
               .thread = index,
               .metrics = metrics_.proxy,
               .engine = {io_.get_executor(), limiter_, shared.passwords, metrics_.ask},
               .request_ids = {},
               .exchanges = {io_.get_executor(), deadlines_, buffers_},
               .date = {}},
      clients_(connection_context(&proxy::serve, &context_, http2_)),
      handshake_turns_(io_.get_executor()),
      refused_connections_(metrics_.client),
      unserved_(metrics_.client),
      tick_timer_(io_) {
    context_.generation = make_generation(snapshot);
    context_.date.set(std::chrono::system_clock::now());
    clients_.config = context_.generation->config.get();
    use_bounds(*clients_.config);
    use_leases(*clients_.config);
    keep_names(*clients_.config);
    for (const ListenerGroup& group : listeners) {
        for (std::size_t i = index; i < group.descriptors.size(); i += shared.workers) {
            add_listener(group, group.descriptors[i], snapshot);
        }
    }
}

// Envoy opens one connection a thread of its own, and keeps it: it has many streams, and ends after
// a while, so that the connections spread over Tidegate's threads anew.
void Worker::use_bounds(const config::Config& config) {
    constexpr std::uint32_t kGrpcStreams = 1'000;
    constexpr std::chrono::minutes kGrpcConnectionTime{5};
    context_.held_bodies.set_room(config.limits_on_requests.held_bodies / shared_.workers);
    http2_.use(config);
    grpc_http2_.use(config);
    grpc_http2_.settings.streams = kGrpcStreams;
    grpc_http2_.connection_time = kGrpcConnectionTime;
}

client::ConnectionContext Worker::connection_context(client::ConnectionContext::Serve serve,
                                                     void* server, client::Http2Resources& http2) {
    return {.executor = io_.get_executor(),
            .deadlines = deadlines_,
            .buffers = buffers_,
            .metrics = metrics_.client,
            .connections = connections_,
            .http2 = http2,
            .serve = serve,
            .server = server,
            .tell_failure = [this](const std::exception_ptr& failure) {
                note_internal_error(failure);
            }};
}

Worker::~Worker() {
    join();
}

void Worker::start_heartbeat() {
    const config::Config& config = *context_.generation->config;
    heartbeat_ = std::make_shared<store::Heartbeat>(
        context_.executor, redis_store(config),
        store::Heartbeat::Options{.name = shared_.name,
                                  .replicas = replica_settings(config),
                                  .last_seen = shared_.replicas_before},
        shared_.replicas);
    spawn_vital(context_.executor, store::Heartbeat::run(heartbeat_));
}

void Worker::start() {
    const Executor executor = io_.get_executor();
    if (redis_) {
        redis_.start(executor);
        if (index_ == 0) start_heartbeat();
    }
    spawn_vital(executor, tick());
    thread_ = std::thread([this] { run(); });
}

// A reload may change `busy_poll`.
void Worker::run() {
    metrics_.clock.begin();
    while (!io_.stopped()) {
        const std::chrono::microseconds patience = context_.generation->config->busy_poll;
        if (patience.count() == 0 || !poll_for(io_, patience)) io_.run_one();
    }
}

void Worker::hold(std::function<void()> wait) {
    asio::post(io_, std::move(wait));
}

void Worker::begin_accepting() {
    asio::post(io_, [this] {
        if (clients_.is_draining) return;
        for (const auto& listener : listeners_) {
            resume(*listener);
            begin_listening(listener->acceptor.native_handle());
            spawn_vital(context_.executor, accept(*listener));
        }
    });
}

void Worker::pause_accepting(std::function<void()> done) {
    asio::post(io_, [this, done = std::move(done)] {
        for (const auto& listener : listeners_) {
            if (listener->acceptor.is_open()) listener->paused = release(*listener);
        }
        done();
    });
}

void Worker::leave_listeners() {
    asio::post(io_, [this] {
        for (const auto& listener : listeners_) listener->paused = Descriptor();
    });
}

void Worker::resume(Listener& listener) {
    if (!listener.paused) return;
    listener.acceptor =
        adopt_listener(io_.get_executor(), listener.settings.address, listener.paused.release());
}

// To close the acceptor would not do: epoll goes on reporting a socket as long as any descriptor
// keeps it open, of this process or of another.
Descriptor Worker::release(Listener& listener) {
    error_code failure;
    return Descriptor(listener.acceptor.release(failure));
}

void Worker::inspect(std::function<void(const store::Inspector&)> ask) {
    asio::post(io_, [this, ask = std::move(ask)] { ask(limiter_.inspector()); });
}

void Worker::count_leased(std::shared_ptr<const std::vector<limit::ChargeItem>> items,
                          std::function<void(std::vector<std::int64_t>)> done) {
    asio::post(io_, [this, items = std::move(items), done = std::move(done)] {
        done(limiter_.leased(*items));
    });
}

void Worker::forget(std::shared_ptr<const std::vector<limit::ChargeItem>> items,
                    std::function<void()> done) {
    asio::post(io_, [this, items = std::move(items), done = std::move(done)] {
        limiter_.forget(*items);
        done();
    });
}

void Worker::show_activity(std::function<bool(telemetry::Activity&)> look) {
    asio::post(io_, [this, look = std::move(look)]() mutable {
        try {
            if (!look(context_.activity)) show_activity(std::move(look));
        } catch (const std::bad_alloc&) {
            // The thread serves its requests, and does not answer.
        }
    });
}

void Worker::use_recording(std::function<void(std::unique_ptr<proxy::Recording>&)> use) {
    asio::post(io_, [this, use = std::move(use)] {
        try {
            use(context_.recording);
        } catch (const std::bad_alloc&) {
            // The thread serves its requests, and does not answer.
        }
    });
}

void Worker::drain(std::chrono::milliseconds idle_patience) {
    asio::post(io_, [this, idle_patience] {
        if (clients_.is_draining) return;
        limiter_.use_leases(false, 1);
        for_each_context([&](client::ConnectionContext& one) {
            one.is_draining = true;
            one.idle_patience = idle_patience;
        });
        for (const auto& listener : listeners_) {
            // The close would reset what waits in the queue. Clients that come meanwhile, and
            // connections that fail, must not keep the worker here.
            resume(*listener);
            if (!listener->acceptor.is_open()) continue;
            for (int taken = 0; taken <= kBacklog; taken += kAcceptedAtOnce) {
                if (accept_ready(*listener) < kAcceptedAtOnce) break;
            }
            const Descriptor closed = release(*listener);
        }
        for (client::ProxyHeaderWait& one : awaiting_proxy_header_) one.on_drain();
        for (client::TlsHandshake& one : handshakes_) one.on_drain();
        for (client::ServedConnection& one : connections_) one.on_drain();
        finish_if_empty();
    });
}

void Worker::cut_requests(bool is_late) {
    asio::post(io_, [this, is_late] {
        stop_waiting_for_store(is_late);
        for (client::ProxyHeaderWait& one : awaiting_proxy_header_) one.cut_off();
        for (client::TlsHandshake& one : handshakes_) one.cut_off();
        cut(false, is_late);
    });
}

// What requests cost is not waited for any longer.
void Worker::stop_waiting_for_store(bool is_late) {
    is_store_late_ = true;
    const std::size_t owed = limiter_.owed();
    if (!is_late || owed == 0) return;
    log(Level::warn,
        "timeouts.drain has ended, and Redis has not counted what requests cost above their "
        "reservations: for {} identifiers that is lost",
        owed);
}

void Worker::cut_tunnels(bool is_late) {
    asio::post(io_, [this, is_late] { cut(true, is_late); });
}

void Worker::cut(bool tunnels, bool is_late) {
    static std::array<telemetry::LogInterval, 2> log_intervals;  // of all workers
    bool has_any = false;
    for (client::ServedConnection& one : connections_) {
        const bool has = tunnels ? one.cut_tunnels() : one.cut_requests();
        has_any = has_any || has;
    }
    if (!has_any || !is_late || !log_intervals[tunnels ? 1 : 0].is_due(steady_now())) return;
    log(Level::warn, "{}",
        tunnels ? "timeouts.drain_tunnels has ended with tunnels open: closing their connections"
                : "timeouts.drain has ended with requests in flight: closing their connections");
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
        // The program is out of descriptors: other connections may close some meanwhile. Never stop
        // listening.
        Timer pause(io_, kStarvedPause);
        co_await pause.async_wait(as_values);
    }
}

int Worker::accept_ready(Listener& listener) {
    for (int accepted = 0; accepted < kAcceptedAtOnce; ++accepted) {
        sockaddr_storage from{};
        socklen_t size = sizeof from;
        Descriptor descriptor(::accept4(listener.acceptor.native_handle(),
                                        reinterpret_cast<sockaddr*>(&from), &size,
                                        SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (descriptor) {
            listener.starved = false;
            try {
                open_connection(listener, std::move(descriptor), from);
            } catch (...) {
                note_internal_error(std::current_exception());
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

void Worker::note_internal_error(const std::exception_ptr& failure) {
    metrics_.client.internal_errors.add();
    try {
        log(Level::error, "internal error, a client's connection was reset: {}",
            message_of(failure));
    } catch (const std::bad_alloc&) {
        // There is no memory for the log line either: the count has to do.
    }
}

Task<> Worker::tick() {
    SteadyTime swept = steady_now();
    while (!finished_) {
        tick_timer_.expires_after(DeadlineWheel::kTick);
        co_await tick_timer_.async_wait(as_values);
        turns_.fetch_add(1, std::memory_order_relaxed);
        const SteadyTime time = steady_now();
        const auto wall_time = std::chrono::system_clock::now();
        context_.date.set(wall_time);
        store::follow_wall_clock(wall_time);
        limiter_.follow_wall_clock(time);
        deadlines_.catch_up(time);
        deadlines_.advance(time);
        refused_connections_.sweep(time);
        limiter_.report_local(time);
        limiter_.tend_lent(time);
        limiter_.tend_leases(time);
        finish_if_empty();
        make_room(time);
        if (time - swept < kSweepEvery) continue;
        swept = time;
        for (const auto& pool : context_.generation->upstreams) pool->sweep(time);
        limiter_.renew_slots(time);
    }
}

void Worker::make_room(SteadyTime time) {
    for (const auto& pool : context_.generation->upstreams) pool->make_room(time);
    std::erase_if(former_pools_, [&](const std::weak_ptr<upstream::Pool>& former) {
        const std::shared_ptr<upstream::Pool> pool = former.lock();
        if (pool) pool->make_room(time);
        return pool == nullptr;
    });
}

// Drained, with no connection left: everything that keeps the loop going ends.
void Worker::finish_if_empty() {
    if (!clients_.is_draining || finished_) return;
    const bool is_empty =
        connections_.empty() && awaiting_proxy_header_.empty() && handshakes_.empty();
    // Other threads may wait for what this one has sent for them, and the counts for what requests
    // have cost: a tick asks again.
    const bool is_settled =
        limiter_.is_idle() &&
        (is_store_late_ || (limiter_.owed() == 0 && !limiter_.has_unsent_refunds()));
    if (!is_empty || !is_settled) return;
    finished_ = true;
    readiness_.stop();
    tick_timer_.cancel();
    if (heartbeat_) heartbeat_->stop();
    redis_.stop();
    for (const auto& pool : context_.generation->upstreams) pool->stop();
}

namespace {

using telemetry::Level;
using telemetry::log;

// A worker's share of what may be remembered.
store::DenyCache::Options denials_of(const config::Config& config, std::size_t workers) {
    const config::DenyCacheSettings& wanted = config.deny_cache;
    return {
        .max_ttl = wanted.max_ttl,
        .entries = wanted.entries == 0 ? 0 : std::max<std::size_t>(1, wanted.entries / workers)};
}

// A worker's share of the local counts reported to Redis when it is back: in all, some ten thousand
// identifiers, about two hundred a second. With more than ten workers it is twenty a second for
// each of them, and with more than a hundred as many hundred identifiers. Of requests that cost
// more than they took, about five thousand identifiers a second are reported.
store::LocalReport::Options reports_of(std::size_t workers) {
    store::LocalReport::Options options;
    options.ledger.identifiers_max = std::max<std::size_t>(100, 10'000 / workers);
    options.ledger.portions_max = std::max<std::size_t>(10'000, 1'000'000 / workers);
    options.at_once = std::max<std::size_t>(1, 10 / workers);
    options.more_at_once = std::max<std::size_t>(8, 256 / workers);
    return options;
}

// RFC 6797 section 7.2: never in the clear.
std::string hsts_line_of(const config::Listen& settings) {
    if (!settings.tls || settings.hsts.count() == 0) return {};
    return "Strict-Transport-Security: max-age=" + std::to_string(settings.hsts.count()) + "\r\n";
}

}  // namespace

void Worker::add_listener(const ListenerGroup& group, int descriptor,
                          const ConfigSnapshot& snapshot) {
    const config::Listen& settings = group.settings;
    std::unique_ptr<Listener> listener(
        new Listener{.settings = settings,
                     .acceptor = adopt_listener(io_.get_executor(), settings.address, descriptor),
                     .hsts_line = hsts_line_of(settings),
                     .configured = group.configured,
                     .credentials = {},
                     .tls = {},
                     .face = {},
                     .clients = {}});
    const auto serve_by = [&](client::ConnectionContext::Serve serve, auto face, auto& http2) {
        listener->face = std::make_shared<decltype(face)>(std::move(face));
        listener->clients = std::make_unique<client::ConnectionContext>(
            connection_context(serve, listener->face.get(), http2));
    };
    if (listener->settings.redirects) {
        serve_by(&faces::serve_redirect, faces::RedirectFace{context_, listener->settings}, http2_);
    } else if (listener->settings.face == Face::forward_auth) {
        serve_by(&faces::serve_forward_auth,
                 faces::ForwardAuthFace{context_, listener->settings, metrics_.faces}, http2_);
    } else if (listener->settings.face == Face::check) {
        serve_by(&faces::serve_check,
                 faces::CheckFace{context_, listener->settings, shared_.reservations}, http2_);
    } else if (listener->settings.face == Face::envoy_grpc) {
        serve_by(&faces::serve_envoy_grpc, faces::EnvoyGrpcFace{context_, listener->settings},
                 grpc_http2_);
    }
    if (listener->clients) listener->clients->config = clients_.config;
    use_tls(*listener, make_tls(*listener, snapshot));
    listeners_.push_back(std::move(listener));
}

Worker::NextTls Worker::make_tls(const Listener& listener, const ConfigSnapshot& snapshot) {
    const ListenerTls* const now = find_listener_tls(snapshot.tls, listener.configured);
    if (now == nullptr || now->credentials == listener.credentials) return {};
    return {now->credentials, std::make_unique<TlsServer>(now->credentials, now->tickets)};
}

// Handshakes that have begun end with the server they began with.
void Worker::use_tls(Listener& listener, NextTls&& next) {
    if (!next.server) return;
    listener.tls = std::move(next.server);
    listener.credentials = std::move(next.credentials);
}

redis::RedisServers Worker::make_redis() {
    if (!shared_.redis) return {};
    const auto on_state = [this](bool up, std::string_view reason) {
        metrics_.store.state.set(up ? store::StoreState::up : store::StoreState::down);
        shared_.store_changed(up, reason);
    };
    const Executor executor = io_.get_executor();
    if (shared_.redis_cluster) {
        return std::make_shared<redis::Cluster>(executor, *shared_.redis_cluster, on_state);
    }
    return std::make_shared<redis::Client>(executor, *shared_.redis, on_state);
}

store::Limiter Worker::make_limiter(const config::Config& config) {
    if (!redis_) return {shared_.memory_store, metrics_.store};
    return {
        shared_.memory_store,
        {redis_store(config), &shared_.replicas.number, &shared_.replicas.known,
         denials_of(config, shared_.workers), reports_of(shared_.workers), &shared_.freed,
         store::BatchQueue::Sharing{&shared_.charges, io_.get_executor(), shared_.redis->timeout}},
        metrics_.store};
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
    made->traces = snapshot.traces;
    for (std::size_t i = 0; i < snapshot.upstreams.size(); ++i) {
        made->upstreams.push_back(
            find_or_make_pool(snapshot.upstreams[i], snapshot.slots.upstream(i)));
        const auto& bounds = snapshot.config->limits_on_requests;
        made->upstreams.back()->set_answer_bounds(
            {bounds.header_bytes, bounds.headers, bounds.header_bytes});
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
    const upstream::Pool::Loop loop{context_.executor, readiness_, deadlines_, buffers_,
                                    metrics_.upstream};
    auto pool = std::make_shared<upstream::Pool>(loop, group, index_, metrics_slot);
    group->on_ask_for_room(index_, [executor = context_.executor, weak = std::weak_ptr(pool)] {
        asio::post(executor, [weak] {
            if (const auto asked = weak.lock()) asked->make_room(steady_now());
        });
    });
    return pool;
}

void Worker::reload(std::shared_ptr<const ConfigSnapshot> snapshot, std::function<void()> done) {
    asio::post(io_, [this, snapshot = std::move(snapshot), done = std::move(done)] {
        try {
            if (!clients_.is_draining) adopt(*snapshot);
        } catch (const std::exception& error) {
            log(Level::error,
                "reload: thread {} keeps the former configuration: {}. Run `tidegate reload`",
                index_, error.what());
        }
        done();
    });
}

// Runs between two steps of the loop: no request sees half of it. What is large comes first: when
// there is no memory for it, nothing changes.
void Worker::adopt(const ConfigSnapshot& snapshot) {
    std::vector<NextTls> tls;
    for (const auto& listener : listeners_) tls.push_back(make_tls(*listener, snapshot));
    former_pools_.reserve(former_pools_.size() + context_.generation->upstreams.size());
    proxy::GenerationPtr next = make_generation(snapshot);
    keep_names(*snapshot.config);
    const proxy::GenerationPtr before = std::exchange(context_.generation, std::move(next));
    for_each_context([&](client::ConnectionContext& one) { one.config = snapshot.config.get(); });
    use_bounds(*snapshot.config);
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
        use_tls(*listeners_[i], std::move(tls[i]));
        refresh(*listeners_[i], *snapshot.config);
    }
    const auto has = [](const auto& pools, const auto& pool) {
        return std::find(pools.begin(), pools.end(), pool) != pools.end();
    };
    for (const auto& pool : before->upstreams) {
        if (has(context_.generation->upstreams, pool)) continue;
        pool->stop();
        former_pools_.push_back(pool);
    }
    if (heartbeat_) heartbeat_->configure(replica_settings(*snapshot.config));
    // The remembered denials belong to limits that may be others now.
    limiter_.forget_denials(denials_of(*snapshot.config, shared_.workers));
    use_leases(*snapshot.config);
}

void Worker::use_leases(const config::Config& config) {
    const auto has_lease = [](const auto& policy) { return policy->lease_slack > 0; };
    const bool any = std::any_of(config.policies.begin(), config.policies.end(), has_lease);
    limiter_.use_leases(any && redis_, static_cast<int>(shared_.workers));
}

// Without an admin listener, no question for them can come.
void Worker::keep_names(const config::Config& config) {
    context_.activity.set_names_max(config.admin ? config.telemetry.top : 0);
}

void Worker::refresh(Listener& listener, const config::Config& config) {
    const auto found =
        std::find_if(config.listen.begin(), config.listen.end(),
                     [&](const config::Listen& one) { return one.address == listener.configured; });
    if (found == config.listen.end()) return;
    listener.settings.hsts = found->hsts;
    listener.settings.half_close = found->half_close;
    listener.settings.takes_http1 = found->takes_http1;
    listener.settings.takes_http2 = found->takes_http2;
    listener.settings.redirect_port = found->redirect_port;
    listener.hsts_line = hsts_line_of(listener.settings);
}

}  // namespace tidegate::app
