// What a worker makes of a configuration, at the start and at a reload.
#include <algorithm>
#include <string>
#include <utility>

#include "app/worker.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

using telemetry::Level;
using telemetry::log;

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
                     .forward_auth = {},
                     .check = {},
                     .envoy_grpc = {},
                     .redirect = {},
                     .clients = {}});
    if (listener->settings.redirects) {
        listener->redirect =
            std::make_unique<faces::Redirect>(faces::Redirect{context_, listener->settings});
        listener->clients = std::make_unique<client::ConnectionContext>(
            connection_context(&faces::serve_redirect, listener->redirect.get(), http2_));
    } else if (listener->settings.face == Face::forward_auth) {
        listener->forward_auth = std::make_unique<faces::ForwardAuth>(
            faces::ForwardAuth{context_, listener->settings, metrics_.faces});
        listener->clients = std::make_unique<client::ConnectionContext>(
            connection_context(&faces::serve_forward_auth, listener->forward_auth.get(), http2_));
    } else if (listener->settings.face == Face::check) {
        listener->check = std::make_unique<faces::Check>(
            faces::Check{context_, listener->settings, shared_.reservations});
        listener->clients = std::make_unique<client::ConnectionContext>(
            connection_context(&faces::serve_check, listener->check.get(), http2_));
    } else if (listener->settings.face == Face::envoy_grpc) {
        listener->envoy_grpc =
            std::make_unique<faces::EnvoyGrpc>(faces::EnvoyGrpc{context_, listener->settings});
        listener->clients = std::make_unique<client::ConnectionContext>(
            connection_context(&faces::serve_envoy_grpc, listener->envoy_grpc.get(), grpc_http2_));
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

redis::Servers Worker::make_redis() {
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
        {redis_store(config), &shared_.replicas, denials_of(config, shared_.workers),
         reports_of(shared_.workers), &shared_.freed,
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
    use_http2(*snapshot.config);
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
    if (heartbeat_) heartbeat_->configure(snapshot.config->replicas.value_or(0));
    // The remembered denials belong to limits that may be others now.
    limiter_.forget_denials(denials_of(*snapshot.config, shared_.workers));
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
