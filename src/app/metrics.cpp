#include "app/metrics.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tidegate::app {

namespace {

void write_keys(telemetry::Exposition& out, const Gauges& gauges) {
    auto fetches = out.counter("tidegate_jwks_fetches_total", "Fetches of key sets (JWKS)");
    fetches.add({{"result", "ok"}}, gauges.jwks_fetches_ok);
    fetches.add({{"result", "failed"}}, gauges.jwks_fetches_failed);
    auto keys = out.gauge("tidegate_jwks_keys", "Keys in a fetched key set");
    auto age = out.gauge("tidegate_jwks_age_seconds", "Seconds since the key set was last fetched");
    for (const Gauges::KeyPlace& place : gauges.jwks) {
        keys.add({{"url", place.url}}, std::uint64_t{place.keys});
        if (place.age) age.add({{"url", place.url}}, static_cast<double>(place.age->count()));
    }
}

void write_certificates(telemetry::Exposition& out, const Gauges& gauges) {
    auto expiry = out.gauge("tidegate_certificate_expiry_timestamp_seconds",
                            "When a certificate that Tidegate shows expires, in Unix time");
    for (const Gauges::CertificateExpiry& one : gauges.certificate_expiry) {
        // Whole seconds, as certificates have them.
        const auto until = std::chrono::floor<std::chrono::seconds>(one.until.time_since_epoch());
        expiry.add({{"name", one.name}}, static_cast<double>(until.count()));
    }
}

void write_traces(telemetry::Exposition& out, const TracedSpans& spans) {
    out.counter("tidegate_trace_spans_exported_total", "Spans that the collector has taken")
        .add({}, spans.exported);
    auto dropped = out.counter("tidegate_trace_spans_dropped_total",
                               "Spans of traced requests that were not exported, by reason");
    for (std::size_t i = 0; i < spans.dropped.size(); ++i) {
        const auto reason = static_cast<SpanDrop>(i);
        dropped.add({{"reason", std::string(to_string(reason))}}, spans.dropped[i]);
    }
}

double unix_seconds(std::chrono::system_clock::time_point time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

Metrics::Metrics(const telemetry::MetricNames& names, std::size_t workers, std::string version)
    : version_(std::move(version)) {
    telemetry::NameRegistry first;
    first.admit(names);
    names_max_ = std::max(kNamesMax, first.size());
    for (std::size_t i = 0; i < workers; ++i) {
        workers_.push_back(std::make_unique<WorkerMetrics>(names_max_));
    }
    admit(names);
}

Result<telemetry::MetricSlots, std::string> Metrics::admit(const telemetry::MetricNames& names) {
    const std::lock_guard lock(mutex_);
    telemetry::NameRegistry grown = names_;
    telemetry::MetricSlots slots = grown.admit(names);
    if (grown.size() > names_max_) {
        return "routes, upstreams and limits have had " + std::to_string(grown.size()) +
               " names since the start, and there are metrics for " + std::to_string(names_max_) +
               " at most: restart Tidegate to drop the old names";
    }
    for (const auto& worker : workers_) {
        worker->proxy.grow(grown.routes.size());
        worker->ask.grow(grown.decisions.size());
        worker->upstream.grow(grown.upstreams.size());
    }
    names_ = std::move(grown);
    while (live_policies_.slots() < names_.decisions.size()) {
        const telemetry::DecisionName& name = names_.decisions[live_policies_.slots()];
        live_policies_.add({name.policy, name.shadow});
    }
    return slots;
}

WorkerMetrics& Metrics::worker(std::size_t index) {
    assert(index < workers_.size());
    return *workers_[index];
}

bool Metrics::store_is_up() const {
    return std::none_of(workers_.begin(), workers_.end(), [](const auto& worker) {
        return worker->store.store_state() == store::StoreState::down;
    });
}

std::string Metrics::serialize(const Gauges& gauges) const {
    const std::lock_guard lock(mutex_);
    telemetry::Exposition out;
    proxy::Metrics::write(out, all(&WorkerMetrics::proxy), names_.routes);
    ask::Metrics::write(out, all(&WorkerMetrics::ask), names_.decisions);
    faces::Metrics::write(out, all(&WorkerMetrics::faces));
    store::Metrics::write(out, all(&WorkerMetrics::store));
    if (gauges.store_timeout) store::write_timeout(out, *gauges.store_timeout);
    if (gauges.memory_store != nullptr) store::write_metrics(out, *gauges.memory_store);
    upstream::Metrics::write(out, all(&WorkerMetrics::upstream), names_.upstreams);
    upstream::write_metrics(out, gauges.upstreams);
    client::Metrics::write(out, all(&WorkerMetrics::client));
    write_keys(out, gauges);
    write_certificates(out, gauges);
    write_thread_metrics(out, all(&WorkerMetrics::clock));
    if (gauges.traced_spans) write_traces(out, *gauges.traced_spans);
    write_process(out, gauges);
    return out.text();
}

telemetry::LiveTotals Metrics::live_totals() const {
    const std::lock_guard lock(mutex_);
    telemetry::LiveTotals totals;
    proxy::Metrics::add_to(totals, all(&WorkerMetrics::proxy), names_.routes);
    ask::Metrics::add_to(totals, all(&WorkerMetrics::ask), live_policies_);
    for (const auto& worker : workers_) {
        totals.store_failures += worker->store.failures();
        totals.upstream_failures += worker->upstream.failures();
    }
    return totals;
}

std::uint64_t Metrics::client_connections() const {
    return client::Metrics::open(all(&WorkerMetrics::client));
}

std::uint64_t Metrics::upstream_connections() const {
    return upstream::Metrics::open(all(&WorkerMetrics::upstream));
}

template <class Room>
std::vector<const Room*> Metrics::all(Room WorkerMetrics::*room) const {
    std::vector<const Room*> found;
    for (const auto& worker : workers_) found.push_back(&(worker.get()->*room));
    return found;
}

void Metrics::write_process(telemetry::Exposition& out, const Gauges& gauges) const {
    out.counter("tidegate_access_log_dropped_total", "Access log lines that were not written")
        .add({}, gauges.access_log_dropped);
    out.gauge("tidegate_config_generation", "Which configuration is in force, from 1")
        .add({}, gauges.config_generation);
    out.gauge("tidegate_configs_in_use",
              "Configurations in use: the one in force and older ones that requests still use")
        .add({}, gauges.configs_in_use);
    out.gauge("tidegate_config_read_timestamp_seconds",
              "When the configuration in force was read, in Unix time")
        .add({}, unix_seconds(gauges.config_read_at));
    auto reloads = out.counter("tidegate_reloads_total", "Reloads by result");
    reloads.add({{"result", "ok"}}, gauges.reloads_ok);
    reloads.add({{"result", "refused"}}, gauges.reloads_refused);
    out.gauge("tidegate_build_info", "The program; always 1").add({{"version", version_}}, 1);
    write_process_metrics(out, started_);
}

}  // namespace tidegate::app
