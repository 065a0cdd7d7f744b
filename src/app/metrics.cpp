#include "app/metrics.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "telemetry/metric_members.hpp"

namespace tidegate::app {

namespace {

using telemetry::MetricType;

BOOST_DEFINE_FIXED_ENUM_CLASS(FetchResult, std::uint8_t, ok, failed)

void write_keys(telemetry::Exposition& out, const Gauges& gauges) {
    const auto fetches = out.family({.name = "tidegate_jwks_fetches_total",
                                     .help = "Fetches of key sets (JWKS)",
                                     .labels = {telemetry::label_of<FetchResult>("result")}});
    fetches.add({to_string(FetchResult::ok)}, gauges.jwks_fetches_ok);
    fetches.add({to_string(FetchResult::failed)}, gauges.jwks_fetches_failed);
    const std::vector<telemetry::MetricLabel> url{{.name = "url", .note = "without its query"}};
    const auto keys = out.family({.name = "tidegate_jwks_keys",
                                  .type = MetricType::gauge,
                                  .help = "Keys in a fetched key set",
                                  .labels = url});
    const auto age = out.family({.name = "tidegate_jwks_age_seconds",
                                 .type = MetricType::gauge,
                                 .help = "Seconds since the key set was last fetched",
                                 .labels = url});
    for (const Gauges::KeyPlace& place : gauges.jwks) {
        keys.add({place.url}, place.keys);
        if (place.age) age.add({place.url}, place.age->count());
    }
}

void write_certificates(telemetry::Exposition& out, const Gauges& gauges) {
    const auto expiry = out.family(
        {.name = "tidegate_certificate_expiry_timestamp_seconds",
         .type = MetricType::gauge,
         .help = "When a certificate that Tidegate shows expires, in Unix time",
         .labels = {{.name = "name", .note = "the certificate's first name"}},
         .note = "Of certificates with the same first name, that of the one that expires first."});
    for (const Gauges::CertificateExpiry& one : gauges.certificate_expiry) {
        // Whole seconds, as certificates have them.
        const auto until = std::chrono::floor<std::chrono::seconds>(one.until.time_since_epoch());
        expiry.add({one.name}, until.count());
    }
}

void write_traces(telemetry::Exposition& out, const std::optional<TracedSpans>& spans) {
    constexpr std::string_view kNote = "With [`tracing`](#tracing) only.";
    const auto exported = out.family({.name = "tidegate_trace_spans_exported_total",
                                      .help = "Spans that the collector has taken",
                                      .note = kNote});
    const auto dropped =
        out.family({.name = "tidegate_trace_spans_dropped_total",
                    .help = "Spans of traced requests that were not exported, by reason",
                    .labels = {{.name = "reason",
                                .values = kEnumNames<SpanDrop>,
                                .notes = kSpanDropNotes.values()}},
                    .note = kNote});
    if (!spans) return;
    exported.add({}, spans->exported);
    for (const SpanDrop reason : kEnumerators<SpanDrop>) {
        dropped.add({to_string(reason)}, spans->dropped[static_cast<std::size_t>(reason)]);
    }
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
        return worker->store.state.get() == store::StoreState::down;
    });
}

std::string Metrics::serialize(const Gauges& gauges) const {
    telemetry::Exposition out;
    write(out, gauges);
    return out.text();
}

void Metrics::write(telemetry::Exposition& out, const Gauges& gauges) const {
    const std::lock_guard lock(mutex_);
    proxy::Metrics::write(out, all(&WorkerMetrics::proxy), names_.routes);
    ask::Metrics::write(out, all(&WorkerMetrics::ask), names_.decisions);
    faces::Metrics::write(out, all(&WorkerMetrics::faces));
    store::Metrics::write(out, all(&WorkerMetrics::store));
    store::write_timeout(out, gauges.store_timeout);
    store::write_metrics(out, gauges.memory_store);
    upstream::Metrics::write(out, all(&WorkerMetrics::upstream), names_.upstreams);
    upstream::write_metrics(out, gauges.upstreams);
    client::Metrics::write(out, all(&WorkerMetrics::client));
    write_keys(out, gauges);
    write_certificates(out, gauges);
    write_thread_metrics(out, all(&WorkerMetrics::clock));
    write_traces(out, gauges.traced_spans);
    write_process(out, gauges);
}

telemetry::LiveTotals Metrics::live_totals() const {
    const std::lock_guard lock(mutex_);
    telemetry::LiveTotals totals;
    proxy::Metrics::add_to(totals, all(&WorkerMetrics::proxy), names_.routes);
    ask::Metrics::add_to(totals, all(&WorkerMetrics::ask), live_policies_);
    for (const auto& worker : workers_) {
        totals.store_failures += worker->store.failures.sum();
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
    const ProcessFigures* const process = &gauges.process;
    telemetry::write_members<ProcessFigures>(out, telemetry::Threads<ProcessFigures>(&process, 1));
    out.family({.name = "tidegate_build_info",
                .type = MetricType::gauge,
                .help = "The program; always 1",
                .labels = {{.name = "version"}}})
        .add({version_}, 1);
    write_process_metrics(out, started_);
}

std::vector<telemetry::MetricInfo> all_metrics() {
    telemetry::Exposition out;
    Metrics({}, 0, TIDEGATE_VERSION).write(out, {});
    return out.metrics();
}

}  // namespace tidegate::app
