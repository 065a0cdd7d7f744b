#include "upstream/metrics.hpp"

#include "telemetry/metric_members.hpp"

namespace tidegate::upstream {

using telemetry::MetricType;

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                    const telemetry::NameList<std::string>& upstreams) {
    telemetry::write_rows<UpstreamCounters>(
        out, threads, upstreams,
        [](const Metrics& one, std::size_t slot) -> const auto& { return one.upstreams_[slot]; });
    telemetry::write_members<PoolCounters>(out, threads);
}

std::uint64_t Metrics::open(telemetry::Threads<Metrics> threads) {
    using Connections = decltype(PoolCounters::connections);
    const auto connections = telemetry::parts_of<Connections>(threads, &Metrics::connections);
    return telemetry::sum_open(telemetry::Threads<Connections>(connections)).open;
}

void write_metrics(telemetry::Exposition& out, std::span<const UpstreamStatus> upstreams) {
    const telemetry::MetricLabel upstream{.name = "upstream"};
    const std::vector<telemetry::MetricLabel> server{upstream,
                                                     {.name = "server", .note = "its address"}};
    const auto up = out.family({.name = "tidegate_upstream_server_up",
                                .type = MetricType::gauge,
                                .help = "1 if the server gets requests: it is healthy, and not "
                                        "ejected",
                                .labels = server});
    const auto active = out.family({.name = "tidegate_upstream_server_active",
                                    .type = MetricType::gauge,
                                    .help = "Requests in flight, and connections being made for "
                                            "them",
                                    .labels = server});
    const auto requests =
        out.family({.name = "tidegate_upstream_server_requests_total",
                    .help = "Requests sent to the server, further attempts included",
                    .labels = server,
                    .note = "Connections that failed are included, too."});
    const auto failures = out.family({.name = "tidegate_upstream_server_failures_total",
                                      .help = "Requests that the server did not answer properly",
                                      .labels = server});
    const auto ejections = out.family({.name = "tidegate_upstream_server_ejections_total",
                                       .help = "How often the server was ejected",
                                       .labels = server});
    const auto length = out.family({.name = "tidegate_upstream_queue_length",
                                    .type = MetricType::gauge,
                                    .help = "Requests that wait for one of max_connections",
                                    .labels = {upstream}});
    const auto failing = out.family({.name = "tidegate_upstream_names_failing",
                                     .type = MetricType::gauge,
                                     .help = "Names of servers whose last look-up found no address",
                                     .labels = {upstream}});
    for (const UpstreamStatus& status : upstreams) {
        for (const ServerStatus& one : status.servers) {
            up.add({status.upstream, one.server}, one.health == ServerHealth::up ? 1 : 0);
            active.add({status.upstream, one.server}, one.active);
            requests.add({status.upstream, one.server}, one.requests);
            failures.add({status.upstream, one.server}, one.failures);
            ejections.add({status.upstream, one.server}, one.ejections);
        }
        length.add({status.upstream}, status.queued);
        failing.add({status.upstream}, status.names_failing);
    }
}

}  // namespace tidegate::upstream
