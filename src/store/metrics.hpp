// These metrics count the store's work. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/described_enum.hpp"
#include "telemetry/metric.hpp"

namespace tidegate::store {

// Which store answered.
BOOST_DEFINE_FIXED_ENUM_CLASS(StoreKind, std::uint8_t, memory, redis, local,
                              lease)  // a batch that this thread has taken in advance

// Why the store made no decision.
BOOST_DEFINE_FIXED_ENUM_CLASS(StoreFailure, std::uint8_t,
                              timeout,       // no answer within the deadline
                              disconnected,  // the connection was lost while waiting
                              unavailable,   // not connected, or the breaker is open
                              overloaded,    // too many commands in flight
                              refused,       // Redis answered with an error
                              protocol,      // an answer that makes no sense
                              full)          // in process: max_keys reached and on_full is deny

// How a worker sees the store.
BOOST_DEFINE_FIXED_ENUM_CLASS(StoreState, std::uint8_t, up, down)

// Says what became of an identifier that was counted in process while Redis was away.
BOOST_DEFINE_FIXED_ENUM_CLASS(LocalReportResult, std::uint8_t, reported,
                              expired,    // its counts had expired by then
                              lost,       // sent and not answered: perhaps counted, not sent again
                              refused,    // Redis answered with an error, again and again
                              forgotten)  // dropped for lack of room

// Says what became of the question for a batch of a lease.
BOOST_DEFINE_FIXED_ENUM_CLASS(LeaseResult, std::uint8_t, taken,
                              denied,  // it did not fit any more
                              failed)  // no answer: perhaps counted, and not used

// What happens to units of batches; the rest of those that were taken was admitted.
BOOST_DEFINE_FIXED_ENUM_CLASS(LeaseUnits, std::uint8_t, taken, given_back,
                              kept)  // not given back, as they expire soon

// What one thread holds in batches. Any thread may read it.
class LeasedUnits {
  public:
    void set(std::int64_t units) { units_.store(units, std::memory_order_relaxed); }
    std::int64_t get() const { return units_.load(std::memory_order_relaxed); }

    static constexpr telemetry::MetricType kType = telemetry::MetricType::gauge;
    static std::vector<telemetry::MetricLabel> labels() { return {}; }
    static void add(telemetry::Family family, telemetry::LabelValues outer,
                    telemetry::Threads<LeasedUnits> threads);

  private:
    std::atomic<std::int64_t> units_{0};
};

// The state of the store in the eyes of one thread: `up` at first. Any thread may read it.
class SeenState {
  public:
    void set(StoreState state) { state_.store(state, std::memory_order_relaxed); }
    StoreState get() const { return state_.load(std::memory_order_relaxed); }

    static constexpr telemetry::MetricType kType = telemetry::MetricType::gauge;
    static std::vector<telemetry::MetricLabel> labels();
    static void add(telemetry::Family family, telemetry::LabelValues outer,
                    telemetry::Threads<SeenState> threads);

  private:
    std::atomic<StoreState> state_{StoreState::up};
};

// Each thread has an object of its own and counts in it.
struct Metrics {
    telemetry::Metric<telemetry::By<"reason", StoreFailure>, "tidegate_store_failures_total",
                      "Decisions the store did not make, by reason">
        failures;
    telemetry::Metric<telemetry::Counter, "tidegate_deny_cache_hits_total",
                      "Requests denied by a remembered denial of Redis">
        deny_cache_hits;
    telemetry::Metric<
        telemetry::Counter, "tidegate_store_given_back_total",
        "Requests over several slots of Redis Cluster that one slot charged and gave back, as "
        "another denied them",
        "See [Cluster](redis.md#cluster).">
        given_back;
    telemetry::Metric<telemetry::By<"result", LocalReportResult>, "tidegate_local_reports_total",
                      "Identifiers counted in process while Redis was down, by the result of "
                      "reporting them to Redis afterwards">
        local_reports;
    telemetry::Metric<telemetry::By<"result", LeaseResult>, "tidegate_lease_batches_total",
                      "Batches of units that threads asked Redis for, by result",
                      "See [leases](limits.md#leases).">
        lease_batches;
    telemetry::Metric<
        telemetry::By<"units", LeaseUnits>, "tidegate_lease_units_total",
        "Units that threads took in batches, and of these gave back or let expire unused">
        lease_units;
    telemetry::Metric<LeasedUnits, "tidegate_lease_held_units",
                      "Units in batches that no request has used yet">
        lease_held;
    telemetry::Metric<SeenState, "tidegate_store_state", "Workers that see the store in this state">
        state;

    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads);
};

// `timeout` is store.redis.timeout; unset: the store has none, and there is no sample.
void write_timeout(telemetry::Exposition& out, std::optional<std::chrono::milliseconds> timeout);

class MemoryStore;

// Writes what the in-process store holds; null: there is none, and no sample.
void write_metrics(telemetry::Exposition& out, const MemoryStore* store);

}  // namespace tidegate::store
