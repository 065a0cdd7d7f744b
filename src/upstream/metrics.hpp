// What the pools of connections to upstreams count. For the ways of counting, see
// telemetry/counters.hpp.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "telemetry/counters.hpp"
#include "telemetry/exposition.hpp"
#include "telemetry/growing_table.hpp"
#include "telemetry/metric_names.hpp"
#include "upstream/server_status.hpp"

namespace tidegate::upstream {

// What one thread counts. A slot that is not there is not counted.
class Metrics {
  public:
    explicit Metrics(std::size_t names_max) : upstreams_(names_max) {}

    // tidegate_upstream_seconds{upstream}: from sending the request to the head of the answer
    void count_upstream(std::size_t slot, telemetry::nanoseconds took) {
        if (slot < upstreams_.size()) upstreams_[slot].seconds.observe(took);
    }
    // tidegate_upstream_queue_seconds{upstream}: of a request for which no connection was free
    void count_upstream_queue(std::size_t slot, telemetry::nanoseconds took) {
        if (slot < upstreams_.size()) upstreams_[slot].queue_seconds.observe(took);
    }
    // tidegate_upstream_failures_total{upstream}
    void count_upstream_failure(std::size_t slot) {
        if (slot < upstreams_.size()) upstreams_[slot].failures.add();
    }
    // tidegate_upstream_connections (gauge), tidegate_upstream_connections_total
    void upstream_connected() { connections_.opened.add(); }
    void upstream_disconnected() { connections_.closed.add(); }

    // For `upstreams` names; another thread than the one that counts may call it.
    void grow(std::size_t upstreams) { upstreams_.grow(upstreams); }
    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                      const telemetry::NameList<std::string>& upstreams);
    // Connections that are open now.
    static std::uint64_t open(telemetry::Threads<Metrics> threads) {
        return telemetry::sum_open(threads, &Metrics::connections_).open;
    }
    // Of all upstreams.
    std::uint64_t failures() const {
        std::uint64_t all = 0;
        for (std::size_t i = 0; i < upstreams_.size(); ++i) all += upstreams_[i].failures.value();
        return all;
    }

  private:
    struct UpstreamCounts {
        telemetry::Histogram<telemetry::kRequestBounds> seconds;
        telemetry::Histogram<telemetry::kRequestBounds> queue_seconds;
        telemetry::Counter failures;
    };

    telemetry::GrowingTable<UpstreamCounts> upstreams_;
    telemetry::OpenCounter connections_;
};

// tidegate_upstream_server_*{upstream,server}, tidegate_upstream_queue_length{upstream}
void write_metrics(telemetry::Exposition& out, std::span<const UpstreamStatus> upstreams);

}  // namespace tidegate::upstream
