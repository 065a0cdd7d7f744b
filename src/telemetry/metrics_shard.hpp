// What is inside a metrics shard; for metrics.cpp, which adds the shards up.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include <boost/align/aligned_allocator.hpp>

#include "telemetry/counters.hpp"
#include "telemetry/growing_table.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::telemetry {

inline constexpr std::size_t kStoreKinds = static_cast<std::size_t>(StoreKind::local) + 1;
inline constexpr std::size_t kStoreFailures = static_cast<std::size_t>(StoreFailure::full) + 1;
inline constexpr std::size_t kConnectionRefusals =
    static_cast<std::size_t>(ConnectionRefusal::new_per_ip) + 1;
inline constexpr std::size_t kLocalReportResults =
    static_cast<std::size_t>(LocalReportResult::forgotten) + 1;
inline constexpr std::size_t kCostFaults = static_cast<std::size_t>(CostFault::out_of_range) + 1;

struct RouteCounts {
    StatusCounts status;
    Histogram<kRequestBounds> seconds;
};

struct DecisionCounts {
    Counter admitted;
    Counter denied;
};

struct UpstreamCounts {
    Histogram<kRequestBounds> seconds;
    Histogram<kRequestBounds> queue_seconds;
    Counter failures;
};

struct ConnectionCounts {
    Counter opened;
    Counter closed;
};

// As for GrowingTable: shards of several threads are made one after the other.
template <class T>
using ShardVector = std::vector<T, boost::alignment::aligned_allocator<T, 64>>;

struct alignas(64) MetricsShard::Impl {
    Impl(std::size_t names_max, std::size_t fault_count)
        : routes(names_max), decisions(names_max), upstreams(names_max), faults(fault_count) {}

    GrowingTable<RouteCounts> routes;
    RouteCounts no_route;
    GrowingTable<DecisionCounts> decisions;
    GrowingTable<UpstreamCounts> upstreams;
    ShardVector<Counter> faults;
    std::array<Histogram<kDecisionBounds>, kStoreKinds> decision_seconds{};
    std::array<Counter, kStoreFailures> store_failures{};
    std::array<Counter, kCostFaults> costs_ignored{};
    Counter forwarding_invalid;
    Counter forwarding_ignored;
    Counter questions_without_address;
    Counter deny_cache_hits;
    Counter given_back;
    std::array<Counter, kLocalReportResults> local_reports{};
    std::atomic<StoreState> store_state{StoreState::up};
    ConnectionCounts clients;
    std::array<Counter, kConnectionRefusals> clients_refused{};
    std::array<Counter, kProxyHeaderRefusals> proxy_headers_refused{};
    Counter tls_handshakes_full;
    Counter tls_handshakes_resumed;
    std::array<Counter, kTlsHandshakeFailures> tls_handshakes_failed{};
    std::array<Counter, kHttp2Ends> http2_connections_ended{};
    Counter http2_streams_refused;
    Counter clients_idled_out;
    Counter clients_made_room;
    Counter internal_errors;
    ConnectionCounts upstream_connections;
    Counter tunnels_opened;
    std::array<Counter, kTunnelEnds> tunnels_ended{};
    Counter tunnel_bytes_received;
    Counter tunnel_bytes_sent;
    Counter bytes_received;
    Counter bytes_sent;
};

}  // namespace tidegate::telemetry
