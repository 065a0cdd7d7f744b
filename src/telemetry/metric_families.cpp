#include "telemetry/metric_families.hpp"

namespace tidegate::telemetry {

void Family::add(Labels labels, double value) {
    prometheus::ClientMetric& metric = append(std::move(labels));
    if ((*all_)[index_].type == prometheus::MetricType::Counter) {
        metric.counter.value = value;
    } else {
        metric.gauge.value = value;
    }
}

void Family::add(Labels labels, const MergedHistogram& histogram) {
    append(std::move(labels)).histogram = histogram.result();
}

prometheus::ClientMetric& Family::append(Labels labels) {
    prometheus::ClientMetric& metric = (*all_)[index_].metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
}

Family Families::counter(std::string name, std::string help) {
    return begin(std::move(name), std::move(help), prometheus::MetricType::Counter);
}

Family Families::gauge(std::string name, std::string help) {
    return begin(std::move(name), std::move(help), prometheus::MetricType::Gauge);
}

Family Families::histogram(std::string name, std::string help) {
    return begin(std::move(name), std::move(help), prometheus::MetricType::Histogram);
}

std::vector<prometheus::MetricFamily> Families::take() {
    std::erase_if(all_, [](const auto& family) { return family.metric.empty(); });
    return std::move(all_);
}

Family Families::begin(std::string name, std::string help, prometheus::MetricType type) {
    all_.push_back({std::move(name), std::move(help), type, {}});
    return {all_, all_.size() - 1};
}

}  // namespace tidegate::telemetry
