// The exporters of spans of the process: the one in force, and those whose queues requests of
// former configurations may still push to.
//
// The main thread's. Others hold what open() returned.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/metrics.hpp"
#include "app/trace_exporter.hpp"
#include "app/traced_spans.hpp"
#include "config/config.hpp"
#include "telemetry/trace_queue.hpp"

namespace tidegate::app {

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
