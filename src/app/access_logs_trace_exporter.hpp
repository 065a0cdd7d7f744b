// AccessLogs and TraceExporters hold the access logs of the process, and the exporters of spans. At
// most one of each is in force; a former one ends when no request of an older configuration can
// write to it any more.
//
// Only the main thread uses them. Workers hold what it has given them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/http_client.hpp"
#include "app/metrics.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"
#include "telemetry/access_log.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/error_log.hpp"
#include "telemetry/trace_export.hpp"

namespace tidegate::app {

// The access log in force, and the former ones. Workers never let go of a log as its last owner:
// the end of a log waits for its writer.
class AccessLogs {
  public:
    // `threads` threads write.
    explicit AccessLogs(std::size_t threads) : threads_(threads) {}

    // The log of that path, if it is open; null: it is not, or the access log is off.
    std::shared_ptr<telemetry::AccessLog> find(const config::LogSettings& settings) const;
    // Opens the log of that path, which find() has not found, for add(). Any thread: it may wait.
    // Throws std::runtime_error naming the path.
    static std::shared_ptr<telemetry::AccessLog> make(const config::LogSettings& settings,
                                                      std::size_t threads);
    void add(const config::LogSettings& settings, std::shared_ptr<telemetry::AccessLog> log);
    // find(), and make() and add() where it finds none; null: off. Waits, so only for the start.
    // use() sets format and sample.
    std::shared_ptr<telemetry::AccessLog> open(const config::LogSettings& settings);
    // Puts `log`, which open() gave, in force. A log that goes on under its path takes on the new
    // format and sample.
    void use(const std::shared_ptr<telemetry::AccessLog>& log, const config::LogSettings& settings);

    // Opens all paths anew (USR1).
    void reopen();
    // Ends the logs that no request can write to any more, without waiting for them.
    void sweep();

    // Lines that were not written since the start.
    std::uint64_t dropped() const;

  private:
    struct Open {
        std::string path;
        std::shared_ptr<telemetry::AccessLog> log;
    };

    std::size_t threads_;
    std::vector<std::future<void>> ending_;  // each waits for a writer
    std::vector<Open> logs_;
    std::shared_ptr<telemetry::AccessLog> in_force_;
    std::uint64_t dropped_before_ = 0;  // by logs that have ended
};

// Sends spans to a collector: a thread that builds OTLP/HTTP in JSON of what the workers have
// queued, in batches, and counts what the collector does not take. The main thread owns it; the
// workers only push to the queue.
class TraceExporter {
  public:
    struct Options {
        config::HttpsUrl url;
        TlsSettings tls{};  // for a URL with https
        std::string header_lines{};
        telemetry::TraceResource resource{};
        std::chrono::milliseconds flush_every{1'000};
        std::chrono::milliseconds patience{2'000};   // of each try
        std::chrono::milliseconds retry_pause{500};  // without Retry-After
        std::chrono::milliseconds retry_after_max{30'000};
        std::chrono::milliseconds stop_patience{2'000};  // for all that is left
    };

    static constexpr std::size_t kBatchSpans = 512;

    // Begins to take from `queue`, which outlives this and to which no thread has pushed yet.
    TraceExporter(Options options, telemetry::TraceQueue& queue);
    ~TraceExporter() { stop(); }
    TraceExporter(const TraceExporter&) = delete;
    TraceExporter& operator=(const TraceExporter&) = delete;

    // Has the thread send what is left, within `stop_patience`, and end. No thread pushes any more.
    void begin_stop();
    // Whether the thread has come to its end.
    bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }
    // Waits for it.
    void stop();

    // Any thread.
    TracedSpans spans() const;

  private:
    Task<> run();
    Task<> flush();
    void fill_batch();
    Task<bool> deliver();
    void count_taken(const std::string& answer);
    void drop(SpanDrop reason, std::uint64_t spans, const std::string& why);
    void drop_all_that_is_left();
    void report_full_queue();
    SteadyTime end_of_try() const;

    const Options options_;
    telemetry::TraceQueue& queue_;
    telemetry::Counter exported_;
    telemetry::CounterBy<SpanDrop> dropped_;  // not of the queue
    telemetry::LogInterval log_interval_;
    std::uint64_t full_before_ = 0;  // what the queue had dropped when that was looked at last

    // The thread's.
    asio::io_context io_{1};
    CollectorClient collector_;
    Timer pause_;
    Timer retry_;
    telemetry::OtlpBatch batch_;
    std::unique_ptr<telemetry::TraceRecord> next_;  // that had no room in the last batch
    bool is_stopping_ = false;
    std::atomic<bool> has_ended_{false};
    bool must_wait_ = false;  // the last batch was not taken: a full queue does not end the pause
    SteadyTime stop_until_{};
    std::thread thread_;
};

// The exporter in force, and the former ones, whose queues requests may still push to.
class TraceExporters {
  public:
    // `threads` push; `instance` names this process among those of the same service.
    TraceExporters(std::size_t threads, std::string instance)
        : threads_(threads), instance_(std::move(instance)) {}

    // The queue of what `config` traces, with an exporter; that of before, if the settings are the
    // same. Null: `tracing` is off.
    std::shared_ptr<telemetry::TraceQueue> open(const config::Config& config);
    // Ends the exporters that no request can push to any more; each sends what is left, for two
    // seconds at most. Waits for none: true if one is still at it.
    bool sweep();

    // Since the start.
    void fill_in(Gauges& gauges) const;

  private:
    struct Open {
        config::Tracing settings;
        std::shared_ptr<telemetry::TraceQueue> queue;
        std::unique_ptr<TraceExporter> exporter;
        bool is_ending = false;
    };

    std::size_t threads_;
    std::string instance_;
    std::vector<Open> open_;
    TracedSpans before_;  // of exporters that have ended
    bool has_traced_ = false;
};

}  // namespace tidegate::app
