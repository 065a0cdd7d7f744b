// The text that Prometheus reads, made anew on each scrape by one thread; what is said of each
// metric in it; and how the counters of several threads become one figure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/described_enum.hpp"
#include "telemetry/counters.hpp"

namespace tidegate::telemetry {

BOOST_DEFINE_FIXED_ENUM_CLASS(MetricType, std::uint8_t, counter, gauge, histogram)

// A label of a metric. Texts live as long as the program; those for the reference are Markdown.
struct MetricLabel {
    std::string_view name;
    std::span<const std::string_view> values{};  // all there are; empty: it may have others
    std::span<const std::string_view> notes{};   // on each of `values`, for the reference, or none
    std::string_view note{};                     // on the label, for the reference
};

// A label whose values are the enumerators of E.
template <DescribedEnum E>
MetricLabel label_of(std::string_view name) {
    return {.name = name, .values = kEnumNames<E>};
}

// What is said of a metric: name, type and `help` by /metrics, and all of it by the reference in
// docs/operating.md. Texts live as long as the program.
struct MetricInfo {
    std::string_view name;
    MetricType type = MetricType::counter;
    std::string_view help;
    std::vector<MetricLabel> labels{};
    std::string_view note{};  // for the reference, Markdown: follows `help`
};

// The values of a sample's labels, in the order of MetricInfo::labels.
using LabelValues = std::span<const std::string_view>;

// The metrics of one room, one object a thread.
template <class Metrics>
using Threads = std::span<const Metrics* const>;

// `part_of(metrics)` of each thread.
template <class Part, class Metrics, class PartOf>
std::vector<const Part*> parts_of(Threads<Metrics> threads, PartOf&& part_of) {
    std::vector<const Part*> parts;
    for (const Metrics* one : threads) {
        const Part& part = std::invoke(part_of, *one);
        parts.push_back(&part);
    }
    return parts;
}

// Adds up `counter_of(metrics)`, a Counter, over all threads; a member of Metrics, or a function.
template <class Metrics, class CounterOf>
std::uint64_t sum(Threads<Metrics> threads, CounterOf&& counter_of) {
    std::uint64_t total = 0;
    for (const Metrics* metrics : threads) total += std::invoke(counter_of, *metrics).value();
    return total;
}

struct OpenSum {
    std::uint64_t open = 0;    // now
    std::uint64_t opened = 0;  // ever
};

// Adds up what is open over all threads; Open is an OpenCounter.
template <class Open>
OpenSum sum_open(Threads<Open> threads) {
    // Closed before opened: one that opens in between must not make the difference negative.
    const auto closed = sum(threads, &Open::closed);
    const auto opened = sum(threads, &Open::opened);
    return {opened > closed ? opened - closed : 0, opened};
}

// The histograms of several threads as one.
class MergedHistogram {
  public:
    explicit MergedHistogram(std::span<const nanoseconds> bounds)
        : bounds_(bounds), counts_(bounds.size() + 1) {}

    template <class Histogram>
    void add(const Histogram& histogram) {
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += histogram.bucket(i);
        sum_ns_ += histogram.sum_ns();
    }

    std::span<const nanoseconds> bounds() const { return bounds_; }
    std::span<const std::uint64_t> counts() const { return counts_; }  // one more than bounds
    std::uint64_t sum_ns() const { return sum_ns_; }

  private:
    std::span<const nanoseconds> bounds_;
    std::vector<std::uint64_t> counts_;
    std::uint64_t sum_ns_ = 0;
};

// Merges `histogram_of(metrics)` of all threads.
template <const auto& kBounds, class Metrics, class HistogramOf>
MergedHistogram merge(Threads<Metrics> threads, HistogramOf&& histogram_of) {
    MergedHistogram merged(kBounds);
    for (const Metrics* metrics : threads) merged.add(std::invoke(histogram_of, *metrics));
    return merged;
}

class Exposition;

// The samples of one metric; its place in the exposition, so copies mean the same.
class Family {
  public:
    // Requires as many values as the metric has labels.
    void add(LabelValues values, double value) const;
    void add(LabelValues values, const MergedHistogram& histogram) const;
    template <class Number>
    requires std::is_integral_v<Number>
    void add(LabelValues values, Number value) const { add(values, static_cast<double>(value)); }
    template <class Value>
    void add(std::initializer_list<std::string_view> values, const Value& value) const {
        add(LabelValues(values.begin(), values.size()), value);
    }

  private:
    friend class Exposition;
    Family(Exposition& of, std::size_t index) : of_(&of), index_(index) {}

    Exposition* of_;
    std::size_t index_;
};

class Exposition {
  public:
    Exposition();
    ~Exposition();
    Exposition(const Exposition&) = delete;
    Exposition& operator=(const Exposition&) = delete;

    // Begins a metric. The one way to write one, so `metrics()` has all.
    Family family(MetricInfo info);

    // The Prometheus text format, without metrics that have no sample. Called once, at the end.
    std::string text();
    // What was begun, also without a sample.
    const std::vector<MetricInfo>& metrics() const;

  private:
    friend class Family;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tidegate::telemetry
