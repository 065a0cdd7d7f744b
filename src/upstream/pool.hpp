// A worker's connections to one upstream: chooses servers, keeps idle connections, makes new ones.
//
// A request gets a stream with a connection, and gives it back, throws it away or makes a tunnel of
// it, never drops it.
// Each connection has one of the upstream's seats (`max_connections`), which all threads share. To
// a server that speaks HTTP/2, requests share connections, and each request has a seat for as long
// as it is there: what `max_connections` bounds is what the servers work at. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "config/config.hpp"
#include "net/wakeup.hpp"
#include "telemetry/error_log.hpp"
#include "upstream/fair_share.hpp"
#include "upstream/group.hpp"
#include "upstream/http1_stream.hpp"
#include "upstream/metrics.hpp"
#include "upstream/server.hpp"
#include "upstream/stream.hpp"

namespace tidegate::upstream {

// Shared by the generations of the configuration that have the same upstream. What a request holds
// of a pool stays usable until the request ends, even if the pool was stopped meanwhile.
class Pool {
  public:
    // The pools of a worker share this loop, which outlives their use.
    struct Loop {
        Executor executor;
        Readiness& readiness;
        DeadlineWheel& deadlines;
        BufferPool& buffers;
        Metrics& metrics;
    };

    // Makes the pool of worker number `worker`, which counts in `metrics_slot`.
    Pool(const Loop& loop, GroupPtr group, std::size_t worker, std::size_t metrics_slot);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    // The bounds of answers in HTTP/2, on connections from now on.
    void set_answer_bounds(const http::HeadBounds& bounds) { http2_.settings.head = bounds; }

    const GroupPtr& group() const { return group_; }
    const config::Upstream& settings() const { return group_->settings(); }

    // For metrics: how long a request to one of the servers took to the head of its answer, how
    // long it waited for a connection, and that no proper answer came.
    void count_answer(std::chrono::nanoseconds took) {
        metrics_.count_upstream(metrics_slot_, took);
    }
    void count_wait(std::chrono::nanoseconds took) {
        metrics_.count_upstream_queue(metrics_slot_, took);
    }
    void count_failure() { metrics_.count_upstream_failure(metrics_slot_); }

    // The server that the upstream's `balance` chooses. `key` is a hash of the request's value for
    // `balance: {hash}`. None of those that the request has `tried`, unless no other may be chosen.
    // Null: no server may be chosen; see has_server(). `needs_http2`: of the servers that speak
    // HTTP/2, as if there were no others; requires that the settings have such servers.
    Server* choose(std::optional<std::uint64_t> key, const balance::Tried& tried = {},
                   bool needs_http2 = false);
    // False: no name of the upstream has led to an address yet.
    bool has_server(bool needs_http2 = false) const { return !choice(needs_http2).servers.empty(); }
    // The server must get no request: it is unhealthy or drains.
    static bool is_out(const Server& server) {
        const balance::ServerState& state = server.shared().state;
        return state.verdict() == balance::CheckVerdict::unhealthy || state.is_draining();
    }
    // Any server: it may say that it has not looked at a request, whatever the method.
    bool may_refuse_unprocessed() const { return has_http2_; }
    // Whether choose() has a server that the request has not tried. Looks at one server after the
    // other until it finds one.
    bool has_untried(const balance::Tried& tried, bool needs_http2 = false) const;
    // How many requests are in flight on a server is what other threads choose by.
    bool is_counted() const { return settings().balance != config::Balance::round_robin; }
    // All workers' requests that are in flight. Costs a look at each server's counts.
    std::size_t count_active() const;

    // Whether `request` may have a connection: then it is among those that hold one until it goes.
    // Not while connections are reserved for other addresses and its own has its share.
    bool admit(ActiveRequest& request);

    // Opens `stream` with an idle connection on which the server sent nothing, or with a shared one
    // that has room if a seat is free. False: there is none, or requests wait in the queue, which
    // this one must not overtake.
    bool take_idle(Server& server, Stream& stream);
    // The same for a request that has `seat`, in HTTP/1: the connection has a seat of its own, so
    // the other one goes to the queue. (In HTTP/2, connect() finds a connection that is there.)
    bool take_idle(Server& server, Stream& stream, Seat& seat);

    // A seat for a new connection of `request`. If all are taken, the pool closes an idle
    // connection, whose seat goes to the queue if requests wait there; then it evicts another
    // request, whose seat goes to `request` at once. Without a seat: `request` has to wait.
    Seat take_seat(const ActiveRequest& request);
    // If the queue is off, a request still waits here until another thread has closed an idle
    // connection.
    std::chrono::milliseconds queue_wait() const {
        constexpr std::chrono::milliseconds kIdleClosed{100};
        return settings().queue.max > 0 ? settings().queue.wait : kIdleClosed;
    }
    SeatWait make_wait(Wakeup& wakeup, ActiveRequest& request) {
        return {executor_, group_->seats(), wakeup, request};
    }
    // Begins to wait for a seat. False: the queue is full, and no other address has more than a
    // quarter of its places, so none made room.
    bool begin_wait(SeatWait& wait);
    // A seat may come with a connection that has served another request. To which server that
    // connection may lead for the request to use it; `none`: the request opens a new one.
    enum class Reuse : std::uint8_t { any_server, own_server, none };
    // accept() has said that `wait` has its seat, which is `seat`. If a usable connection came with
    // it, to a server that `reuse` allows, opens `stream` with that connection, which takes over
    // the seat. Closes any other. `server` is the request's own.
    void end_wait(SeatWait& wait, const Server& server, Reuse reuse, Stream& stream, Seat& seat);
    // Ends a wait that gives no seat: the request leaves the queue, or has left it already.
    void leave_queue(SeatWait& wait);

    using ConnectFault = upstream::ConnectFault;
    struct ConnectTerms {
        std::chrono::milliseconds patience;  // for the connection, the handshake of TLS included
        bool is_fresh = false;  // no shared connection on which the server has answered already
    };
    // Opens `stream` with a new connection, or with a shared one that has room or is about to be
    // made. Requires a seat. The connection takes the seat over; if connecting fails, the caller
    // keeps it. Ends when `has_left`, which is asked whenever `sleeper` wakes, says that the client
    // of the request has left.
    Task<ConnectFault> connect(Server& server, Sleeper& sleeper, Stream& stream, Seat& seat,
                               const std::function<bool()>& has_left, ConnectTerms terms);

    // The request failed on the connection of `stream`, because TLS did: the server may refuse a
    // certificate when it has the request already. Logs it. False: for another reason.
    bool note_tls_failure(const Stream& stream);
    // The same because the server does not speak HTTP/2.
    bool note_no_http2(const Stream& stream);

    // In HTTP/2 the next three functions act on the stream alone, not on the connection. A batch
    // that was taken of the answer's body stays until the stream is reset.

    // The answer is complete and nothing follows it: another request may have the connection. The
    // first request in the queue gets the seat, and if it is of this thread the connection, too.
    void give_back(Stream& stream);
    // The answer is complete, and the connection of no more use: closes it.
    void throw_away(Stream& stream);
    // The exchange is not over: resets the connection, so that the server learns of it at once,
    // however much it has not read.
    void abort(Stream& stream);
    // Closes the connection. Its seat is the caller's, unless another request had it evicted.
    Seat keep_seat(Stream& stream);
    // Resets the connection in favour of another request. The stream stays evicted until it is
    // thrown away.
    void evict(Stream& stream);

    // Takes over the connection of `stream`, whose 101 the client has. The tunnel keeps the seat,
    // the place of `request` among those of its address, and its count in flight. In HTTP/1 only.
    std::unique_ptr<TunnelStream> open_tunnel(Stream& stream, ActiveRequest& request);
    // For TunnelStream: closes its connection, and gives the seat back.
    void close_tunnel(const ConnectionPtr& connection) { forget(connection); }

    // Closes connections that were idle for too long, or on which the server sent or closed.
    void sweep(SteadyTime now);
    // To be called each tick. While requests of any worker wait for a seat, closes idle connections
    // and evicts requests.
    void make_room(SteadyTime now) {
        if (group_->seats().waiting() > 0) make_room_now(now);
    }

    // The pool keeps nothing idle any more; connections close when requests give them back.
    void stop();

  private:
    // Servers, and how one of them is chosen.
    struct Choice {
        std::vector<ServerPtr> servers;
        Chooser chooser;
    };
    const Choice& choice(bool needs_http2) const {
        return needs_http2 && http2_only_ ? *http2_only_ : all_;
    }
    void follow_group();
    struct Failure {
        ConnectFault kind = ConnectFault::none;
        int error = 0;          // an errno
        std::string tls_why{};  // a clause for the log
    };
    static Failure failure_of(int error);
    // Holds the result of connecting; the connection is closed unless the failure is none.
    struct Reached {
        Failure failure;
        ConnectionPtr connection{};
    };
    Task<Reached> reach(Server& server, Sleeper& sleeper, const std::function<bool()>& has_left,
                        std::chrono::milliseconds patience);
    void note_connect_failure(Server& server, const Failure& failure);
    Task<Failure> shake_hands(Connection& connection, Server& server, Sleeper& sleeper,
                              const std::function<bool()>& has_left);
    void remember_session(Http1Stream& stream);
    bool open_idle(Server& server, Stream& stream);
    bool take_shared(Server& server, Stream& stream);
    Task<ConnectFault> share(Server& server, Sleeper& sleeper, Stream& stream, Seat& seat,
                             const std::function<bool()>& has_left, ConnectTerms terms);
    Task<Failure> make_shared(Server& server, Sleeper& sleeper,
                              const std::function<bool()>& has_left,
                              std::chrono::milliseconds patience, Http2ConnectionPtr& made);
    Seat keep_shared_seat(Stream& stream);
    void end_stream(Stream& stream);
    void close_if_unwanted(Server& server, Http2Connection& connection);
    void sweep_shared(Server& server, SteadyTime now);
    static void close_shared(Server& server, bool only_idle);
    void count_idle(int by) {
        idle_ += static_cast<std::size_t>(by);
        group_->set_idle(worker_, idle_);
    }
    void close(const ConnectionPtr& connection);
    void forget(const ConnectionPtr& connection);
    void forget_idle(Server& server);
    bool forget_oldest_idle();
    bool evict_for(const ActiveRequest& request, SteadyTime now);
    void evict(ActiveRequest& request, SteadyTime now);
    void make_room_now(SteadyTime now);
    int evict_for_waiting(int count_max, SteadyTime now);
    int evict_crowds_for_others(int count_max, SteadyTime now);
    void evict_slow(int count_max, SteadyTime now);
    void log_eviction(const ActiveRequest& evicted, SteadyTime now);
    bool has(const Server& server) const;

    const Executor executor_;
    Readiness& readiness_;
    BufferPool& buffers_;
    const GroupPtr group_;
    const bool has_http2_;
    Http2Context http2_;
    const std::size_t worker_;
    const std::size_t metrics_slot_;
    const std::size_t idle_max_;
    std::uint64_t version_ = 0;  // of the group's servers
    Choice all_;
    std::optional<Choice> http2_only_;  // unset: all servers speak HTTP/2, or none does
    std::size_t idle_ = 0;              // connections
    bool keeps_seats_ = false;          // a connection that is closed leaves its seat to the caller
    FairShare requests_;
    boost::intrusive::list<SeatWait, boost::intrusive::constant_time_size<false>> waiting_;
    telemetry::LogInterval eviction_log_;
    Metrics& metrics_;
    const std::shared_ptr<const TlsClient> tls_;  // null: no server is encrypted
    bool stopped_ = false;
};

}  // namespace tidegate::upstream
