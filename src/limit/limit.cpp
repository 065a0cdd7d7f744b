#include "limit/limit.hpp"

#include <algorithm>
#include <array>
#include <string_view>

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

bool is_window(Algorithm algorithm) {
    return algorithm == Algorithm::sliding_window || algorithm == Algorithm::fixed_window;
}

bool is_bucket(Algorithm algorithm) {
    return algorithm == Algorithm::gcra || algorithm == Algorithm::leaky_bucket;
}

// What the limit is, without its quota, and without what follows from the rest by itself.
std::string default_name(const Limit& limit) {
    switch (limit.algorithm) {
        case Algorithm::sliding_window:
            break;
        case Algorithm::fixed_window:
            return written(limit.duration) +
                   (limit.anchor == Anchor::clock ? "-fixed" : "-fixed-first_request");
        case Algorithm::sliding_log:
            return written(limit.duration) + "-log";
        case Algorithm::gcra:
            return written(limit.duration) + "-gcra";
        case Algorithm::leaky_bucket:
            return written(limit.duration) + "-leaky";
        case Algorithm::schedule:
            return limit.utc_day ? "day-schedule" : written(limit.duration) + "-schedule";
        case Algorithm::concurrency:
            return "concurrency";
    }
    std::string name = written(limit.duration);
    if (limit.precision != default_precision(limit.duration)) {
        name += "-by-" + written(limit.precision);
    }
    return limit.strict ? name + "-strict" : name;
}

// `admitted` is left as it was written before there were other ways of counting.
std::string_view name_of(Count count) {
    switch (count) {
        case Count::admitted:
            return "admitted";
        case Count::all:
            return "all";
        case Count::by_status:
            return "by_status";
    }
    return {};
}

std::uint32_t fingerprint(const Limit& limit) {
    Fingerprint print;
    print.add(limit.name);
    print.add(static_cast<std::int64_t>(limit.algorithm));
    print.add(limit.duration.count());
    print.add(limit.precision.count());
    print.add(limit.strict || limit.utc_day ? 1 : 0);
    print.add(static_cast<std::int64_t>(limit.anchor));
    print.add(name_of(limit.count));
    for (const std::uint16_t status : limit.statuses) print.add(status);
    return print.value();
}

std::string out_of_range(std::string_view what, std::int64_t value, std::int64_t min,
                         std::int64_t max) {
    return std::string(what) + " of " + std::to_string(value) +
           " is out of range: " + std::to_string(min) + " to " + std::to_string(max);
}

// Settings that another algorithm would understand. Empty when there are none.
std::string stray_setting(const LimitSpec& spec) {
    const Algorithm algorithm = spec.algorithm;
    if (algorithm == Algorithm::fixed_window) {
        if (spec.precision) return "fixed_window has no precision: it counts whole windows";
        if (spec.strict) return "fixed_window cannot be strict: use sliding_window";
    } else {
        if (spec.anchor != Anchor::clock) return "anchor is for fixed_window only";
        if (spec.precision && algorithm != Algorithm::sliding_window) {
            return "precision is for sliding_window only";
        }
        if (spec.strict && algorithm != Algorithm::sliding_window) {
            return "strict is for sliding_window only";
        }
    }
    if (spec.burst && !is_bucket(algorithm)) return "burst is for gcra and leaky_bucket only";
    if (spec.max_delay && algorithm != Algorithm::leaky_bucket) {
        return "max_delay is for leaky_bucket only";
    }
    const bool schedules = spec.utc_day || spec.horizon || spec.forward_past;
    if (schedules && algorithm != Algorithm::schedule) {
        return "window, horizon and past are for schedule only";
    }
    if (spec.count != Count::admitted && !is_window(algorithm) &&
        algorithm != Algorithm::sliding_log && algorithm != Algorithm::gcra) {
        return "count is for windows, sliding_log and gcra only";
    }
    return {};
}

std::string fault_of_quota(const LimitSpec& spec) {
    std::int64_t least = 0;
    std::int64_t most = kQuotaMax;
    if (is_bucket(spec.algorithm)) least = 1;
    if (spec.algorithm == Algorithm::sliding_log) most = kLogQuotaMax;
    if (spec.algorithm == Algorithm::schedule) most = kScheduleQuotaMax;
    if (spec.algorithm == Algorithm::concurrency) most = kLeasesMax;
    if (spec.quota >= least && spec.quota <= most) return {};
    return out_of_range("a quota", spec.quota, least, most);
}

std::string fault_of_precision(const LimitSpec& spec) {
    if (!spec.precision) return {};
    if (*spec.precision < Micros{1} || *spec.precision > spec.duration) {
        return "the precision must be at least 1us and at most the duration, " +
               written(spec.duration);
    }
    const std::int64_t blocks = (spec.duration - Micros{1}) / *spec.precision + 1;
    if (blocks <= kBlocksMax) return {};
    return "the precision makes " + std::to_string(blocks) + " sub-buckets; at most " +
           std::to_string(kBlocksMax) + " are counted, so at least " +
           written((spec.duration - Micros{1}) / kBlocksMax + Micros{1});
}

// A full bucket must have leaked within kDurationMax: times stay exact in a script then.
std::string fault_of_bucket(const LimitSpec& spec) {
    if (!is_bucket(spec.algorithm)) return {};
    const std::int64_t burst = spec.burst.value_or(spec.quota);
    if (burst < 1 || burst > kQuotaMax) return out_of_range("a burst", burst, 1, kQuotaMax);
    __extension__ using Wide = __int128;
    if (Wide{burst} * spec.duration.count() > Wide{spec.quota} * kDurationMax.count()) {
        return "a burst of " + std::to_string(burst) + " takes longer than " +
               written(kDurationMax) + " to come back at this rate";
    }
    if (spec.max_delay && (*spec.max_delay < Micros{0} || *spec.max_delay > kDelayMax)) {
        return "max_delay is out of range: 0s to " + written(kDelayMax);
    }
    return {};
}

std::string fault_of_schedule(const LimitSpec& spec) {
    if (spec.algorithm != Algorithm::schedule) return {};
    if (spec.utc_day && spec.duration != std::chrono::hours{24}) {
        return "a window of utc_day lasts a day: `per: 1day`";
    }
    const Micros horizon = spec.horizon.value_or(kHorizon);
    if (horizon < Micros{0} || horizon > kDurationMax) {
        return "the horizon is out of range: 0s to " + written(kDurationMax);
    }
    __extension__ using Wide = __int128;
    const Wide windows = horizon / spec.duration + 2;
    if (windows * spec.quota > kMomentsMax) {
        return "within the horizon of " + written(horizon) +
               " an identifier could fill more than " + std::to_string(kMomentsMax) +
               " moments: choose a smaller quota or horizon";
    }
    return {};
}

// Empty when nothing is wrong.
std::string fault_of(const LimitSpec& spec) {
    if (std::string fault = fault_of_quota(spec); !fault.empty()) return fault;
    if (spec.algorithm != Algorithm::concurrency &&
        (spec.duration < kDurationMin || spec.duration > kDurationMax)) {
        return "the duration is out of range: " + written(kDurationMin) + " to " +
               written(kDurationMax);
    }
    if (std::string fault = stray_setting(spec); !fault.empty()) return fault;
    if (spec.count == Count::by_status && spec.statuses.empty()) {
        return "count needs at least one status";
    }
    if (std::string fault = fault_of_precision(spec); !fault.empty()) return fault;
    if (std::string fault = fault_of_bucket(spec); !fault.empty()) return fault;
    return fault_of_schedule(spec);
}

void count_in_blocks(const LimitSpec& spec, Limit& limit) {
    limit.precision = spec.duration;
    limit.blocks = 1;
    if (spec.algorithm == Algorithm::sliding_window) {
        limit.precision = spec.precision.value_or(default_precision(spec.duration));
        limit.blocks = (spec.duration - Micros{1}) / limit.precision + 1 + (spec.strict ? 1 : 0);
    } else if (spec.algorithm == Algorithm::sliding_log) {
        // A log is a window whose sub-buckets are single microseconds.
        limit.precision = Micros{1};
        limit.blocks = spec.duration.count();
    }
}

}  // namespace

bool Limit::keeps(int status) const {
    return status == 0 || std::binary_search(statuses.begin(), statuses.end(), status);
}

std::string_view name_of(Algorithm algorithm) {
    switch (algorithm) {
        case Algorithm::sliding_window:
            return "sliding_window";
        case Algorithm::fixed_window:
            return "fixed_window";
        case Algorithm::sliding_log:
            return "sliding_log";
        case Algorithm::gcra:
            return "gcra";
        case Algorithm::leaky_bucket:
            return "leaky_bucket";
        case Algorithm::schedule:
            return "schedule";
        case Algorithm::concurrency:
            return "concurrency";
    }
    return {};
}

Result<Limit, std::string> make_limit(const LimitSpec& spec) {
    if (std::string fault = fault_of(spec); !fault.empty())
        return {boost::system::in_place_error, fault};
    Limit limit;
    limit.name = spec.name;
    limit.algorithm = spec.algorithm;
    limit.anchor = spec.anchor;
    limit.strict = spec.strict;
    limit.count = spec.count;
    limit.quota = spec.quota;
    limit.duration = spec.algorithm == Algorithm::concurrency ? kLease : spec.duration;
    limit.named = !spec.name.empty();
    limit.statuses = spec.statuses;
    std::sort(limit.statuses.begin(), limit.statuses.end());
    if (is_window(spec.algorithm) || spec.algorithm == Algorithm::sliding_log) {
        count_in_blocks(spec, limit);
    } else if (is_bucket(spec.algorithm)) {
        limit.burst = spec.burst.value_or(spec.quota);
        limit.max_delay = spec.max_delay.value_or(kDelayMax);
    } else if (spec.algorithm == Algorithm::schedule) {
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

}  // namespace tidegate::limit
