// One limit, in each of its three spellings.
#include <algorithm>

#include "base/quote.hpp"
#include "base/units.hpp"
#include "config/sections.hpp"

namespace tidegate::config {

namespace {

using limit::Algorithm;
using limit::Anchor;
using limit::LimitSpec;
using limit::Micros;

constexpr int kMicroDigits = 6;
constexpr std::size_t kLimitsMax = 16;  // a policy; each costs every request that meets it
constexpr std::string_view kSpellings =
    "a rate such as `10/s`, a list `[seconds, quota, precision]` or a map "
    "`{quota: 10, per: 1s}`";

std::optional<Micros> read_seconds(const Value& value) {
    constexpr std::string_view kWanted = "a number of seconds such as `60` or `0.5`";
    const auto text = value.text(kWanted);
    if (!text) return std::nullopt;
    const auto micros = parse_fixed(*text, kMicroDigits);
    if (!micros) {
        value.fault(quote(*text) + " is not " + std::string(kWanted));
        return std::nullopt;
    }
    return Micros{*micros};
}

std::optional<std::int64_t> read_quota(const Value& value) {
    return value.integer({0, limit::kQuotaMax});
}

// Unlike Value::duration(), to the microsecond; bounds are make_limit()'s affair.
std::optional<Micros> read_time(const Value& value) {
    const auto text = value.text("a duration such as `1s`, `15min` or `1h`");
    if (!text) return std::nullopt;
    const auto duration = parse_duration(*text);
    if (!duration) {
        value.fault(duration.error());
        return std::nullopt;
    }
    return *duration;
}

std::optional<LimitSpec> read_rate(const Value& value) {
    const auto text = value.text(kSpellings);
    if (!text) return std::nullopt;
    const auto rate = parse_rate(*text);
    if (!rate) {
        value.fault(rate.error());
        return std::nullopt;
    }
    LimitSpec spec;
    spec.quota = rate->quota;
    spec.duration = rate->per;
    return spec;
}

// Lists like `[60, 10]` are usually meant as windows that begin anew: precision = duration.
std::optional<LimitSpec> read_list(const Value& value) {
    const auto items = value.items(kSpellings);
    if (items.size() != 2 && items.size() != 3) {
        value.fault("a list is `[seconds, quota]` or `[seconds, quota, precision]`");
        return std::nullopt;
    }
    const auto seconds = read_seconds(items[0]);
    const auto quota = read_quota(items[1]);
    const auto precision = items.size() == 3 ? read_seconds(items[2]) : seconds;
    if (!seconds || !quota || !precision) return std::nullopt;
    LimitSpec spec;
    spec.quota = *quota;
    spec.duration = *seconds;
    spec.precision = *precision;
    return spec;
}

std::optional<LimitSpec> read_map(const Value& value) {
    const std::size_t faults_before = value.context().faults.size();
    LimitSpec spec;
    Section section(value);
    if (const auto name = section.find("name")) spec.name = name->identifier().value_or("");
    if (const auto quota = section.need("quota", "`quota: 10`")) {
        spec.quota = read_quota(*quota).value_or(0);
    }
    if (const auto per = section.need("per", "`per: 1s`")) {
        spec.duration = read_time(*per).value_or(Micros{0});
    }
    if (const auto precision = section.find("precision")) spec.precision = read_time(*precision);
    section.toggle("strict", spec.strict);
    section.choice<Algorithm>(
        "algorithm", spec.algorithm,
        {{"sliding_window", Algorithm::sliding_window}, {"fixed_window", Algorithm::fixed_window}},
        {"sliding_log", "gcra", "token_bucket", "leaky_bucket", "schedule", "concurrency"});
    section.choice<Anchor>("anchor", spec.anchor,
                           {{"clock", Anchor::clock}, {"first_request", Anchor::first_request}});
    section.not_available({"burst", "count", "max_delay", "at", "window", "horizon", "past"});
    section.refuse_others();
    if (value.context().faults.size() != faults_before) return std::nullopt;
    return spec;
}

std::optional<LimitSpec> read_spec(const Value& value) {
    if (value.is_map()) return read_map(value);
    if (value.is_sequence()) return read_list(value);
    return read_rate(value);
}

}  // namespace

std::optional<limit::Limit> read_limit(const Value& value) {
    const std::optional<LimitSpec> spec = read_spec(value);
    if (!spec) return std::nullopt;
    auto made = limit::make_limit(*spec);
    if (!made) {
        value.fault(made.error());
        return std::nullopt;
    }
    if (made->quota == 0) value.warn("a quota of 0 denies every request");
    return std::move(*made);
}

std::vector<limit::Limit> read_limits(const Value& value) {
    std::vector<limit::Limit> limits;
    const std::vector<Value> items = value.items("a list of limits: `[10/s, 120/min]`");
    if (value.is_sequence() && items.empty()) {
        value.fault(
            "an empty list limits nothing: leave it out, or write `policies: []` on a route");
    }
    if (items.size() > kLimitsMax) {
        value.fault("more than " + std::to_string(kLimitsMax) + " limits");
        return limits;
    }
    for (const Value& item : items) {
        auto made = read_limit(item);
        if (!made) continue;
        const auto same = [&](const limit::Limit& other) {
            return other.id == made->id || other.name == made->name;
        };
        if (std::any_of(limits.begin(), limits.end(), same)) {
            item.fault(
                "the same limit twice: another duration, or a `name`, would tell them apart");
            continue;
        }
        limits.push_back(std::move(*made));
    }
    return limits;
}

}  // namespace tidegate::config
