// These metrics count the work of the pools of connections to upstreams. Metrics and the admin API
// also show the states of the servers. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/described_enum.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/metric.hpp"

namespace tidegate::upstream {

// `tidegate inspect --upstreams`, /readyz and /metrics show these states of the servers of an
// upstream.

// Whether requests go to a server.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    ServerHealth, std::uint8_t,
    up,         // as far as is known: a server without checks is up unless it is ejected
    unhealthy,  // its checks fail
    ejected)    // its requests failed, and others can serve

struct ServerStatus {
    std::string server;      // `10.0.0.7:3000`, or the socket's path
    std::string configured;  // as the configuration names it: `api.internal:3000`
    int weight = 1;
    ServerHealth health = ServerHealth::up;
    bool is_checked = false;     // a check has ended
    std::uint32_t active = 0;    // in flight, and those that wait for a connection
    std::uint64_t requests = 0;  // for which the server was chosen
    std::uint64_t failures = 0;
    std::uint64_t ejections = 0;
};

struct UpstreamStatus {
    std::string upstream;
    std::vector<ServerStatus> servers;
    std::vector<std::string> unresolved;  // names that have no address yet
    std::uint32_t names_failing = 0;      // names whose last look-up found no address
    std::uint32_t connections = 0;
    std::uint32_t connections_max = 0;
    std::uint32_t queued = 0;
};

// Holds the counters of one upstream in one thread.
struct UpstreamCounters {
    template <class Counted>
    using Of = telemetry::ByName<"upstream", Counted>;
    using Times = Of<telemetry::Histogram<telemetry::kRequestBounds>>;

    telemetry::Metric<Times, "tidegate_upstream_seconds",
                      "From sending a request to the head of its answer">
        seconds;
    // Counts requests for which no connection was free.
    telemetry::Metric<Times, "tidegate_upstream_queue_seconds",
                      "How long requests waited for one of max_connections">
        queue_seconds;
    telemetry::Metric<Of<telemetry::Counter>, "tidegate_upstream_failures_total",
                      "Requests that an upstream did not answer properly">
        failures;
};

// Holds the counters of all upstreams in one thread.
struct PoolCounters {
    telemetry::OpenMetrics<
        "tidegate_upstream_connections", "Connections to upstreams that are open",
        "tidegate_upstream_connections_total", "Connections to upstreams ever opened">
        connections;
};

// Holds all counters of one thread. A slot that is not there is not counted.
class Metrics : public PoolCounters {
  public:
    explicit Metrics(std::size_t names_max) : upstreams_(names_max) {}

    void count_upstream(std::size_t slot, telemetry::nanoseconds took) {
        if (slot < upstreams_.size()) upstreams_[slot].seconds.observe(took);
    }
    void count_upstream_queue(std::size_t slot, telemetry::nanoseconds took) {
        if (slot < upstreams_.size()) upstreams_[slot].queue_seconds.observe(took);
    }
    void count_upstream_failure(std::size_t slot) {
        if (slot < upstreams_.size()) upstreams_[slot].failures.add();
    }

    // For `upstreams` names; another thread than the one that counts may call it.
    void grow(std::size_t upstreams) { upstreams_.grow(upstreams); }
    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                      const telemetry::NameList<std::string>& upstreams);
    // Connections that are open now.
    static std::uint64_t open(telemetry::Threads<Metrics> threads);
    // The failures of all upstreams.
    std::uint64_t failures() const {
        std::uint64_t all = 0;
        for (std::size_t i = 0; i < upstreams_.size(); ++i) all += upstreams_[i].failures.value();
        return all;
    }

  private:
    telemetry::GrowingTable<UpstreamCounters> upstreams_;
};

// Writes the present states of the servers and queues of upstreams.
void write_metrics(telemetry::Exposition& out, std::span<const UpstreamStatus> upstreams);

}  // namespace tidegate::upstream
