// These thresholds decide which measured values of a Redis are a warning or a fault: its version
// and product, its clock, and how long decisions take.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "base/units.hpp"
#include "doctor/examinations.hpp"

namespace tidegate::doctor {

namespace {

constexpr microseconds kClockOffsetMax{1'000'000};
// Before it, scripts may not write once they have asked for the time.
constexpr int kOldestMajor = 5;
constexpr int kFullMajor = 6;

std::string milliseconds_text(microseconds time) {
    return fmt::format("{:.2f} ms", static_cast<double>(time.count()) / 1e3);
}

std::string seconds_text(microseconds time) {
    return fmt::format("{:.3f} s", static_cast<double>(std::abs(time.count())) / 1e6);
}

}  // namespace

std::optional<Version> parse_version(std::string_view text) {
    const std::size_t dot = text.find('.');
    const auto major = parse_decimal(text.substr(0, dot));
    if (dot == text.npos || !major || *major > 1'000) return std::nullopt;
    const std::string_view rest = text.substr(dot + 1);
    const auto minor = parse_decimal(rest.substr(0, rest.find_first_not_of("0123456789")));
    if (!minor || *minor > 1'000'000) return std::nullopt;
    return Version{static_cast<int>(*major), static_cast<int>(*minor), shown_version(text)};
}

std::string shown_version(std::string_view text) {
    constexpr std::size_t kShownMax = 32;
    constexpr std::string_view kMay =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.+_-";
    return std::string(text.substr(0, std::min(kShownMax, text.find_first_not_of(kMay))));
}

void check_version(const Version& version, Findings& findings) {
    const std::string text = "Redis " + version.text;
    if (version.major < kOldestMajor) {
        findings.fault("redis.version",
                       text + ": its scripts may not write once they know the time",
                       "use Redis 6.0 or later (5.0 will do)");
    } else if (version.major < kFullMajor) {
        findings.note("redis.version",
                      text +
                          ": no users with rights of their own, and one or two commands more "
                          "where a state keeps its TTL (no KEEPTTL)",
                      "use Redis 6.0 or later");
    } else {
        findings.ok("redis.version", text);
    }
}

namespace {

struct KnownProduct {
    std::string_view only_here;  // a field of INFO that no other product has
    std::string_view version;    // the field with its version
    std::string_view name;
    bool is_supported = false;
};
// Redis comes last, as most of the others also say a `redis_version`.
constexpr KnownProduct kProducts[] = {
    {"valkey_version", "valkey_version", "Valkey", true},
    {"dragonfly_version", "dragonfly_version", "Dragonfly"},
    {"garnet_version", "garnet_version", "Garnet"},
    {"kvrocks_version", "kvrocks_version", "Kvrocks"},
    {"redict_version", "redict_version", "Redict"},
    {"mvcc_depth", "redis_version", "KeyDB"},
    {"redis_version", "redis_version", "Redis", true},
};

}  // namespace

ServerProduct product_of(const std::function<std::string_view(std::string_view)>& field) {
    for (const KnownProduct& known : kProducts) {
        if (field(known.only_here).empty()) continue;
        return {known.name, field(known.version), known.is_supported};
    }
    return {{}, {}, false};
}

void check_product(const ServerProduct& product, const std::string& shown, Findings& findings) {
    constexpr const char* kInstead =
        "use Redis 7 or 8, or Valkey 8, on which Tidegate's tests run; the findings below say "
        "what works on this server today";
    if (product.name.empty()) {
        findings.warning("redis.server",
                         "its INFO names neither Redis nor Valkey, and no other known server",
                         kInstead);
    } else if (!product.is_supported) {
        findings.warning("redis.server",
                         fmt::format("it is {}{}{}, neither Redis nor Valkey: Tidegate is "
                                     "not tested with it",
                                     product.name, shown.empty() ? "" : " ", shown),
                         kInstead);
    } else if (product.name != "Redis") {
        findings.ok("redis.version", fmt::format("{} {}", product.name, shown));
    }
}

void check_clock(microseconds offset, microseconds accuracy, bool local_clock, Findings& findings) {
    const bool is_off = std::abs(offset.count()) - accuracy.count() > kClockOffsetMax.count();
    const std::string text =
        fmt::format("its clock is {} {} ours (+/- {})", seconds_text(offset),
                    offset.count() < 0 ? "behind" : "ahead of", milliseconds_text(accuracy));
    if (!is_off) {
        findings.ok("redis.clock", text);
        return;
    }
    findings.warning(
        "redis.clock", text,
        local_clock ? "synchronise the clocks (NTP): with `clock: local`, each Tidegate counts by "
                      "its own clock, and two that differ see windows end at different times"
                    : "synchronise the clocks (NTP): limits use Redis's clock, `schedule` and "
                      "tokens use ours, and a failover to another server changes the time");
}

TripTimes percentiles_of(std::vector<microseconds> times) {
    std::sort(times.begin(), times.end());
    // The smallest that at least so many in a hundred do not exceed.
    const auto at = [&](std::size_t percent) {
        return times[(times.size() * percent + 99) / 100 - 1];
    };
    return {at(50), at(99), times.back()};
}

void check_latency(std::size_t decisions, const TripTimes& times, milliseconds timeout,
                   Findings& findings) {
    const std::string text = fmt::format(
        "{} decisions: half within {}, 99 % within {}, the slowest {}; the timeout is {}",
        decisions, milliseconds_text(times.p50), milliseconds_text(times.p99),
        milliseconds_text(times.max), format_duration(timeout));
    constexpr std::string_view kAdvice =
        "bring Redis nearer, see its SLOWLOG and LATENCY, or raise store.redis.timeout";
    if (times.p50 > timeout) {
        findings.fault("redis.latency", text + ": most decisions would time out",
                       std::string(kAdvice));
    } else if (times.p99 > timeout / 2) {
        findings.warning("redis.latency", text, std::string(kAdvice));
    } else {
        findings.ok("redis.latency", text);
    }
}

std::string size_text(std::uint64_t bytes) {
    constexpr std::array<std::string_view, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
    auto number = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (number >= 1024 && unit + 1 < kUnits.size()) {
        number /= 1024;
        ++unit;
    }
    return unit == 0 ? fmt::format("{} bytes", bytes)
                     : fmt::format("{:.1f} {}", number, kUnits[unit]);
}

}  // namespace tidegate::doctor
