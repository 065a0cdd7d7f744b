#include "telemetry/metric.hpp"

#include <cassert>
#include <limits>
#include <utility>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace tidegate::telemetry {

namespace {

constexpr EnumTable<MetricType, prometheus::MetricType> kTypes(
    {{MetricType::counter, prometheus::MetricType::Counter},
     {MetricType::gauge, prometheus::MetricType::Gauge},
     {MetricType::histogram, prometheus::MetricType::Histogram}});

prometheus::ClientMetric::Histogram converted(const MergedHistogram& histogram) {
    prometheus::ClientMetric::Histogram made;
    for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
        // The count is the sum of the buckets, not a counter beside them: a scrape while a worker
        // counts must not show a count that differs from the buckets.
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
    prometheus::ClientMetric& append(std::size_t index, LabelValues values) {
        const std::vector<MetricLabel>& labels = metrics[index].labels;
        assert(values.size() == labels.size());
        prometheus::ClientMetric& sample = families[index].metric.emplace_back();
        for (std::size_t i = 0; i < labels.size(); ++i) {
            sample.label.push_back({std::string(labels[i].name), std::string(values[i])});
        }
        return sample;
    }

    std::vector<MetricInfo> metrics;
    std::vector<prometheus::MetricFamily> families;  // by the index in `metrics`
};

void Family::add(LabelValues values, double value) const {
    prometheus::ClientMetric& sample = of_->impl_->append(index_, values);
    if (of_->impl_->metrics[index_].type == MetricType::counter) {
        sample.counter.value = value;
    } else {
        sample.gauge.value = value;
    }
}

void Family::add(LabelValues values, const MergedHistogram& histogram) const {
    of_->impl_->append(index_, values).histogram = converted(histogram);
}

Exposition::Exposition() : impl_(std::make_unique<Impl>()) {}
Exposition::~Exposition() = default;

Family Exposition::family(MetricInfo info) {
    impl_->families.push_back(
        {std::string(info.name), std::string(info.help), kTypes[info.type], {}});
    impl_->metrics.push_back(std::move(info));
    return {*this, impl_->metrics.size() - 1};
}

std::string Exposition::text() {
    std::erase_if(impl_->families, [](const auto& family) { return family.metric.empty(); });
    return prometheus::TextSerializer().Serialize(impl_->families);
}

const std::vector<MetricInfo>& Exposition::metrics() const {
    return impl_->metrics;
}

MetricSlots NameRegistry::admit(const MetricNames& wanted) {
    MetricSlots slots;
    for (const std::string& route : wanted.routes) slots.routes_.push_back(routes.admit(route));
    for (const std::string& upstream : wanted.upstreams) {
        slots.upstreams_.push_back(upstreams.admit(upstream));
    }
    for (const auto& policy : wanted.policies) {
        slots.decisions_begin_.push_back(slots.decisions_.size());
        for (const std::string& limit : policy.limits) {
            slots.decisions_.push_back(
                decisions.admit({policy.policy, limit, policy.shadow, policy.soft}));
        }
    }
    slots.decisions_begin_.push_back(slots.decisions_.size());
    for (const std::string& model : wanted.models) {
        if (slots.models_.size() == kModelNamesMax) break;
        const bool has_room = models.has(model) || models.size() < kModelSlotsMax;
        slots.models_.push_back(has_room ? models.admit(model) : kOtherModelsSlot);
    }
    return slots;
}

}  // namespace tidegate::telemetry
