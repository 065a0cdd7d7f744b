// A metric is declared at the member that counts it. Its type has all that /metrics and the
// reference say of it, so an object of a thread holds nothing but its counters:
//
//     Metric<Counter, "tidegate_deny_cache_hits_total", "Requests denied by a remembered denial">
//         deny_cache_hits;
//     Metric<By<"reason", StoreFailure>, "tidegate_store_failures_total",
//            "Decisions the store did not make, by reason">
//         failures;
//
//     metrics.failures[StoreFailure::timeout].add();
//
// telemetry/metric_members.hpp writes all members of a struct.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/described_enum.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/exposition.hpp"

namespace tidegate::telemetry {

// A text as an argument of a template.
template <std::size_t kSize>
struct Text {
    consteval Text(const char (&text)[kSize]) { std::copy_n(text, kSize, chars); }
    constexpr std::string_view view() const { return {chars, kSize - 1}; }

    char chars[kSize]{};
};

// What is counted for each enumerator of E, with the label `kLabel`.
template <Text kLabel, DescribedEnum E, class Counted = Counter>
struct By : PerEnumerator<E, Counted> {};

// What is counted for each name of the configuration, in a table of the room, with the label
// `kLabel`.
template <Text kLabel, class Counted = Counter>
struct ByName : Counted {};

// How `Counted` becomes samples: `kType`, `labels()`, and `add()`, which adds the samples of all
// threads behind the values of labels that it does not know itself. A room's own type has these as
// static members.
template <class Counted>
struct MetricTraits : Counted {};

template <>
struct MetricTraits<Counter> {
    static constexpr MetricType kType = MetricType::counter;
    static std::vector<MetricLabel> labels() { return {}; }
    static void add(Family family, LabelValues outer, Threads<Counter> threads) {
        family.add(outer, sum(threads, std::identity()));
    }
};

template <const auto& kBounds, template <const auto&> class Buckets>
struct HistogramTraits {
    static constexpr MetricType kType = MetricType::histogram;
    static std::vector<MetricLabel> labels() { return {}; }
    static void add(Family family, LabelValues outer, Threads<Buckets<kBounds>> threads) {
        family.add(outer, merge<kBounds>(threads, std::identity()));
    }
};
template <const auto& kBounds>
struct MetricTraits<Histogram<kBounds>> : HistogramTraits<kBounds, Histogram> {};
template <const auto& kBounds>
struct MetricTraits<FineHistogram<kBounds>> : HistogramTraits<kBounds, FineHistogram> {};

template <Text kLabel, DescribedEnum E, class Counted>
struct MetricTraits<By<kLabel, E, Counted>> {
    static constexpr MetricType kType = MetricTraits<Counted>::kType;
    static std::vector<MetricLabel> labels() { return {label_of<E>(kLabel.view())}; }
    static void add(Family family, LabelValues outer, Threads<By<kLabel, E, Counted>> threads) {
        std::vector<std::string_view> values(outer.begin(), outer.end());
        values.emplace_back();
        for (const E value : kEnumerators<E>) {
            values.back() = to_string(value);
            const auto of_value = parts_of<Counted>(
                threads, [value](const auto& one) -> const Counted& { return one[value]; });
            MetricTraits<Counted>::add(family, values, of_value);
        }
    }
};

template <Text kLabel, class Counted>
struct MetricTraits<ByName<kLabel, Counted>> {
    static constexpr MetricType kType = MetricTraits<Counted>::kType;
    static std::vector<MetricLabel> labels() {
        std::vector<MetricLabel> all = MetricTraits<Counted>::labels();
        all.insert(all.begin(), MetricLabel{.name = kLabel.view()});
        return all;
    }
    // `outer` ends with the name.
    static void add(Family family, LabelValues outer, Threads<ByName<kLabel, Counted>> threads) {
        MetricTraits<Counted>::add(family, outer, parts_of<Counted>(threads, std::identity()));
    }
};

// A figure of the process that is read when Prometheus asks, rather than counted by a thread.
template <MetricType kMetricType, class Value = std::uint64_t>
struct Figure {
    Value value{};

    static constexpr MetricType kType = kMetricType;
    static std::vector<MetricLabel> labels() { return {}; }
    static void add(Family family, LabelValues outer, Threads<Figure> figures) {
        for (const Figure* one : figures) family.add(outer, one->value);
    }
};

// A metric: `kHelp` is its HELP in /metrics. The reference in docs/operating.md adds `kNote`, in
// Markdown.
template <class Counted, Text kName, Text kHelp, Text kNote = "">
struct Metric : Counted {
    using Kind = Counted;
    using Traits = MetricTraits<Counted>;

    static MetricInfo info() {
        return {kName.view(), Traits::kType, kHelp.view(), Traits::labels(), kNote.view()};
    }
    static void write(Exposition& out, Threads<Metric> threads) {
        Traits::add(out.family(info()), {}, parts_of<Counted>(threads, std::identity()));
    }
};

// Things that are opened and closed, as two metrics: a gauge `kName` of those that are open, and a
// counter `kTotalName` of all that were ever opened.
template <Text kName, Text kHelp, Text kTotalName, Text kTotalHelp>
struct OpenMetrics : OpenCounter {
    static void write(Exposition& out, Threads<OpenMetrics> threads) {
        const OpenSum sums = sum_open(threads);
        out.family({.name = kName.view(), .type = MetricType::gauge, .help = kHelp.view()})
            .add({}, sums.open);
        out.family({.name = kTotalName.view(), .help = kTotalHelp.view()}).add({}, sums.opened);
    }
};

}  // namespace tidegate::telemetry
