// A worker's connections to one upstream: which server comes next, what is idle, what is new.
//
// One thread. The totals of the configuration are the process's; each worker has its share.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "net/connection.hpp"
#include "net/sleeper.hpp"
#include "proxy/upstream_seats.hpp"
#include "telemetry/log_interval.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::proxy {

class UpstreamPool;

// One server of an upstream, in the eyes of one worker.
class UpstreamServer {
  public:
    const std::string& address() const { return address_; }      // for the log
    const std::string& authority() const { return authority_; }  // for Host, if it is not preserved

  private:
    friend class UpstreamPool;

    struct Idle {
        ConnectionPtr connection;
        SteadyTime since;
    };

    const config::UpstreamServer* settings_ = nullptr;
    std::string address_;
    std::string authority_;
    bool named_ = false;                               // by a name that has to be resolved
    std::vector<StreamProtocol::endpoint> endpoints_;  // empty until it is
    std::size_t next_endpoint_ = 0;
    std::vector<Idle> idle_;  // the last one used last: it is the least likely to be stale
    std::int64_t turn_ = 0;   // smooth weighted round robin
    SteadyTime shunned_until_{};
    bool down_ = false;  // the last connection was not made: that is logged once, not each time
};

// A connection for one request. Given back or thrown away, never dropped.
struct UpstreamLease {
    UpstreamServer* server = nullptr;
    ConnectionPtr connection;
    bool reused = false;
    bool withdrawn = false;  // the connection was closed to make room, and is not counted any more

    explicit operator bool() const { return connection != nullptr; }
};

// What names were found to mean, by `host:port`.
using KnownAddresses = std::map<std::string, std::vector<StreamProtocol::endpoint>>;

// Shared by the generations of the configuration that have the same upstream; what a request has of
// one stays usable until the request ends, though the pool was stopped meanwhile.
class UpstreamPool {
  public:
    // Counts as `metrics_slot`.
    UpstreamPool(Executor executor, Readiness& readiness, const config::Upstream& settings,
                 std::size_t metrics_slot, std::size_t workers, telemetry::MetricsShard& metrics);

    const config::Upstream& settings() const { return settings_; }
    std::size_t metrics_slot() const { return metrics_slot_; }

    // Names that are known already need not be resolved before the first request.
    void learn(const KnownAddresses& known);
    // Adds what this pool knows, where nothing is known yet.
    void tell(KnownAddresses& known) const;

    // The server whose turn it is; those that just failed only when there is no other. Not
    // `other_than`, if there is any other.
    UpstreamServer& next_server(const UpstreamServer* other_than = nullptr);

    // Whether a request that could not reach `server` has anything else to try: another server, or
    // another address of this one.
    bool has_another_way(const UpstreamServer& server) const {
        return servers_.size() > 1 || server.endpoints_.size() > 1;
    }

    // Whether `seat` may have a connection: then it is among those that hold one until it goes. Not
    // while connections are kept for other addresses and its own has its share.
    bool admit(UpstreamSeat& seat);

    // An idle connection that has stayed silent, or an empty lease.
    UpstreamLease take_idle(UpstreamServer& server);

    enum class ConnectFault : std::uint8_t { none, unreachable, timeout, exhausted };
    // Makes a connection within the upstream's `connect` time; where none is free, in the place of
    // another request, if one has to make room for `seat`.
    Task<ConnectFault> connect(UpstreamServer& server, Sleeper& sleeper, UpstreamLease& lease,
                               const UpstreamSeat& seat);

    // `lease` is silent and its last answer complete: the next request may have it.
    void give_back(UpstreamLease& lease);
    void throw_away(UpstreamLease& lease);
    // Closes the connection of `lease`, which keeps it until it is thrown away: the request that
    // has it is not done with it.
    void withdraw(UpstreamLease& lease);

    // Throws away what has been idle for too long, or has spoken or closed meanwhile.
    void sweep(SteadyTime now);

    // Keeps the names resolved; a server whose name is not is unreachable. Spawn once; ends with
    // stop().
    static Task<> resolve_names(std::shared_ptr<UpstreamPool> self);
    // Nothing is kept idle any more; leases end as they come back.
    void stop();

  private:
    Task<> resolve(UpstreamServer& server);
    void forget(const ConnectionPtr& connection);
    bool forget_oldest_idle();
    bool make_room(const UpstreamSeat& seat);
    std::size_t idle() const;

    Readiness& readiness_;
    const config::Upstream settings_;  // its own: it outlives the configuration it came with
    std::size_t metrics_slot_;
    std::size_t connections_max_;
    std::size_t idle_max_;
    std::size_t connections_ = 0;
    UpstreamSeats seats_;
    telemetry::LogInterval log_interval_;  // of requests that make room
    telemetry::MetricsShard& metrics_;
    std::vector<UpstreamServer> servers_;
    Timer resolve_timer_;
    bool stopped_ = false;
};

}  // namespace tidegate::proxy
