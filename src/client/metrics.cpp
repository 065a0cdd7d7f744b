#include "client/metrics.hpp"

#include <cstddef>
#include <string>

#include "telemetry/metric_members.hpp"

namespace tidegate::client {

void ConnectionMetrics::write(telemetry::Exposition& out,
                              telemetry::Threads<ConnectionMetrics> threads) {
    OpenMetrics::write(out, telemetry::parts_of<OpenMetrics>(threads, std::identity()));
    const auto of_thread =
        out.family({.name = "tidegate_thread_client_connections",
                    .type = telemetry::MetricType::gauge,
                    .help = "Connections from clients that a thread serves",
                    .labels = {{.name = "thread", .note = "from 0"}},
                    .note = "A thread that is far above the others has a few busy connections."});
    for (std::size_t i = 0; i < threads.size(); ++i) {
        of_thread.add({std::to_string(i)}, telemetry::sum_open(threads.subspan(i, 1)).open);
    }
}

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads) {
    telemetry::write_members<Metrics>(out, threads);
}

std::uint64_t Metrics::open(telemetry::Threads<Metrics> threads) {
    const auto connections = telemetry::parts_of<ConnectionMetrics>(threads, &Metrics::connections);
    return telemetry::sum_open(telemetry::Threads<ConnectionMetrics>(connections)).open;
}

}  // namespace tidegate::client
