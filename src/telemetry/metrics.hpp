// Counters of what happens, one shard a thread, merged when scraped.
//
// A shard is written by its own thread only, with plain relaxed loads and stores (no locked
// instruction on the way of a request); any thread may read it. Identifiers never become labels.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tidegate::telemetry {

using std::chrono::nanoseconds;

// How a request ended, as tidegate_requests_total tells it.
enum class Outcome : std::uint8_t {
    forwarded,    // the upstream's answer was relayed
    limited,      // a limit refused it
    rejected,     // the request itself was at fault: 4xx other than the limit
    failed,       // the upstream was: 502, 503, 504, or a broken answer
    unavailable,  // the store was, and the policy says deny
    aborted,      // the client left before its answer
};

enum class StoreKind : std::uint8_t { memory, redis, local };

enum class StoreFailure : std::uint8_t {
    timeout,       // no answer within the deadline
    disconnected,  // the connection was lost while waiting
    unavailable,   // not connected, or the breaker is open
    overloaded,    // too many commands in flight
    refused,       // Redis answered with an error
    protocol,      // an answer that makes no sense
    full,          // in process: max_keys reached and on_full is deny
};

enum class StoreState : std::uint8_t { up, down };

// The words of labels and log lines.
std::string_view to_string(Outcome outcome);
std::string_view to_string(StoreKind kind);
std::string_view to_string(StoreFailure failure);

// What the labels are; positions in these lists are what a shard is told.
struct MetricNames {
    struct PolicyNames {
        std::string policy;
        std::vector<std::string> limits;
    };
    std::vector<std::string> routes;
    std::vector<PolicyNames> policies;
    std::vector<std::string> upstreams;
};

inline constexpr std::size_t kNoRoute = static_cast<std::size_t>(-1);  // label route="-"

// What one thread counts. A position that is not in the names is not counted (a route that is not:
// as kNoRoute). Memory is taken at construction, about 1.2 KiB a route.
class MetricsShard {
  public:
    explicit MetricsShard(const MetricNames& names);
    ~MetricsShard();
    MetricsShard(const MetricsShard&) = delete;
    MetricsShard& operator=(const MetricsShard&) = delete;

    // tidegate_requests_total{route,code,outcome}, tidegate_request_seconds{route}. `code` is "-"
    // when no answer was sent (status 0), and "other" for what is no status, or once a route has
    // seen more than 48 pairs of status and outcome.
    void count_request(std::size_t route, int status, Outcome outcome, nanoseconds took);
    // tidegate_decisions_total{policy,limit,outcome="admitted"|"denied"}
    void count_decision(std::size_t policy, std::size_t limit, bool denied);
    // tidegate_decision_seconds{store}
    void count_decision_time(StoreKind store, nanoseconds took);
    // tidegate_store_failures_total{reason}
    void count_store_failure(StoreFailure reason);
    // tidegate_store_state{state="up"|"down"}: how many workers see it so. A shard
    // begins with `up`.
    void set_store_state(StoreState state);
    // tidegate_upstream_seconds{upstream}: from sending the request to the head of the answer
    void count_upstream(std::size_t upstream, nanoseconds took);
    // tidegate_upstream_failures_total{upstream}
    void count_upstream_failure(std::size_t upstream);
    // tidegate_client_connections (gauge), tidegate_client_connections_total
    void client_connected();
    void client_disconnected();
    // tidegate_client_connections_refused_total: over connections.max
    void client_refused();
    // tidegate_upstream_connections (gauge), tidegate_upstream_connections_total
    void upstream_connected();
    void upstream_disconnected();
    // tidegate_client_received_bytes_total, tidegate_client_sent_bytes_total
    void count_bytes(std::uint64_t received, std::uint64_t sent);

  private:
    friend class Metrics;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// The whole process's figures.
class Metrics {
  public:
    // Figures that are asked for when scraped rather than counted by a shard.
    struct Gauges {
        std::uint64_t memory_store_keys = 0;
        std::uint64_t memory_store_evictions = 0;
        std::uint64_t access_log_dropped = 0;
        std::uint64_t config_generation = 1;  // one more for each reload
    };

    Metrics(MetricNames names, std::size_t shards, std::string version);
    ~Metrics();

    // Each thread takes the one of its number. Requires index < shards.
    MetricsShard& shard(std::size_t index);
    bool store_is_up() const;  // in the eyes of every worker

    // The Prometheus text format. Any thread.
    std::string serialize(const Gauges& gauges) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tidegate::telemetry
