#include "limit/limit.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "limit/charge.hpp"

namespace tidegate::limit {
namespace {

// FNV-1a. The id is kept in stored state, so it must be the same in every build and on every
// machine; std::hash promises neither.
class Fingerprint {
  public:
    void add(std::string_view text) {
        add(static_cast<std::int64_t>(text.size()));
        for (char letter : text) add_byte(static_cast<std::uint8_t>(letter));
    }

    void add(std::int64_t number) {
        for (int shift = 0; shift < 64; shift += 8) {
            add_byte(static_cast<std::uint8_t>(static_cast<std::uint64_t>(number) >> shift));
        }
    }

    std::uint32_t value() const { return static_cast<std::uint32_t>(hash_ ^ (hash_ >> 32)); }

  private:
    void add_byte(std::uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3ULL; }

    std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

// `1s`, `15min`, `1500ms`: the largest unit that leaves no remainder.
std::string written(Micros duration) {
    struct Unit {
        std::int64_t micros;
        std::string_view name;
    };
    static constexpr std::array<Unit, 6> kUnits{{{86'400'000'000, "day"},
                                                 {3'600'000'000, "h"},
                                                 {60'000'000, "min"},
                                                 {1'000'000, "s"},
                                                 {1'000, "ms"},
                                                 {1, "us"}}};
    for (const Unit& unit : kUnits) {
        if (duration.count() % unit.micros == 0) {
            return std::to_string(duration.count() / unit.micros).append(unit.name);
        }
    }
    return {};
}

// The limit's settings, without its quota, and without those that follow from the rest.
std::string default_name(const Limit& limit) {
    const AlgorithmTraits& traits = limit.traits();
    if (has_period(limit.anchor)) {
        std::string name(to_string(limit.anchor));
        return limit.time_zone.empty() ? name : name + "-" + limit.time_zone;
    }
    std::string name;
    if (traits.has(kPer)) name = limit.utc_day ? "day" : written(limit.duration);
    name += traits.suffix;
    if (limit.opens_itself()) name += "-first_request";
    if (traits.has(kPrecision) && limit.precision != default_precision(limit.duration)) {
        name += "-by-" + written(limit.precision);
    }
    return limit.strict ? name + "-strict" : name;
}

std::uint32_t fingerprint(const Limit& limit) {
    Fingerprint print;
    print.add(limit.name);
    print.add(static_cast<std::int64_t>(limit.algorithm));
    print.add(limit.duration.count());
    print.add(limit.precision.count());
    print.add(limit.strict || limit.utc_day ? 1 : 0);
    print.add(static_cast<std::int64_t>(limit.anchor));
    print.add(to_string(limit.count));
    for (const std::uint16_t status : limit.statuses) print.add(status);
    if (!limit.time_zone.empty()) print.add(limit.time_zone);
    if (limit.in_money) print.add("money");
    return print.value();
}

LimitFault out_of_range(std::string_view key, std::string_view what, std::string_view value,
                        std::string_view min, std::string_view max) {
    std::string text(what);
    text.append(value).append(" is out of range: ").append(min).append(" to ").append(max);
    return {key, text};
}

// A setting that only other algorithms have, if there is one.
LimitFault stray_setting(const LimitSpec& spec) {
    struct Given {
        Setting setting;
        bool given;
        std::string_view key;
    };
    const std::array<Given, 10> settings{{
        {kAnchor, spec.anchor != Anchor::clock, "anchor"},
        {kAnchor, !spec.time_zone.empty(), "time_zone"},
        {kPrecision, spec.precision.has_value(), "precision"},
        {kStrict, spec.strict, "strict"},
        {kBurst, spec.burst.has_value(), "burst"},
        {kMaxDelay, spec.max_delay.has_value(), "max_delay"},
        {kMoment, spec.utc_day, "window"},
        {kMoment, spec.horizon.has_value(), "horizon"},
        {kMoment, spec.forward_past, "past"},
        {kCount, spec.count != Count::admitted, "count"},
    }};
    for (const Given& one : settings) {
        if (!one.given || traits_of(spec.algorithm).has(one.setting)) continue;
        const auto first =
            std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                         [&](const AlgorithmTraits& traits) { return traits.has(one.setting); });
        const auto owners =
            std::count_if(first, kAlgorithms.end(),
                          [&](const AlgorithmTraits& traits) { return traits.has(one.setting); });
        std::string what = "only ";
        what.append(algorithms_with(one.setting, "and", "`")).append(owners > 1 ? " have" : " has");
        what.append(" `").append(one.key).append("`: remove it, or write ");
        what.append("`algorithm: ").append(first->name).append("`");
        return {one.key, what};
    }
    return {};
}

LimitFault fault_of_quota(const LimitSpec& spec) {
    const AlgorithmTraits& traits = traits_of(spec.algorithm);
    if (spec.in_money && traits.state == StateKind::windows) {
        if (spec.quota >= 0 && spec.quota <= kMoneyMax) return {};
        return out_of_range("quota", "a quota in micro-dollars of ", std::to_string(spec.quota),
                            "0", std::to_string(kMoneyMax));
    }
    if (spec.quota >= traits.quota_min && spec.quota <= traits.quota_max) return {};
    const std::string name = "`" + std::string(traits.name) + "`";
    if (spec.in_money && spec.quota > kQuotaMax) {
        return {"quota", name + " counts at most 4294 dollars: write less, or `algorithm: " +
                             std::string(traits_of(Algorithm::sliding_window).name) + "`"};
    }
    if (spec.quota == 0) return {"quota", name + " needs a quota of at least 1"};
    if (spec.quota < 0 || traits.quota_max == kQuotaMax) {
        return out_of_range("quota", "a quota of ", std::to_string(spec.quota),
                            std::to_string(traits.quota_min), std::to_string(traits.quota_max));
    }
    std::string what =
        name + " counts at most " + std::to_string(traits.quota_max) + ": write less";
    if (traits.state == StateKind::log) what += ", or `algorithm: sliding_window`";
    return {"quota", what};
}

LimitFault fault_of_precision(const LimitSpec& spec) {
    if (!spec.precision) return {};
    const std::string precision = written(*spec.precision);
    if (*spec.precision < Micros{1} || *spec.precision > spec.duration) {
        return out_of_range("precision", "a precision of ", precision, "1us",
                            written(spec.duration) + ", the duration");
    }
    const std::int64_t blocks = (spec.duration - Micros{1}) / *spec.precision + 1;
    if (blocks <= kBlocksMax) return {};
    return {"precision", "a precision of " + precision + " makes " + std::to_string(blocks) +
                             " sub-buckets, and at most " + std::to_string(kBlocksMax) +
                             " are counted: write at least `" +
                             written((spec.duration - Micros{1}) / kBlocksMax + Micros{1}) + "`"};
}

// A full bucket must have leaked within kDurationMax: times stay exact in a script then.
LimitFault fault_of_bucket(const LimitSpec& spec) {
    if (!traits_of(spec.algorithm).has(kBurst)) return {};
    const std::int64_t burst = spec.burst.value_or(spec.quota);
    if (burst < 1 || burst > kQuotaMax) {
        return out_of_range("burst", "a burst of ", std::to_string(burst), "1",
                            std::to_string(kQuotaMax));
    }
    __extension__ using Wide = __int128;
    if (Wide{burst} * spec.duration.count() > Wide{spec.quota} * kDurationMax.count()) {
        return {"burst", "a burst of " + std::to_string(burst) + " takes longer than " +
                             written(kDurationMax) + " to come back at this rate: write less"};
    }
    if (spec.max_delay && (*spec.max_delay < Micros{0} || *spec.max_delay > kDelayMax)) {
        return out_of_range("max_delay", "", "`" + written(*spec.max_delay) + "`", "0s",
                            written(kDelayMax));
    }
    return {};
}

LimitFault fault_of_schedule(const LimitSpec& spec) {
    if (!traits_of(spec.algorithm).has(kMoment)) return {};
    if (spec.utc_day && spec.duration != std::chrono::hours{24}) {
        return {"per", "a window of utc_day lasts a day: `per: 1day`"};
    }
    const Micros horizon = spec.horizon.value_or(kHorizon);
    if (horizon < Micros{0} || horizon > kDurationMax) {
        return out_of_range("horizon", "", "`" + written(horizon) + "`", "0s",
                            written(kDurationMax));
    }
    __extension__ using Wide = __int128;
    const Wide windows = horizon / spec.duration + 2;
    if (windows * spec.quota > kMomentsMax) {
        return {"quota", "within the horizon of " + written(horizon) +
                             " an identifier could fill more than " + std::to_string(kMomentsMax) +
                             " moments: choose a smaller quota or horizon"};
    }
    return {};
}

// How long a period is at most: one of a time zone an hour more than of UTC.
Micros duration_of(Anchor anchor) {
    constexpr Micros kDay = std::chrono::hours{24};
    const Micros hour = std::chrono::hours{has_time_zone(anchor) ? 1 : 0};
    switch (anchor) {
        case Anchor::utc_day:
        case Anchor::day:
            return kDay + hour;
        case Anchor::utc_week:
        case Anchor::week:
            return 7 * kDay + hour;
        default:
            return 31 * kDay + hour;
    }
}

// There is no default zone: that of the machine, often UTC, need not be that of the customers.
LimitFault fault_of_time_zone(const LimitSpec& spec) {
    const std::string anchor(to_string(spec.anchor));
    if (has_time_zone(spec.anchor)) {
        if (spec.zone != nullptr && !spec.time_zone.empty()) return {};
        return {"anchor",
                "the anchor `" + anchor +
                    "` needs a time zone: add `time_zone: Europe/Berlin`, or write `utc_" + anchor +
                    "`"};
    }
    if (spec.time_zone.empty()) return {};
    if (has_period(spec.anchor)) {
        return {"time_zone", "the anchor `" + anchor + "` is of UTC: write `anchor: " +
                                 anchor.substr(4) + "`, or remove `time_zone`"};
    }
    return {"time_zone",
            "only the anchors `day`, `week` and `month` have a time zone: add `anchor: day`, or "
            "remove `time_zone`"};
}

LimitFault fault_of(const LimitSpec& spec) {
    if (LimitFault fault = fault_of_quota(spec)) return fault;
    if (traits_of(spec.algorithm).has(kPer) &&
        (spec.duration < kDurationMin || spec.duration > kDurationMax)) {
        return out_of_range("per", "a duration of ", written(spec.duration), written(kDurationMin),
                            written(kDurationMax));
    }
    if (LimitFault fault = stray_setting(spec)) return fault;
    if (LimitFault fault = fault_of_time_zone(spec)) return fault;
    if (has_period(spec.anchor) && spec.duration != duration_of(spec.anchor)) {
        return {"per", "the anchor `" + std::string(to_string(spec.anchor)) +
                           "` says how long a window is: give no duration"};
    }
    if (spec.count == Count::by_status && spec.statuses.empty()) {
        return {"count", "write at least one status: `[401]`"};
    }
    if (LimitFault fault = fault_of_precision(spec)) return fault;
    if (LimitFault fault = fault_of_bucket(spec)) return fault;
    return fault_of_schedule(spec);
}

Micros precision_of(const LimitSpec& spec) {
    const AlgorithmTraits& traits = traits_of(spec.algorithm);
    if (traits.state == StateKind::log) return Micros{1};
    if (!traits.has(kPrecision)) return spec.duration;
    return spec.precision.value_or(default_precision(spec.duration));
}

}  // namespace

std::string algorithms_with(Setting setting, std::string_view last, std::string_view quote) {
    std::string text;
    std::size_t left = static_cast<std::size_t>(
        std::count_if(kAlgorithms.begin(), kAlgorithms.end(),
                      [&](const AlgorithmTraits& traits) { return traits.has(setting); }));
    for (const AlgorithmTraits& traits : kAlgorithms) {
        if (!traits.has(setting)) continue;
        text.append(quote).append(traits.name).append(quote);
        --left;
        if (left == 1) text.append(" ").append(last).append(" ");
        if (left > 1) text.append(", ");
    }
    return text;
}

std::string status_text(std::uint16_t status) {
    return status < kGrpcStatuses ? std::to_string(status)
                                  : "grpc:" + std::to_string(status - kGrpcStatuses);
}

bool Limit::keeps(AnswerStatus status) const {
    const auto counts = [this](int one) {
        return std::binary_search(statuses.begin(), statuses.end(), one);
    };
    if (status.http == 0 || counts(status.http)) return true;
    if (status.grpc >= 0) return counts(kGrpcStatuses + status.grpc);
    if (!counts_grpc()) return false;
    const bool counts_http = statuses.front() < kGrpcStatuses;
    return status.grpc == AnswerStatus::kGrpcUnknown || !counts_http;
}

Result<Limit, LimitFault> make_limit(const LimitSpec& given) {
    LimitSpec spec = given;
    if (has_period(spec.anchor) && spec.duration == Micros{0}) {
        spec.duration = duration_of(spec.anchor);
    }
    if (LimitFault fault = fault_of(spec)) return {boost::system::in_place_error, fault};
    Limit limit;
    limit.name = spec.name;
    limit.algorithm = spec.algorithm;
    limit.anchor = spec.anchor;
    limit.time_zone = spec.time_zone;
    limit.zone = spec.zone;
    limit.strict = spec.strict;
    limit.count = spec.count;
    limit.quota = spec.quota;
    limit.in_money = spec.in_money;
    const AlgorithmTraits& traits = limit.traits();
    limit.duration = traits.has_slots ? kSlotTime : spec.duration;
    limit.statuses = spec.statuses;
    std::sort(limit.statuses.begin(), limit.statuses.end());
    if (traits.mark_bytes > 0) {
        limit.precision = precision_of(spec);
        limit.blocks = (spec.duration - Micros{1}) / limit.precision + 1 + (spec.strict ? 1 : 0);
    }
    if (traits.has(kBurst)) {
        limit.burst = spec.burst.value_or(spec.quota);
        limit.max_delay = spec.max_delay.value_or(kDelayMax);
    }
    if (traits.has(kMoment)) {
        limit.utc_day = spec.utc_day;
        limit.forward_past = spec.forward_past;
        limit.horizon = spec.horizon.value_or(kHorizon);
    }
    if (limit.name.empty()) limit.name = default_name(limit);
    limit.id = fingerprint(limit);
    return limit;
}

Micros default_precision(Micros duration) {
    for (std::int64_t parts = 60; parts > 1; --parts) {
        if (duration.count() % parts != 0) continue;
        if (const Micros part = duration / parts; part >= Micros{1'000}) return part;
    }
    return duration;
}

void add_back(std::int64_t cost, const Limit& limit, LimitVerdict& verdict) {
    if (limit.count == Count::all) return;
    const std::int64_t full = limit.most_at_once();
    verdict.remaining = std::min(full, verdict.remaining + (limit.traits().has_slots ? 1 : cost));
    if (verdict.remaining == full) verdict.next_unit = Micros{0};
}

bool Refund::concerns(const Limit& limit) const {
    switch (of) {
        case Of::status:
            return limit.count == Count::by_status && !limit.keeps(status);
        case Of::place:
            return limit.traits().queues;
        case Of::all:
            break;
    }
    // Units that denied requests took stay taken; a schedule's moments and slots have ways of their
    // own.
    return limit.count != Count::all;
}

}  // namespace tidegate::limit
