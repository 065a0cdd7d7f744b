#include "telemetry/exposition.hpp"

#include <limits>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace tidegate::telemetry {

namespace {

prometheus::ClientMetric::Histogram converted(const MergedHistogram& histogram) {
    prometheus::ClientMetric::Histogram made;
    for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
        // The count is the sum of the buckets, not a counter beside them: a scrape in the middle of
        // a request must not show them at odds.
        made.sample_count += histogram.counts()[i];
        const double bound = i < histogram.bounds().size()
                                 ? std::chrono::duration<double>(histogram.bounds()[i]).count()
                                 : std::numeric_limits<double>::infinity();
        made.bucket.push_back({made.sample_count, bound});
    }
    made.sample_sum = static_cast<double>(histogram.sum_ns()) / 1e9;
    return made;
}

}  // namespace

struct Exposition::Impl {
    std::size_t begin(std::string name, std::string help, prometheus::MetricType type) {
        families.push_back({std::move(name), std::move(help), type, {}});
        return families.size() - 1;
    }
    prometheus::ClientMetric& append(std::size_t index, Labels labels) {
        prometheus::ClientMetric& metric = families[index].metric.emplace_back();
        for (Label& label : labels) {
            metric.label.push_back({std::move(label.name), std::move(label.value)});
        }
        return metric;
    }

    std::vector<prometheus::MetricFamily> families;
};

void Family::add(Labels labels, double value) {
    prometheus::ClientMetric& metric = of_->impl_->append(index_, std::move(labels));
    if (of_->impl_->families[index_].type == prometheus::MetricType::Counter) {
        metric.counter.value = value;
    } else {
        metric.gauge.value = value;
    }
}

void Family::add(Labels labels, const MergedHistogram& histogram) {
    of_->impl_->append(index_, std::move(labels)).histogram = converted(histogram);
}

Exposition::Exposition() : impl_(std::make_unique<Impl>()) {}
Exposition::~Exposition() = default;

Family Exposition::counter(std::string name, std::string help) {
    return {*this, impl_->begin(std::move(name), std::move(help), prometheus::MetricType::Counter)};
}

Family Exposition::gauge(std::string name, std::string help) {
    return {*this, impl_->begin(std::move(name), std::move(help), prometheus::MetricType::Gauge)};
}

Family Exposition::histogram(std::string name, std::string help) {
    return {*this,
            impl_->begin(std::move(name), std::move(help), prometheus::MetricType::Histogram)};
}

std::string Exposition::text() {
    std::erase_if(impl_->families, [](const auto& family) { return family.metric.empty(); });
    return prometheus::TextSerializer().Serialize(impl_->families);
}

}  // namespace tidegate::telemetry
