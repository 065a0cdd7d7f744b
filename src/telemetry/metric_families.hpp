// Figures in the shape prometheus-cpp serialises. Made anew on each scrape, by one thread.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <prometheus/metric_family.h>

#include "telemetry/metrics.hpp"

namespace tidegate::telemetry {

using Labels = std::vector<prometheus::ClientMetric::Label>;

// The histograms of several shards as one.
class MergedHistogram {
  public:
    explicit MergedHistogram(std::span<const nanoseconds> bounds)
        : bounds_(bounds), counts_(bounds.size() + 1) {}

    template <class Histogram>
    void add(const Histogram& histogram) {
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += histogram.bucket(i);
        sum_ns_ += histogram.sum_ns();
    }

    prometheus::ClientMetric::Histogram result() const {
        prometheus::ClientMetric::Histogram merged;
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            // The count is the sum of the buckets, not a counter beside them: a scrape in the
            // middle of a request must not show them at odds.
            merged.sample_count += counts_[i];
            const double bound = i < bounds_.size()
                                     ? std::chrono::duration<double>(bounds_[i]).count()
                                     : std::numeric_limits<double>::infinity();
            merged.bucket.push_back({merged.sample_count, bound});
        }
        merged.sample_sum = static_cast<double>(sum_ns_) / 1e9;
        return merged;
    }

  private:
    std::span<const nanoseconds> bounds_;
    std::vector<std::uint64_t> counts_;
    std::uint64_t sum_ns_ = 0;
};

class Families;

// A metric of one name; its place among the families, so copies mean the same.
class Family {
  public:
    void add(Labels labels, std::uint64_t value) {
        add(std::move(labels), static_cast<double>(value));
    }
    void add(Labels labels, int value) { add(std::move(labels), static_cast<double>(value)); }
    void add(Labels labels, double value);
    void add(Labels labels, const MergedHistogram& histogram);

  private:
    friend class Families;
    Family(std::vector<prometheus::MetricFamily>& all, std::size_t index)
        : all_(&all), index_(index) {}
    prometheus::ClientMetric& append(Labels labels);

    std::vector<prometheus::MetricFamily>* all_;
    std::size_t index_;
};

class Families {
  public:
    Family counter(std::string name, std::string help);
    Family gauge(std::string name, std::string help);
    Family histogram(std::string name, std::string help);
    // What was added, without families that are empty (a name without a sample).
    std::vector<prometheus::MetricFamily> take();

  private:
    Family begin(std::string name, std::string help, prometheus::MetricType type);

    std::vector<prometheus::MetricFamily> all_;
};

}  // namespace tidegate::telemetry
