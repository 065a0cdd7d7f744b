#include "app/trace_exporters.hpp"

#include <algorithm>
#include <utility>

#include "base/version.hpp"

namespace tidegate::app {

namespace {

void add_spans(const TracedSpans& spans, TracedSpans& to) {
    to.exported += spans.exported;
    for (std::size_t i = 0; i < to.dropped.size(); ++i) to.dropped[i] += spans.dropped[i];
}

}  // namespace

std::shared_ptr<telemetry::TraceQueue> TraceExporters::open(const config::Config& config) {
    if (!config.tracing) return nullptr;
    has_traced_ = true;
    const config::Tracing& settings = *config.tracing;
    const auto known = std::find_if(open_.begin(), open_.end(), [&](const Open& one) {
        return one.settings == settings && !one.is_ending;
    });
    if (known != open_.end()) return known->queue;
    auto queue = std::make_shared<telemetry::TraceQueue>(
        telemetry::TraceQueue::Options{.sample = settings.sample,
                                       .keep_failed = settings.keep_failed,
                                       .keep_limited = settings.keep_limited,
                                       .spans = settings.queue},
        threads_);
    auto exporter = std::make_unique<TraceExporter>(
        TraceExporter::Options{.url = settings.otlp,
                               .tls = settings.tls,
                               .header_lines = settings.header_lines,
                               .resource = {settings.service, std::string(kVersion), instance_}},
        *queue);
    open_.push_back({settings, queue, std::move(exporter)});
    return queue;
}

bool TraceExporters::sweep() {
    for (Open& one : open_) {
        // No thread can come to hold it again but through open(), on this thread.
        if (one.is_ending || one.queue.use_count() > 1) continue;
        one.is_ending = true;
        one.exporter->begin_stop();
    }
    std::erase_if(open_, [this](const Open& one) {
        if (!one.is_ending || !one.exporter->has_ended()) return false;
        add_spans(one.exporter->spans(), before_);
        return true;
    });
    return std::any_of(open_.begin(), open_.end(), [](const Open& one) { return one.is_ending; });
}

void TraceExporters::fill_in(Gauges& gauges) const {
    if (!has_traced_) return;
    TracedSpans sum = before_;
    for (const Open& one : open_) add_spans(one.exporter->spans(), sum);
    gauges.traced_spans = sum;
}

}  // namespace tidegate::app
