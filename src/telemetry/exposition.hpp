// The text that Prometheus reads, made anew on each scrape by one thread; and how the counters of
// several threads become one figure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telemetry/counters.hpp"

namespace tidegate::telemetry {

struct Label {
    std::string name;
    std::string value;
};
using Labels = std::vector<Label>;

// The metrics of one room, one object a thread.
template <class Metrics>
using Threads = std::span<const Metrics* const>;

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

// Adds up what is open over all threads.
template <class Metrics>
OpenSum sum_open(Threads<Metrics> threads, OpenCounter Metrics::*counter) {
    // Closed before opened: one that opens in between must not make the difference negative.
    const auto closed = sum(
        threads, [&](const Metrics& one) -> auto& { return (one.*counter).closed; });
    const auto opened = sum(
        threads, [&](const Metrics& one) -> auto& { return (one.*counter).opened; });
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
    for (const Metrics* metrics : threads) merged.add(histogram_of(*metrics));
    return merged;
}

class Exposition;

// A metric of one name; its place in the exposition, so copies mean the same.
class Family {
  public:
    void add(Labels labels, std::uint64_t value) {
        add(std::move(labels), static_cast<double>(value));
    }
    void add(Labels labels, int value) { add(std::move(labels), static_cast<double>(value)); }
    void add(Labels labels, double value);
    void add(Labels labels, const MergedHistogram& histogram);

    // A sample for each reason, with the label `label`: what `counters_of(metrics)`, a CounterBy,
    // have counted on all threads. Calls to_string() of the enumeration.
    template <class Metrics, class Enum, Enum kLast>
    void add_each(std::string_view label, Threads<Metrics> threads,
                  CounterBy<Enum, kLast> Metrics::*counters) {
        for (std::size_t i = 0; i < CounterBy<Enum, kLast>::kSize; ++i) {
            const auto value = static_cast<Enum>(i);
            add({{std::string(label), std::string(to_string(value))}},
                sum(
                    threads, [&](const Metrics& metrics) -> auto& {
                        return (metrics.*counters)[value];
                    }));
        }
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

    Family counter(std::string name, std::string help);
    Family gauge(std::string name, std::string help);
    Family histogram(std::string name, std::string help);

    // The Prometheus text format, without families that have no sample.
    std::string text();

  private:
    friend class Family;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tidegate::telemetry
