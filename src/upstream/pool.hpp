// A worker's connections to one upstream: chooses servers, keeps idle connections, makes new ones.
//
// A request gets a stream with a connection, and gives it back or throws it away, never drops it.
// One thread. The totals of the configuration are the process's; each worker has its share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "net/sleeper.hpp"
#include "telemetry/log_interval.hpp"
#include "telemetry/metrics.hpp"
#include "upstream/fair_share.hpp"
#include "upstream/http1_stream.hpp"
#include "upstream/resolver.hpp"
#include "upstream/server.hpp"

namespace tidegate::upstream {

// Shared by the generations of the configuration that have the same upstream. What a request holds
// of a pool stays usable until the request ends, even if the pool was stopped meanwhile.
class Pool {
  public:
    // Counts as `metrics_slot`.
    Pool(const Executor& executor, Readiness& readiness, const config::Upstream& settings,
         std::size_t metrics_slot, std::size_t workers, telemetry::MetricsShard& metrics);

    const config::Upstream& settings() const { return settings_; }
    std::size_t metrics_slot() const { return metrics_slot_; }
    Resolver& resolver() { return resolver_; }

    // The server whose turn it is: see next_by_weight().
    Server& next_server(const Server* other_than = nullptr);

    // Whether a request that could not reach `server` has anything else to try: another server, or
    // another address of this one.
    bool has_alternative(const Server& server) const {
        return servers_.size() > 1 || server.endpoints().size() > 1;
    }

    // Whether `request` may have a connection: then it is among those that hold one until it goes.
    // Not while connections are reserved for other addresses and its own has its share.
    bool admit(ActiveRequest& request);

    // Opens `stream` with an idle connection on which the server sent nothing. False: there is
    // none.
    bool take_idle(Server& server, Http1Stream& stream);

    enum class ConnectFault : std::uint8_t { none, unreachable, timeout, exhausted };
    // Opens `stream` with a new connection, within the upstream's `connect` time. Where the pool is
    // full, it closes an idle connection to another server, or evicts a request in favour of
    // `request`.
    Task<ConnectFault> connect(Server& server, Sleeper& sleeper, Http1Stream& stream,
                               const ActiveRequest& request);

    // The answer is complete and nothing follows it: another request may have the connection.
    void give_back(Http1Stream& stream);
    void throw_away(Http1Stream& stream);
    // Closes the connection in favour of another request. The stream stays evicted until it is
    // thrown away.
    void evict(Http1Stream& stream);

    // Closes connections that were idle for too long, or on which the server sent or closed.
    void sweep(SteadyTime now);

    // Spawn once; ends soon after stop().
    static Task<> resolve_names(std::shared_ptr<Pool> self);
    // The pool keeps nothing idle any more; connections close when requests give them back.
    void stop();

  private:
    void forget(const ConnectionPtr& connection);
    bool forget_oldest_idle();
    bool evict_for(const ActiveRequest& request);
    void log_eviction(const ActiveRequest& evicted, SteadyTime now);
    // These log once a minute for all threads; `error` is an errno.
    void log_failure(const Server& server, int error) const;
    void log_recovery(const Server& server) const;
    std::string failure_kind(const Server& server) const;
    std::size_t idle_count() const;

    Readiness& readiness_;
    const config::Upstream settings_;  // its own: it outlives the configuration it came with
    std::size_t metrics_slot_;
    std::size_t connections_max_;
    std::size_t idle_max_;
    std::size_t connections_ = 0;
    FairShare requests_;
    telemetry::LogInterval eviction_log_;
    telemetry::MetricsShard& metrics_;
    std::vector<Server> servers_;
    Resolver resolver_;
    bool stopped_ = false;
};

}  // namespace tidegate::upstream
