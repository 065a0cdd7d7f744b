// What the store counts. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "telemetry/counters.hpp"
#include "telemetry/exposition.hpp"

namespace tidegate::store {

// Which store answered.
enum class StoreKind : std::uint8_t { memory, redis, local };
inline constexpr std::size_t kStoreKinds = static_cast<std::size_t>(StoreKind::local) + 1;

// Why the store made no decision.
enum class StoreFailure : std::uint8_t {
    timeout,       // no answer within the deadline
    disconnected,  // the connection was lost while waiting
    unavailable,   // not connected, or the breaker is open
    overloaded,    // too many commands in flight
    refused,       // Redis answered with an error
    protocol,      // an answer that makes no sense
    full,          // in process: max_keys reached and on_full is deny
};

// How a worker sees the store.
enum class StoreState : std::uint8_t { up, down };

// What became of an identifier that was counted in process while Redis was away.
enum class LocalReportResult : std::uint8_t {
    reported,
    expired,    // its counts had expired by then
    lost,       // sent and not answered: perhaps counted, not sent again
    refused,    // Redis answered with an error, again and again
    forgotten,  // dropped for lack of room
};

// The words of labels and log lines.
std::string_view to_string(StoreKind kind);
std::string_view to_string(StoreFailure failure);
std::string_view to_string(LocalReportResult result);

// What one thread counts.
class Metrics {
  public:
    // tidegate_store_failures_total{reason}
    void count_store_failure(StoreFailure reason) { failures_[reason].add(); }
    // tidegate_deny_cache_hits_total
    void count_deny_cache_hit() { deny_cache_hits_.add(); }
    // tidegate_store_given_back_total: of a request that spanned slots of Redis Cluster
    void count_given_back() { given_back_.add(); }
    // tidegate_local_reports_total{result}
    void count_local_report(LocalReportResult result, std::uint64_t times) {
        local_reports_[result].add(times);
    }
    // tidegate_store_state{state="up"|"down"}: how many workers see it so. `up` at first.
    void set_store_state(StoreState state) { state_.store(state, std::memory_order_relaxed); }
    StoreState store_state() const { return state_.load(std::memory_order_relaxed); }

    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads);
    // Of all reasons.
    std::uint64_t failures() const {
        std::uint64_t all = 0;
        for (std::size_t i = 0; i < decltype(failures_)::kSize; ++i) {
            all += failures_[static_cast<StoreFailure>(i)].value();
        }
        return all;
    }

  private:
    telemetry::CounterBy<StoreFailure, StoreFailure::full> failures_;
    telemetry::Counter deny_cache_hits_;
    telemetry::Counter given_back_;
    telemetry::CounterBy<LocalReportResult, LocalReportResult::forgotten> local_reports_;
    std::atomic<StoreState> state_{StoreState::up};
};

class MemoryStore;

// tidegate_memory_store_keys (gauge), tidegate_memory_store_evictions_total
void write_metrics(telemetry::Exposition& out, const MemoryStore& store);

}  // namespace tidegate::store
