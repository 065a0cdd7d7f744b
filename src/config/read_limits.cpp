// The lists of limits: of policies, of failed credentials and of preflights.
#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/utf8.hpp"
#include "config/read_limit_spec.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

using limit::Count;
using limit::kLimitsMax;
using limit::LimitSpec;

constexpr std::uint16_t kUnauthorized = 401;  // the status of a wrong credential

std::optional<limit::Limit> made_of(const Value& value, const LimitSpec& spec) {
    auto made = limit::make_limit(spec);
    if (!made) {
        const limit::LimitFault& fault = made.error();
        const auto key = value.is_map() ? Section(value).find(fault.key) : std::nullopt;
        key.value_or(value).fault(fault.what);
        return std::nullopt;
    }
    return std::move(*made);
}

// One item of `limits`: a rate, a list `[seconds, quota, precision]` or a map.
std::optional<limit::Limit> read_limit(const Value& value, std::optional<MomentSource>& moment) {
    const std::optional<LimitSpec> spec = read_limit_spec(value, moment);
    if (!spec) return std::nullopt;
    std::optional<limit::Limit> made = made_of(value, *spec);
    if (made && made->quota == 0) value.warn("a quota of 0 denies every request");
    return made;
}

// The same where only failures count.
std::optional<limit::Limit> read_failure_limit(const Value& value) {
    std::optional<MomentSource> moment;
    std::optional<LimitSpec> spec = read_limit_spec(value, moment);
    if (!spec) return std::nullopt;
    if (!limit::traits_of(spec->algorithm).has(limit::kCount)) {
        value.fault(
            "choose sliding_window, fixed_window, sliding_log or gcra: other algorithms cannot "
            "count failures");
        return std::nullopt;
    }
    if (spec->count != Count::admitted) {
        value.fault("remove `count`: this limit counts failures");
        return std::nullopt;
    }
    if (spec->quota == 0) {
        value.fault("a quota of 0 refuses every credential, valid ones too: write at least 1");
        return std::nullopt;
    }
    spec->count = Count::by_status;
    spec->statuses = {kUnauthorized};
    return made_of(value, *spec);
}

// The limits of a list, and where each is written.
struct DistinctLimits {
    std::vector<limit::Limit> limits;
    std::vector<std::string> places;
};

void add_limit(const Value& value, limit::Limit&& made, DistinctLimits& list) {
    const auto same = std::find_if(
        list.limits.begin(), list.limits.end(),
        [&](const limit::Limit& other) { return other.id == made.id || other.name == made.name; });
    if (same != list.limits.end()) {
        const auto text = value.is_scalar() ? value.text("") : std::nullopt;
        const auto place = list.places[static_cast<std::size_t>(same - list.limits.begin())];
        value.fault((text ? quote(*text) : "this limit") + " and " + place + " are both named " +
                    quote(made.name) + ": remove one, change its duration, or give it a `name`");
        return;
    }
    list.limits.push_back(std::move(made));
    list.places.push_back(value.name());
}

// The same for preflights.
std::optional<limit::Limit> read_preflight_limit(const Value& value) {
    std::optional<MomentSource> moment;
    const std::optional<LimitSpec> spec = read_limit_spec(value, moment);
    if (!spec) return std::nullopt;
    if (!limit::traits_of(spec->algorithm).has(limit::kCount)) {
        value.fault(
            "choose sliding_window, fixed_window, sliding_log or gcra: other algorithms do not "
            "limit preflights");
        return std::nullopt;
    }
    if (spec->count == Count::by_status) {
        value.fault("remove `count`: every preflight counts, whatever the upstream answers");
        return std::nullopt;
    }
    if (spec->quota == 0) {
        value.fault("a quota of 0 refuses every preflight: write at least 1");
        return std::nullopt;
    }
    return made_of(value, *spec);
}

// The limits that `read` makes of the items of `value`; faulty ones are reported and left out.
std::vector<limit::Limit> read_each(const Value& value, const ListRule& rule,
                                    std::optional<limit::Limit> (*read)(const Value&)) {
    DistinctLimits list;
    for (const Value& item : value.one_or_more(rule)) {
        if (auto made = read(item)) add_limit(item, std::move(*made), list);
    }
    return std::move(list.limits);
}

}  // namespace

bool agree_on_moment(const Value& value, const std::optional<MomentSource>& other,
                     std::optional<MomentSource>& moment) {
    if (!other) return true;
    if (moment && *moment != *other) {
        const auto written = [](const MomentSource& source) {
            return (source.in == MomentSource::In::header ? "{header: " : "{query: ") +
                   source.name + "}";
        };
        value.fault("`at: " + written(*other) + "` here, but `at: " + written(*moment) +
                    "` before: all schedules that a request can meet must read the same moment");
        return false;
    }
    moment = other;
    return true;
}

Limits read_limits(const Value& value) {
    Limits out;
    if (report_flat_limits(value)) return out;
    constexpr ListRule kLimits{
        "a list of limits: `[10/s, 120/min]`", "limits", kLimitsMax,
        "the list is empty: remove it, or write `policies: []` on a route for no limit"};
    DistinctLimits list;
    for (const Value& item : value.items(kLimits)) {
        std::optional<MomentSource> moment;
        auto made = read_limit(item, moment);
        if (!made || !agree_on_moment(item, moment, out.moment)) continue;
        add_limit(item, std::move(*made), list);
    }
    out.limits = std::move(list.limits);
    return out;
}

limit::Limit default_failure_limit() {
    LimitSpec spec;
    spec.quota = 60;
    spec.duration = std::chrono::minutes{1};
    spec.count = Count::by_status;
    spec.statuses = {kUnauthorized};
    return *limit::make_limit(spec);
}

std::vector<limit::Limit> read_failure_limits(const Value& value) {
    constexpr ListRule kLimits{"a rate such as `20/min`, or a list of limits", "limits", kLimitsMax,
                               "the list is empty: write `off`, or a limit such as `20/min`"};
    return read_each(value, kLimits, read_failure_limit);
}

limit::Limit default_preflight_limit() {
    LimitSpec spec;
    spec.quota = 50;
    spec.duration = std::chrono::seconds{1};
    return *limit::make_limit(spec);
}

std::vector<limit::Limit> read_preflight_limits(const Value& value) {
    constexpr ListRule kLimits{"a rate such as `50/s`, or a list of limits", "limits", kLimitsMax,
                               "the list is empty: write a limit such as `50/s`"};
    return read_each(value, kLimits, read_preflight_limit);
}

// A list of numbers where a list of limits must be.

namespace {

constexpr std::size_t kNumbersMin = 2;  // seconds and quota
constexpr std::size_t kNumbersMax = 3;  // and a precision

// `7/min` for a quota of 7 every 60 seconds.
std::string rate_text(std::int64_t quota, std::int64_t seconds) {
    constexpr std::pair<std::int64_t, std::string_view> kUnits[] = {
        {1, "s"}, {60, "min"}, {3'600, "h"}, {86'400, "day"}};
    for (const auto& [unit_seconds, unit] : kUnits) {
        if (seconds == unit_seconds) return std::to_string(quota) + "/" + std::string(unit);
    }
    return std::to_string(quota) + "/" + std::to_string(seconds) + "s";
}

}  // namespace

bool report_flat_limits(const Value& value) {
    if (!value.is_sequence()) return false;
    const auto items = value.items({});
    if (items.size() < kNumbersMin || items.size() > kNumbersMax) return false;
    std::vector<std::int64_t> numbers;
    std::string written;
    for (const Value& item : items) {
        const std::optional<std::int64_t> number = item.whole_number();
        if (!number) return false;
        written += (written.empty() ? "" : ", ") + std::to_string(*number);
        numbers.push_back(*number);
    }
    const std::string as_rate =
        numbers.size() == kNumbersMin ? ", or " + quote(rate_text(numbers[1], numbers[0])) : "";
    value.fault("found a list of numbers; did you mean " + quote("[[" + written + "]]") + as_rate +
                "?");
    return true;
}

// Clients, the log and reports know a limit by one name: no two may share it.

namespace {

struct Owner {
    const limit::Policy* policy;
    const limit::Limit* limit;
};

// `first` was read before `second`. One of them at least is an entry of `policies`: names of the
// others do not lead to the same name.
void report(const Owner& first, const Owner& second, const std::string& name,
            const Declared& declared, Context& context) {
    const bool second_is_declared = declared.policies.contains(second.policy->name);
    const Owner& here = second_is_declared ? second : first;
    const Owner& other = second_is_declared ? first : second;
    const auto place = declared.policies.find(here.policy->name);
    context.faults.push_back({place == declared.policies.end() ? Place{} : place->second.place,
                              "policies." + here.policy->name + ": its limit " +
                                  quote(here.limit->name) + " would be called " + quote(name) +
                                  ", as the limit " + quote(other.limit->name) + " of the policy " +
                                  quote(other.policy->name) +
                                  ": give one of the two limits or policies another name"});
}

}  // namespace

void check_limit_names(const Config& config, const Declared& declared, Context& context) {
    std::unordered_map<std::string, Owner> owners;
    for (const LimitList& list : config.limit_lists) {
        for (const limit::Limit& limit : list.limits()) {
            const Owner owner{list.policy, &limit};
            const auto [entry, is_new] =
                owners.emplace(limit::full_name(*list.policy, limit), owner);
            // The tiers of a policy have the same limits with other quotas.
            if (is_new || entry->second.policy == list.policy) continue;
            report(entry->second, owner, entry->first, declared, context);
            entry->second = owner;  // its tiers are not reported again
        }
    }
}

}  // namespace tidegate::config
