// What is inside a metrics shard; for metrics.cpp, which adds the shards up.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include <boost/align/aligned_allocator.hpp>

#include "telemetry/counters.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::telemetry {

inline constexpr std::size_t kStoreKinds = static_cast<std::size_t>(StoreKind::local) + 1;
inline constexpr std::size_t kStoreFailures = static_cast<std::size_t>(StoreFailure::full) + 1;

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
    Counter failures;
};

struct ConnectionCounts {
    Counter opened;
    Counter closed;
};

// Shards are made one after the other by one thread, yet written by several: what one writes must
// not share a cache line with what another does.
template <class T>
using ShardVector = std::vector<T, boost::alignment::aligned_allocator<T, 64>>;

struct alignas(64) MetricsShard::Impl {
    explicit Impl(const MetricNames& names);

    // The position of a limit's counts in `decisions`; decisions.size() when there is no such.
    std::size_t decision_index(std::size_t policy, std::size_t limit) const;

    ShardVector<RouteCounts> routes;          // one more than named: kNoRoute
    std::vector<std::size_t> decision_begin;  // by policy, and one past the end
    ShardVector<DecisionCounts> decisions;    // the limits of all policies in a row
    ShardVector<UpstreamCounts> upstreams;
    std::array<Histogram<kDecisionBounds>, kStoreKinds> decision_seconds{};
    std::array<Counter, kStoreFailures> store_failures{};
    std::atomic<StoreState> store_state{StoreState::up};
    ConnectionCounts clients;
    Counter clients_refused;
    ConnectionCounts upstream_connections;
    Counter bytes_received;
    Counter bytes_sent;
};

}  // namespace tidegate::telemetry
