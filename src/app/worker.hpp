// One thread and its world: event loop, listeners, client, upstream and Redis connections.
//
// Constructed and destroyed by the main thread while its own is not running; everything else
// happens on its own thread, which other threads reach through post().
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "app/config_snapshot.hpp"
#include "app/listener.hpp"
#include "app/shared_state.hpp"
#include "client/connection_eviction.hpp"
#include "client/http1_connection.hpp"
#include "client/refused_connections.hpp"
#include "faces/check.hpp"
#include "faces/forward_auth.hpp"
#include "net/asio.hpp"
#include "net/deadline.hpp"
#include "net/readiness.hpp"
#include "proxy/worker_context.hpp"
#include "store/heartbeat.hpp"
#include "store/limiter.hpp"

namespace tidegate::app {

class Worker {
  public:
    // Adopts descriptor `index` of each of `listeners`. Worker 0 sends the process's heartbeat.
    Worker(SharedState& shared, std::size_t index, const std::vector<ListenerGroup>& listeners,
           const ConfigSnapshot& snapshot);
    ~Worker();

    void start();
    // Requests that begin from now on get what `snapshot` says; those in flight keep what they
    // have. `done` is called on this worker's thread when it is so, or if it is leaving.
    void reload(std::shared_ptr<const ConfigSnapshot> snapshot, std::function<void()> done);
    // Calls `ask` on this worker's thread, with its way to what Redis counts. Requires Redis. A
    // worker that has left calls nothing, here and below.
    void inspect(std::function<void(const store::Inspector&)> ask);
    // Forgets what is remembered here of these items, then calls `done`, on this worker's thread.
    // Whoever owns the items owns what they point to: configuration and identifier.
    void forget(std::shared_ptr<const std::vector<limit::ChargeItem>> items,
                std::function<void()> done);
    // Drained: it has no connection left and answers no request any more. Any thread.
    bool has_left() const { return finished_; }
    // Stops accepting, lets what is in flight finish; ends when it has, or with cut().
    void drain();
    // Breaks off whatever is left.
    void cut();
    void join();

  private:
    struct Listener {
        config::Listen settings;
        Acceptor acceptor;
        bool starved = false;  // no descriptor was left for the last connection
        // Of a listener whose face is not the proxy.
        std::unique_ptr<faces::ForwardAuth> forward_auth;
        std::unique_ptr<faces::Check> check;
        std::unique_ptr<client::ConnectionContext> clients;
    };

    redis::Servers make_redis();
    store::Limiter make_limiter(const config::Config& config);
    store::RedisStore redis_store(const config::Config& config) const;
    void start_heartbeat();
    // Pools of upstreams that stay as they were are those of the generation in force, if any.
    proxy::GenerationPtr make_generation(const ConfigSnapshot& snapshot);
    std::shared_ptr<upstream::Pool> find_or_make_pool(const upstream::GroupPtr& group,
                                                      std::size_t metrics_slot);
    void adopt(const ConfigSnapshot& snapshot);
    void add_listener(const ListenerGroup& group);
    // Calls `visit` with what the connections of each face share.
    template <class Visit>
    void for_each_context(Visit visit) {
        visit(clients_);
        for (const auto& listener : listeners_) {
            if (listener->clients) visit(*listener->clients);
        }
    }
    client::ConnectionContext connection_context(client::ConnectionContext::Serve serve,
                                                 void* server);
    Task<> accept(Listener& listener);
    // Takes what waits, up to a portion. Returns how many; sets `starved` when the kernel has no
    // descriptor to give.
    int accept_ready(Listener& listener);
    // A slot, or the bound that is reached.
    Result<client::ConnectionLimit::Slot, telemetry::ConnectionRefusal> take_slot(
        const identity::Peer& peer);
    void open_connection(Listener& listener, int descriptor, const sockaddr_storage& from);
    Task<> tick();
    // An exception has ended a connection: the worker logs and counts it.
    void tell_internal_error(const std::exception_ptr& failure);
    void finish_if_empty();

    SharedState& shared_;
    std::size_t index_;
    asio::io_context io_{1};
    Readiness readiness_;
    DeadlineWheel deadlines_;
    BufferPool buffers_;
    redis::Servers redis_;
    std::shared_ptr<store::Heartbeat> heartbeat_;
    store::Limiter limiter_;
    proxy::WorkerContext context_;
    std::vector<std::unique_ptr<Listener>> listeners_;
    client::ConnectionContext clients_;
    client::Http1ConnectionList connections_;
    client::RefusedConnections refused_connections_;
    client::ConnectionEviction connection_eviction_;
    Timer tick_timer_;
    std::atomic<bool> finished_{false};  // set on its own thread
    std::thread thread_;
};

}  // namespace tidegate::app
