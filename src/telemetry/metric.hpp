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
// telemetry/metric_members.hpp writes all members of a struct. An Exposition is the text that
// Prometheus reads. A NameRegistry gives the names in labels their slots.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
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

// Describes a metric: /metrics has name, type and `help`, and the reference in docs/monitoring.md
// has all of it. Texts live as long as the program.
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

// Adds samples to one metric of an exposition. A copy adds to the same metric.
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
    // All metrics that were begun, also those without a sample.
    const std::vector<MetricInfo>& metrics() const;

  private:
    friend class Family;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// A text as an argument of a template.
template <std::size_t kSize>
struct LiteralText {
    consteval LiteralText(const char (&text)[kSize]) { std::copy_n(text, kSize, chars); }
    constexpr std::string_view view() const { return {chars, kSize - 1}; }

    char chars[kSize]{};
};

// A counter, or a histogram, for each enumerator of E, with the label `kLabel`.
template <LiteralText kLabel, DescribedEnum E, class Counted = Counter>
struct By : PerEnumerator<E, Counted> {};

// A counter, or a histogram, for each name of the configuration, in a table of the room, with the
// label `kLabel`.
template <LiteralText kLabel, class Counted = Counter>
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

template <LiteralText kLabel, DescribedEnum E, class Counted>
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

template <LiteralText kLabel, class Counted>
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

// A text of the process as the value of the label `kLabel` of a gauge that is always 1; without a
// text there is no sample.
template <LiteralText kLabel>
struct Info {
    std::string value{};

    static constexpr MetricType kType = MetricType::gauge;
    static std::vector<MetricLabel> labels() { return {{.name = kLabel.view()}}; }
    static void add(Family family, LabelValues, Threads<Info> infos) {
        for (const Info* one : infos) {
            if (!one->value.empty()) family.add({one->value}, 1);
        }
    }
};

// A metric: `kHelp` is its HELP in /metrics. The reference in docs/monitoring.md adds `kNote`, in
// Markdown.
template <class Counted, LiteralText kName, LiteralText kHelp, LiteralText kNote = "">
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
template <LiteralText kName, LiteralText kHelp, LiteralText kTotalName, LiteralText kTotalHelp>
struct OpenMetrics : OpenCounter {
    static void write(Exposition& out, Threads<OpenMetrics> threads) {
        const OpenSum sums = sum_open(threads);
        out.family({.name = kName.view(), .type = MetricType::gauge, .help = kHelp.view()})
            .add({}, sums.open);
        out.family({.name = kTotalName.view(), .help = kTotalHelp.view()}).add({}, sums.opened);
    }
};

// What a policy with a cost of its own counts.
BOOST_DEFINE_FIXED_ENUM_CLASS(CostUnit, std::uint8_t, units, tokens, usd)

// The names of models that are values of labels: so many of one price list, the first ones, and so
// many since the start. All other models have the name kOtherModels.
inline constexpr std::size_t kModelNamesMax = 64;
inline constexpr std::size_t kModelSlotsMax = 256;  // with that of other models
inline constexpr std::size_t kOtherModelsSlot = 0;
inline constexpr std::string_view kOtherModels = "other";

inline MetricLabel label_of_models() {
    return {.name = "model",
            .note =
                "of the first 64 names of the [price list](llm.md#money), as they are written "
                "there; `other`: another model, or no price list"};
}

// The names in labels of metrics (routes, upstreams, limits, models), as one configuration has
// them.
struct MetricNames {
    // A list of limits. Lists that name the same policy and limit share one figure.
    struct PolicyNames {
        std::string policy;
        std::vector<std::string> limits;
        bool shadow = false;                  // counted apart: its refusals let requests pass
        bool soft = false;                    // likewise
        std::optional<CostUnit> cost_unit{};  // of a policy whose costs are settled
    };
    std::vector<std::string> routes;
    std::vector<PolicyNames> policies;
    std::vector<std::string> upstreams;
    std::vector<std::string> models{};  // the first patterns of the price list
};

inline constexpr std::size_t kNoSlot = static_cast<std::size_t>(-1);
inline constexpr std::size_t kNoRoute = kNoSlot;  // label route="-"

// Where the names of one configuration are counted: the slots that callers give to the rooms'
// metrics, by the positions in its MetricNames. The same name has the same slot in every
// configuration. Immutable.
class MetricSlots {
  public:
    // Returns the slot of a route; kNoRoute has the slot kNoRoute.
    std::size_t route(std::size_t position) const {
        return position < routes_.size() ? routes_[position] : kNoRoute;
    }
    std::size_t upstream(std::size_t position) const {
        return position < upstreams_.size() ? upstreams_[position] : kNoSlot;
    }
    std::size_t decision(std::size_t policy, std::size_t limit) const {
        if (decisions_begin_.empty() || policy >= decisions_begin_.size() - 1) return kNoSlot;
        const std::size_t begin = decisions_begin_[policy];
        return limit < decisions_begin_[policy + 1] - begin ? decisions_[begin + limit] : kNoSlot;
    }
    // The slot of a model by its row in the price list; any other number is that of other models.
    std::size_t model(std::size_t row) const {
        return row < models_.size() ? models_[row] : kOtherModelsSlot;
    }

  private:
    friend struct NameRegistry;

    std::vector<std::size_t> routes_;
    std::vector<std::size_t> upstreams_;
    std::vector<std::size_t> decisions_begin_;  // by policy, and one past the end
    std::vector<std::size_t> decisions_;        // the limits of all policies in a row
    std::vector<std::size_t> models_;
};

// Names of one kind in the order in which they were met; the position of a name never changes. No
// name is ever taken away: a counter that vanished and came back would look like a restart to
// Prometheus.
template <class Name>
class NameList {
  public:
    std::size_t admit(const Name& name) {
        const auto [known, is_new] = slots_.try_emplace(name, names_.size());
        if (is_new) names_.push_back(name);
        return known->second;
    }
    bool has(const Name& name) const { return slots_.contains(name); }
    std::size_t size() const { return names_.size(); }
    const Name& operator[](std::size_t slot) const { return names_[slot]; }

  private:
    std::map<Name, std::size_t> slots_;
    std::vector<Name> names_;
};

// A limit, as the labels of tidegate_decisions_total name it.
struct DecisionName {
    std::string policy;
    std::string limit;
    bool shadow = false;
    bool soft = false;

    // NOLINTNEXTLINE(modernize-use-nullptr): what the compiler makes of it, not what is written
    auto operator<=>(const DecisionName&) const = default;
};

// Every name that a counter ever had.
struct NameRegistry {
    NameRegistry() { models.admit(std::string(kOtherModels)); }

    // Adds what is new and returns where all of it is counted.
    MetricSlots admit(const MetricNames& wanted);
    // Without the models, which have a bound of their own.
    std::size_t size() const { return routes.size() + upstreams.size() + decisions.size(); }

    NameList<std::string> routes;
    NameList<std::string> upstreams;
    NameList<DecisionName> decisions;
    NameList<std::string> models;  // at kOtherModelsSlot those without a name
};

}  // namespace tidegate::telemetry
