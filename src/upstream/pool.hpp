// A worker's connections to one upstream: chooses servers, keeps idle connections, makes new ones.
//
// A request gets a stream with a connection, and gives it back or throws it away, never drops it.
// Each connection has one of the upstream's seats (`max_connections`), which are the process's. One
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "config/config.hpp"
#include "net/sleeper.hpp"
#include "telemetry/log_interval.hpp"
#include "telemetry/metrics.hpp"
#include "upstream/chooser.hpp"
#include "upstream/fair_share.hpp"
#include "upstream/group.hpp"
#include "upstream/http1_stream.hpp"
#include "upstream/seat_wait.hpp"
#include "upstream/server.hpp"

namespace tidegate::upstream {

// Shared by the generations of the configuration that have the same upstream. What a request holds
// of a pool stays usable until the request ends, even if the pool was stopped meanwhile.
class Pool {
  public:
    // Of worker number `worker`; counts as `metrics_slot`.
    Pool(const Executor& executor, Readiness& readiness, GroupPtr group, std::size_t worker,
         std::size_t metrics_slot, telemetry::MetricsShard& metrics);

    const GroupPtr& group() const { return group_; }
    const config::Upstream& settings() const { return group_->settings(); }
    std::size_t metrics_slot() const { return metrics_slot_; }

    // The server whose turn it is, or that `key` chooses, a hash of the upstream's `balance:
    // {hash}`; never `other_than`, unless it is the only one. Null: no server may be chosen; see
    // has_server().
    Server* choose(std::optional<std::uint64_t> key, const Server* other_than = nullptr);
    // False: no name of the upstream has led to an address yet.
    bool has_server() const { return !servers_.empty(); }
    // The server must get no request.
    static bool is_out(const Server& server);
    // Whether a request that could not reach a server may try another one.
    bool has_alternative() const { return servers_.size() > 1; }
    // How many requests are in flight on a server is what other threads choose by.
    bool is_counted() const { return settings().balance != config::Balance::round_robin; }
    // All workers' requests that are in flight. Costs a look at each server's counts.
    std::size_t count_active() const;

    // Whether `request` may have a connection: then it is among those that hold one until it goes.
    // Not while connections are reserved for other addresses and its own has its share.
    bool admit(ActiveRequest& request);

    // Opens `stream` with an idle connection on which the server sent nothing. False: there is
    // none, or requests wait in line, and this one shall not get ahead of them.
    bool take_idle(Server& server, Http1Stream& stream);

    // A seat for a new connection of `request`. Where all are taken, the pool closes an idle
    // connection to another server, or evicts a request in favour of `request`. None: none is free.
    Seat take_seat(const ActiveRequest& request);
    SeatWait make_wait(Wakeup& wakeup, ActiveRequest& request) {
        return {executor_, group_->seats(), wakeup, request};
    }
    // Begins to wait for a seat. False: the line is full, and no waiting request of another address
    // with more than its share was there to make room.
    bool begin_wait(SeatWait& wait);
    // `wait` was accepted: its seat. Where a connection came with it, which leads to `server` if
    // `must_be_it`, the pool opens `stream` with that, and no seat is left.
    Seat end_wait(SeatWait& wait, const Server& server, bool must_be_it, Http1Stream& stream);
    // The request has left the line, or has lost its place.
    void leave_line(SeatWait& wait);

    enum class ConnectFault : std::uint8_t { none, unreachable, timeout };
    // Opens `stream` with a new connection, within the upstream's `connect` time. Requires a seat,
    // which the connection takes over; a connection that fails leaves it.
    Task<ConnectFault> connect(Server& server, Sleeper& sleeper, Http1Stream& stream, Seat& seat);

    // The answer is complete and nothing follows it: another request may have the connection.
    void give_back(Http1Stream& stream);
    void throw_away(Http1Stream& stream);
    // Closes the connection in favour of another request. The stream stays evicted until it is
    // thrown away.
    void evict(Http1Stream& stream);

    // Closes connections that were idle for too long, or on which the server sent or closed.
    void sweep(SteadyTime now);
    // To be called each tick: while requests of any worker wait for a seat, closes an idle
    // connection, or evicts a request.
    void make_room(SteadyTime now) {
        if (group_->seats().waiting() > 0) make_room_now(now);
    }

    // The pool keeps nothing idle any more; connections close when requests give them back.
    void stop();

  private:
    void follow_group();
    void close(const ConnectionPtr& connection);
    void forget(const ConnectionPtr& connection);
    void forget_idle(Server& server);
    bool forget_oldest_idle();
    bool evict_for(const ActiveRequest& request, SteadyTime now);
    void evict(ActiveRequest& request, SteadyTime now);
    bool push_out_for(const ActiveRequest& request);
    void make_room_now(SteadyTime now);
    void log_eviction(const ActiveRequest& evicted, SteadyTime now);
    bool has(const Server& server) const;

    const Executor executor_;
    Readiness& readiness_;
    const GroupPtr group_;
    const std::size_t worker_;
    const std::size_t metrics_slot_;
    const std::size_t idle_max_;
    std::uint64_t version_ = 0;  // of the group's servers
    std::vector<ServerPtr> servers_;
    Chooser chooser_;
    std::size_t idle_ = 0;      // connections
    bool keeps_seats_ = false;  // of connections that it closes
    FairShare requests_;
    boost::intrusive::list<SeatWait, boost::intrusive::constant_time_size<false>> waiting_;
    telemetry::LogInterval eviction_log_;
    telemetry::MetricsShard& metrics_;
    bool stopped_ = false;
};

}  // namespace tidegate::upstream
