#include "upstream/metrics.hpp"

namespace tidegate::upstream {

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                    const telemetry::NameList<std::string>& upstreams) {
    auto seconds = out.histogram("tidegate_upstream_seconds",
                                 "From sending a request to the head of its answer");
    auto queue = out.histogram("tidegate_upstream_queue_seconds",
                               "How long requests waited for one of max_connections");
    auto failures = out.counter("tidegate_upstream_failures_total",
                                "Requests that an upstream did not answer properly");
    for (std::size_t slot = 0; slot < upstreams.size(); ++slot) {
        const telemetry::Labels labels{{"upstream", upstreams[slot]}};
        const auto times = [&](auto UpstreamCounts::*histogram) {
            return telemetry::merge<telemetry::kRequestBounds>(
                threads, [&](const Metrics& one) -> const auto& {
                    return one.upstreams_[slot].*histogram;
                });
        };
        seconds.add(labels, times(&UpstreamCounts::seconds));
        queue.add(labels, times(&UpstreamCounts::queue_seconds));
        failures.add(labels, telemetry::sum(
                                 threads, [&](const Metrics& one) -> const auto& {
                                     return one.upstreams_[slot].failures;
                                 }));
    }
    const auto connections = telemetry::sum_open(threads, &Metrics::connections_);
    out.gauge("tidegate_upstream_connections", "Connections to upstreams that are open")
        .add({}, connections.open);
    out.counter("tidegate_upstream_connections_total", "Connections to upstreams ever opened")
        .add({}, connections.opened);
}

void write_metrics(telemetry::Exposition& out, std::span<const UpstreamStatus> upstreams) {
    auto up = out.gauge("tidegate_upstream_server_up",
                        "1 if the server gets requests: it is healthy, and not ejected");
    auto active = out.gauge("tidegate_upstream_server_active",
                            "Requests in flight, and connections being made for them");
    auto requests = out.counter("tidegate_upstream_server_requests_total",
                                "Requests sent to the server, further attempts included");
    auto failures = out.counter("tidegate_upstream_server_failures_total",
                                "Requests that the server did not answer properly");
    auto ejections =
        out.counter("tidegate_upstream_server_ejections_total", "How often the server was ejected");
    auto length = out.gauge("tidegate_upstream_queue_length",
                            "Requests that wait for one of max_connections");
    auto failing = out.gauge("tidegate_upstream_names_failing",
                             "Names of servers whose last look-up found no address");
    for (const UpstreamStatus& status : upstreams) {
        for (const ServerStatus& server : status.servers) {
            const telemetry::Labels labels{{"upstream", status.upstream},
                                           {"server", server.server}};
            up.add(labels, server.health == ServerHealth::up ? 1 : 0);
            active.add(labels, std::uint64_t{server.active});
            requests.add(labels, server.requests);
            failures.add(labels, server.failures);
            ejections.add(labels, server.ejections);
        }
        length.add({{"upstream", status.upstream}}, std::uint64_t{status.queued});
        failing.add({{"upstream", status.upstream}}, std::uint64_t{status.names_failing});
    }
}

}  // namespace tidegate::upstream
