// The metrics of all rooms and workers as one, and what is asked for when they are scraped.
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ask/metrics.hpp"
#include "base/described_enum.hpp"
#include "base/result.hpp"
#include "client/metrics.hpp"
#include "faces/metrics.hpp"
#include "proxy/metrics.hpp"
#include "store/metrics.hpp"
#include "telemetry/live.hpp"
#include "telemetry/metric.hpp"
#include "upstream/metrics.hpp"

namespace tidegate::store {
class MemoryStore;
}

namespace tidegate::app {

// Why a span was not exported.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    SpanDrop, std::uint8_t,
    queue_full,   // spans came faster than the exporter sent them
    unreachable,  // no connection to the collector, or no answer in time
    refused,      // the collector answered something else than 2xx
    rejected,     // it took the batch, but said of so many spans that it did not take them
    stopped)      // the process, or the configuration with this collector, came to its end

// The reference explains them with these words, in Markdown.
inline constexpr EnumTexts<SpanDrop> kSpanDropNotes(
    {{SpanDrop::queue_full, "spans came faster than the collector took them"},
     {SpanDrop::unreachable, "no connection, a handshake of TLS that fails, or no answer in 2 s"},
     {SpanDrop::refused, "another status than 2xx"},
     {SpanDrop::rejected, "it took the batch without these"},
     {SpanDrop::stopped, "no time was left when Tidegate stopped"}});

// Counts what became of the spans of traced requests.
struct TracedSpans {
    std::uint64_t exported = 0;
    std::array<std::uint64_t, kEnumerators<SpanDrop>.size()> dropped{};  // by SpanDrop
};

// Holds what the system says of this process in /proc/self/stat; proc(5) describes its fields.
struct ProcessStat {
    double cpu_seconds = 0;  // of all threads, in user and system mode
    std::uint64_t threads = 0;
    std::uint64_t virtual_bytes = 0;
    std::uint64_t resident_bytes = 0;
};

// `text` is the whole file. Unset if it is not as expected. Pure.
std::optional<ProcessStat> read_process_stat(std::string_view text, long ticks_per_second,
                                             long page_bytes);

// The processor time of one worker's thread.
class ThreadClock {
  public:
    // Called once, on the thread itself.
    void begin();
    // Returns the CPU time that the thread has used so far; unset before begin(), and once the
    // thread has ended. Any thread.
    std::optional<std::chrono::nanoseconds> used() const;

  private:
    std::atomic<clockid_t> clock_{CLOCK_REALTIME};  // CLOCK_REALTIME: no thread yet
};

// Writes process_*, under the names that Prometheus's client libraries give them; leaves out what
// the system does not tell. Takes less than a millisecond, but for kernels before 6.2, which list
// the open files. Called when Prometheus asks, never for a request.
void write_process_metrics(telemetry::Exposition& out,
                           std::chrono::system_clock::time_point started);
// Writes the CPU time that each thread used; `clocks` are of the threads 0, 1, ...
void write_thread_metrics(telemetry::Exposition& out, telemetry::Threads<ThreadClock> clocks);

BOOST_DEFINE_FIXED_ENUM_CLASS(ReloadResult, std::uint8_t, ok, refused)

// Figures of the process that are always there.
struct ProcessFigures {
    using Count = telemetry::Figure<telemetry::MetricType::counter>;
    using Gauge = telemetry::Figure<telemetry::MetricType::gauge>;
    using UnixSeconds = telemetry::Figure<telemetry::MetricType::gauge, double>;

    telemetry::Metric<Count, "tidegate_access_log_dropped_total",
                      "Access log lines that were not written">
        access_log_dropped{};
    // One more for each that was put in force.
    telemetry::Metric<Gauge, "tidegate_config_generation",
                      "Which configuration is in force, from 1">
        config_generation{{1}};
    telemetry::Metric<
        Gauge, "tidegate_configs_in_use",
        "Configurations in use: the one in force and older ones that requests still use">
        configs_in_use{{1}};
    telemetry::Metric<UnixSeconds, "tidegate_config_read_timestamp_seconds",
                      "When the configuration in force was read, in Unix time">
        config_read_at{};
    telemetry::Metric<telemetry::Info<"hash">, "tidegate_config_info",
                      "The configuration in force; always 1",
                      "Replicas with the same configuration have the same `hash`.">
        config_info{};
    telemetry::Metric<Gauge, "tidegate_config_rolled_back",
                      "1 while `tidegate rollback` keeps another configuration than the file's in "
                      "force, else 0">
        config_rolled_back{};
    telemetry::Metric<telemetry::By<"result", ReloadResult, Count>, "tidegate_reloads_total",
                      "Reloads by result">
        reloads{};
    telemetry::Metric<telemetry::By<"result", ReloadResult, Count>, "tidegate_rollbacks_total",
                      "Rollbacks by result">
        rollbacks{};
};

// Figures that are asked for when scraped rather than counted by a worker.
struct Gauges {
    // A place that keys of tokens are fetched from.
    struct KeyPlace {
        std::string url;                          // label; no two alike
        std::size_t keys = 0;                     // of use
        std::optional<std::chrono::seconds> age;  // of what was fetched; unset: nothing yet
    };
    // A certificate that Tidegate shows.
    struct CertificateExpiry {
        std::string name;  // label; no two alike
        std::chrono::system_clock::time_point until;
    };
    const store::MemoryStore* memory_store = nullptr;          // null: not shown
    std::optional<std::chrono::milliseconds> store_timeout{};  // unset: the store has none
    ProcessFigures process{};
    std::uint64_t jwks_fetches_ok = 0;
    std::uint64_t jwks_fetches_failed = 0;
    std::vector<KeyPlace> jwks{};
    std::vector<upstream::UpstreamStatus> upstreams{};
    std::vector<CertificateExpiry> certificate_expiry{};
    std::optional<TracedSpans> traced_spans{};  // unset: nothing was traced since the start
};

// Holds the counters of one worker; each room has its own. Workers share no cache line.
struct alignas(64) WorkerMetrics {
    explicit WorkerMetrics(std::size_t names_max)
        : ask(names_max), upstream(names_max), proxy(names_max) {}

    store::Metrics store;
    ask::Metrics ask;
    client::Metrics client;
    upstream::Metrics upstream;
    proxy::Metrics proxy;
    faces::Metrics faces;
    ThreadClock clock;
};

// The whole process's figures. Names may be added while workers count, and none is ever taken away.
class MetricsRegistry {
  public:
    // Names of routes, upstreams and limits together, unless the first configuration has more.
    static constexpr std::size_t kNamesMax = 10'000;

    // `names` are those of the first configuration.
    MetricsRegistry(const telemetry::MetricNames& names, std::size_t workers, std::string version);

    // Where the names of a configuration are counted; those that are new are added for every
    // worker. Not when there would be too many: then nothing is, and the error says so. Any thread.
    Result<telemetry::MetricSlots, std::string> admit(const telemetry::MetricNames& names);

    // Each worker takes the one of its number. Requires index < workers.
    WorkerMetrics& worker(std::size_t index);
    bool store_is_up() const;  // in the eyes of every worker

    // The Prometheus text format. Any thread.
    std::string serialize(const Gauges& gauges) const;
    void write(telemetry::Exposition& out, const Gauges& gauges) const;
    // The same counts for the dashboard. Any thread.
    telemetry::LiveTotals live_totals() const;
    // Connections of clients and to upstreams that are open. Any thread.
    std::uint64_t client_connections() const;
    std::uint64_t upstream_connections() const;
    // Units in batches of leases. Any thread.
    std::int64_t leased_units() const;
    std::chrono::system_clock::time_point started() const { return started_; }
    const std::string& version() const { return version_; }

  private:
    // The metrics of one room, of all workers.
    template <class Room>
    std::vector<const Room*> all(Room WorkerMetrics::*room) const;
    void write_process(telemetry::Exposition& out, const Gauges& gauges) const;

    // Names are looked at and added under the mutex; counting never waits for it.
    mutable std::mutex mutex_;
    telemetry::NameRegistry names_;
    telemetry::LivePolicies live_policies_;  // of the decisions in `names_`
    std::size_t names_max_ = kNamesMax;
    std::string version_;
    std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
    std::vector<std::unique_ptr<WorkerMetrics>> workers_;
};

// Describes every metric there is, in the order of /metrics: also those that a configuration may
// leave without a sample.
std::vector<telemetry::MetricInfo> all_metrics();

}  // namespace tidegate::app
