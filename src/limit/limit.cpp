#include "limit/limit.hpp"

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

// What the limit is, without its quota, and without what follows from the rest by itself.
std::string default_name(const Limit& limit) {
    std::string name = written(limit.duration);
    if (limit.algorithm == Algorithm::fixed_window) {
        name += limit.anchor == Anchor::clock ? "-fixed" : "-fixed-first_request";
    } else if (limit.precision != default_precision(limit.duration)) {
        name += "-by-" + written(limit.precision);
    }
    if (limit.strict) name += "-strict";
    return name;
}

std::uint32_t fingerprint(const Limit& limit) {
    Fingerprint print;
    print.add(limit.name);
    print.add(static_cast<std::int64_t>(limit.algorithm));
    print.add(limit.duration.count());
    print.add(limit.precision.count());
    print.add(limit.strict ? 1 : 0);
    print.add(static_cast<std::int64_t>(limit.anchor));
    print.add("admitted");  // what is counted; other ways of counting are other limits
    return print.value();
}

// Empty when nothing is wrong.
std::string fault_of(const LimitSpec& spec) {
    if (spec.quota < 0 || spec.quota > kQuotaMax) {
        return "a quota of " + std::to_string(spec.quota) + " is out of range: 0 to " +
               std::to_string(kQuotaMax);
    }
    if (spec.duration < kDurationMin || spec.duration > kDurationMax) {
        return "the duration is out of range: " + written(kDurationMin) + " to " +
               written(kDurationMax);
    }
    if (spec.algorithm == Algorithm::fixed_window) {
        if (spec.precision) return "fixed_window has no precision: it counts whole windows";
        if (spec.strict) return "fixed_window cannot be strict: use sliding_window";
        return {};
    }
    if (spec.anchor != Anchor::clock) return "anchor is for fixed_window only";
    if (!spec.precision) return {};
    if (*spec.precision < Micros{1} || *spec.precision > spec.duration) {
        return "the precision must be at least 1us and at most the duration, " +
               written(spec.duration);
    }
    const std::int64_t blocks = (spec.duration - Micros{1}) / *spec.precision + 1;
    if (blocks > kBlocksMax) {
        return "the precision makes " + std::to_string(blocks) + " sub-buckets; at most " +
               std::to_string(kBlocksMax) + " are counted, so at least " +
               written((spec.duration - Micros{1}) / kBlocksMax + Micros{1});
    }
    return {};
}

}  // namespace

Result<Limit, std::string> make_limit(const LimitSpec& spec) {
    if (std::string fault = fault_of(spec); !fault.empty())
        return {boost::system::in_place_error, fault};
    Limit limit{.name = spec.name,
                .algorithm = spec.algorithm,
                .anchor = spec.anchor,
                .strict = spec.strict,
                .quota = spec.quota,
                .duration = spec.duration,
                .precision = spec.duration,
                .blocks = 1,
                .id = 0,
                .named = !spec.name.empty()};
    if (spec.algorithm == Algorithm::sliding_window) {
        limit.precision = spec.precision.value_or(default_precision(spec.duration));
        limit.blocks = (spec.duration - Micros{1}) / limit.precision + 1 + (spec.strict ? 1 : 0);
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
