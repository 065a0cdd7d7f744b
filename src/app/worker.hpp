// One thread and its world: event loop, listeners, client, upstream and Redis connections.
//
// Constructed and destroyed by the main thread while its own is not running; everything else
// happens on its own thread, which other threads reach through post().
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/listener.hpp"
#include "app/shared_state.hpp"
#include "client/connection_limit.hpp"
#include "client/http1_connection.hpp"
#include "client/http2_connection.hpp"
#include "client/tls_handshake.hpp"
#include "client/unserved_connections.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/deadline.hpp"
#include "net/descriptor.hpp"
#include "proxy/worker_context.hpp"
#include "store/limiter.hpp"
#include "store/replica_heartbeat.hpp"

namespace tidegate::app {

class Worker {
  public:
    // Adopts descriptor `index` of each of `listeners`, and where there are more descriptors than
    // workers every `workers`-th after it. Worker 0 sends the process's heartbeat.
    Worker(SharedState& shared, std::size_t index, const std::vector<ListenerGroup>& listeners,
           const ConfigSnapshot& snapshot);
    ~Worker();

    // Calls `done` with how many units of each item are in leases of this thread. Any thread;
    // `done` is called on that of the worker.
    void count_leased(std::shared_ptr<const std::vector<limit::ChargeItem>> items,
                      std::function<void(std::vector<std::int64_t>)> done);

    // Does all but accept connections.
    void start();
    // Calls `wait` on this worker's thread, which does nothing else until that returns.
    void hold(std::function<void()> wait);
    // Begins to accept, or goes on after pause_accepting().
    void begin_accepting();
    // Leaves what waits to be accepted in the queues of the sockets, and calls `done` on this
    // worker's thread. Connections that it has accepted go on.
    void pause_accepting(std::function<void()> done);
    // After that: leaves the sockets to another process, and does not accept again.
    void leave_listeners();
    // Requests that begin from now on get what `snapshot` says; those in flight keep what they
    // have. `done` is called on this worker's thread when it is so, or if it is leaving.
    void reload(std::shared_ptr<const ConfigSnapshot> snapshot, std::function<void()> done);
    // Calls `ask` on this worker's thread, with its way to what Redis counts. Requires Redis. A
    // worker that has left calls nothing, here and below.
    void inspect(std::function<void(const store::Inspector&)> ask);
    // Forgets what is remembered here of these items, then calls `done`, on this worker's thread.
    // The owner of the items also owns what they point to: configuration and identifier.
    void forget(std::shared_ptr<const std::vector<limit::ChargeItem>> items,
                std::function<void()> done);
    // Calls `look` on this worker's thread with what it remembers of clients, once in each turn of
    // its loop until `look` returns true.
    void show_activity(std::function<bool(telemetry::Activity&)> look);
    // Calls `use` on this worker's thread with its recording, which may be null.
    void use_recording(std::function<void(std::unique_ptr<proxy::Recording>&)> use);
    // Drained: it has no connection left and answers no request any more. Any thread.
    bool has_left() const { return finished_; }
    // Grows at every tick of DeadlineWheel while the loop runs. Any thread.
    std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
    // Accepts what waits and no more, unless it has left the listeners; lets what is in flight
    // finish, and idle connections bring a request for `idle_patience`; ends when it has, or with
    // cut().
    void drain(std::chrono::milliseconds idle_patience);
    // Breaks off the requests that are left, and waits no longer until Redis has counted what
    // requests cost; tunnels go on. `is_late`: the time to drain is over, and the worker logs what
    // there still is.
    void cut_requests(bool is_late);
    // The same of the tunnels that are left.
    void cut_tunnels(bool is_late);
    void join();

  private:
    struct Listener {
        config::Listen settings;
        Acceptor acceptor;
        Descriptor paused{};         // that of the acceptor, which is closed meanwhile
        bool starved = false;        // no descriptor was left for the last connection
        std::string hsts_line;       // see client::Arrival
        config::Address configured;  // as the configuration has it
        // Set if the listener speaks TLS; a reload replaces both.
        std::shared_ptr<const ServerCredentials> credentials;
        std::unique_ptr<TlsServer> tls;
        // Set if the face of the listener is not the proxy, or if it redirects.
        std::shared_ptr<void> face;
        std::unique_ptr<client::ConnectionContext> clients;
    };

    struct NextTls {
        std::shared_ptr<const ServerCredentials> credentials;
        std::unique_ptr<TlsServer> server;
    };

    using milliseconds = std::chrono::milliseconds;
    using MaybeUnfinished = client::TlsHandshake::MaybeUnfinished;

    redis::RedisServers make_redis();
    store::Limiter make_limiter(const config::Config& config);
    store::RedisStore redis_store(const config::Config& config) const;
    void start_heartbeat();
    // Pools of upstreams that stay as they were are those of the generation in force, if any.
    proxy::GenerationPtr make_generation(const ConfigSnapshot& snapshot);
    std::shared_ptr<upstream::Pool> find_or_make_pool(const upstream::GroupPtr& group,
                                                      std::size_t metrics_slot);
    void adopt(const ConfigSnapshot& snapshot);
    void add_listener(const ListenerGroup& group, int descriptor, const ConfigSnapshot& snapshot);
    // Takes over what a reload may change of a listener.
    static void refresh(Listener& listener, const config::Config& config);
    // Makes what `listener` needs of `snapshot`; nothing: the listener has it.
    static NextTls make_tls(const Listener& listener, const ConfigSnapshot& snapshot);
    static void use_tls(Listener& listener, NextTls&& next);
    // Calls `visit` with what the connections of each face share.
    template <class Visit>
    void for_each_context(Visit visit) {
        visit(clients_);
        for (const auto& listener : listeners_) {
            if (listener->clients) visit(*listener->clients);
        }
    }
    void run();
    void use_bounds(const config::Config& config);
    void use_leases(const config::Config& config);
    // Remembers names of clients for the admin listener, if there is one.
    void keep_names(const config::Config& config);
    client::ConnectionContext connection_context(client::ConnectionContext::Serve serve,
                                                 void* server, client::Http2Resources& http2);
    Task<> accept(Listener& listener);
    // Takes the descriptor of a listener off this worker's loop.
    static Descriptor release(Listener& listener);
    // Ends the pause of a listener, if it pauses.
    void resume(Listener& listener);
    // Takes what waits, up to a portion. Returns how many; sets `starved` when the kernel has no
    // descriptor to give.
    int accept_ready(Listener& listener);
    // A slot for a client of `address` (see client::counted_address), or the bound that is reached.
    Result<client::ConnectionLimit::Slot, client::ConnectionRefusal> take_slot(
        const std::optional<IpAddress>& address);
    // Room for a connection of `address` that cannot speak HTTP yet. If there is none, the address
    // with most handshakes may make room.
    MaybeUnfinished take_unfinished(const std::optional<IpAddress>& address);
    // Whether `connections.new_per_ip` admits one more connection of `address`, and takes it.
    bool is_in_rate(const std::optional<IpAddress>& address);
    void open_connection(Listener& listener, Descriptor descriptor, const sockaddr_storage& from);
    // Closes the connection; in the clear, with an answer that says why.
    void refuse_connection(const Listener& listener, Descriptor descriptor,
                           client::ConnectionRefusal reason, const std::optional<IpAddress>& peer);
    // Answers in the clear and closes. Without a reason: TLS is spoken there.
    void answer_unread(Descriptor descriptor, std::optional<client::ConnectionRefusal> reason,
                       const std::optional<IpAddress>& peer);
    void serve_connection(Listener& listener, ConnectionPtr connection,
                          const client::Arrival& arrival, client::ConnectionLimit::Slot slot);
    // The same for a listener with `proxy_protocol`, where the PROXY header names the client.
    void open_behind_balancer(Listener& listener, Descriptor descriptor,
                              const client::Arrival& arrival);
    Task<> await_proxy_header(Listener& listener, std::unique_ptr<client::ProxyHeaderWait> wait,
                              client::ConnectionLimit::Slot slot, MaybeUnfinished unfinished);
    // Header and handshake share one deadline.
    void open_named(Listener& listener, ConnectionPtr connection,
                    const std::optional<IpAddress>& balancer, client::Arrival arrival,
                    client::ConnectionLimit::Slot slot, MaybeUnfinished unfinished,
                    milliseconds patience);
    // The same for a listener that speaks TLS.
    void begin_handshake(Listener& listener, ConnectionPtr connection,
                         client::TlsHandshake::Client client, client::ConnectionLimit::Slot slot,
                         milliseconds patience);
    Task<> shake_hands(Listener& listener, std::unique_ptr<client::TlsHandshake> handshake,
                       client::ConnectionLimit::Slot slot, milliseconds patience);
    void end_without_tls(const Listener& listener, client::TlsHandshake& handshake,
                         client::TlsHandshake::End end);
    void refuse_header(const Listener& listener, client::ProxyHeaderRefusal reason,
                       const std::optional<IpAddress>& peer, std::string_view fault = {});
    // Notes whether the configuration in force trusts `peer`, and whether it is a gateway.
    void judge_peer(identity::Peer& peer, const config::Listen& settings) const;
    // Breaks off the connections that are tunnels, or those that are not.
    void cut(bool tunnels, bool is_late);
    void stop_waiting_for_store(bool is_late);
    Task<> tick();
    // For requests that wait for a connection to an upstream, whichever configuration they have.
    void make_room(SteadyTime time);
    // An exception has ended a connection: the worker logs and counts it.
    void note_internal_error(const std::exception_ptr& failure);
    // The coroutine of a connection has ended; null: as it should.
    void note_end(const std::exception_ptr& failure) {
        if (failure) note_internal_error(failure);
        finish_if_empty();
    }
    void finish_if_empty();

    SharedState& shared_;
    std::size_t index_;
    WorkerMetrics& metrics_;
    client::HandshakeShares handshake_shares_;  // handshakes may go with the loop
    asio::io_context io_{1};
    Readiness readiness_;
    DeadlineWheel deadlines_;
    BufferPool buffers_;
    client::Http2Resources http2_;
    client::Http2Resources grpc_http2_;  // of listeners with the face envoy_grpc
    client::ServedConnectionList connections_;
    redis::RedisServers redis_;
    std::shared_ptr<store::Heartbeat> heartbeat_;
    store::Limiter limiter_;
    proxy::WorkerContext context_;
    // Pools of former configurations, which requests in flight keep.
    std::vector<std::weak_ptr<upstream::Pool>> former_pools_;
    std::vector<std::unique_ptr<Listener>> listeners_;
    client::ConnectionContext clients_;
    client::ProxyHeaderWaitList awaiting_proxy_header_;
    client::HandshakeTurns handshake_turns_;
    client::TlsHandshakeList handshakes_;
    client::RefusedConnections refused_connections_;
    client::UnservedConnections unserved_;
    client::ConnectionEviction connection_eviction_;
    Timer tick_timer_;
    bool is_store_late_ = false;           // the drain waits no longer for what Redis is to count
    std::atomic<bool> finished_{false};    // set on its own thread
    std::atomic<std::uint64_t> turns_{0};  // likewise
    std::thread thread_;
};

}  // namespace tidegate::app
