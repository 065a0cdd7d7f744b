#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "limit/window.hpp"
#include "simulate/log.hpp"

namespace tidegate::simulate {

namespace {

constexpr std::int64_t kMicrosASecond = 1'000'000;
constexpr std::string_view kNoTime = "the time is not one that Tidegate can read";
constexpr std::string_view kLocalTime =
    "the time has no offset from UTC: say by --zone which time zone the log has";
constexpr std::string_view kTooFar = "the time is before 1970 or after 2100";

// A moment as it is written: seconds since 1970 as if it were UTC, a fraction, and the offset.
struct WrittenTime {
    std::int64_t seconds = 0;
    std::int64_t micros = 0;
    std::int64_t offset = 0;
    bool has_offset = false;
    bool has_fraction = false;
};

class TimeText {
  public:
    explicit TimeText(std::string_view text) : text_(text) {}

    bool take(char c) {
        if (text_.empty() || text_.front() != c) return false;
        text_.remove_prefix(1);
        return true;
    }
    bool take_number(std::size_t digits, int& number) {
        if (text_.size() < digits) return false;
        number = 0;
        for (std::size_t i = 0; i < digits; ++i) {
            if (!is_digit(text_[i])) return false;
            number = number * 10 + (text_[i] - '0');
        }
        text_.remove_prefix(digits);
        return true;
    }
    bool take_month(int& month) {
        constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
        if (text_.size() < 3) return false;
        const std::size_t at = kMonths.find(text_.substr(0, 3));
        if (at == kMonths.npos || at % 3 != 0) return false;
        month = static_cast<int>(at / 3) + 1;
        text_.remove_prefix(3);
        return true;
    }
    // HH:MM:SS, and a fraction behind `.` or `,`.
    bool take_clock(WrittenTime& out) {
        int hour = 0;
        int minute = 0;
        int second = 0;
        if (!take_number(2, hour) || !take(':') || !take_number(2, minute) || !take(':') ||
            !take_number(2, second) || hour > 23 || minute > 59 || second > 60) {
            return false;
        }
        out.seconds += hour * 3'600 + minute * 60 + second;
        if (text_.empty() || (text_.front() != '.' && text_.front() != ',')) return true;
        text_.remove_prefix(1);
        if (text_.empty() || !is_digit(text_.front())) return false;
        out.has_fraction = true;
        std::int64_t unit = kMicrosASecond / 10;
        for (; !text_.empty() && is_digit(text_.front()); text_.remove_prefix(1), unit /= 10) {
            out.micros += (text_.front() - '0') * unit;
        }
        return true;
    }
    // Nothing, `Z`, `+0100` or `+01:00`, with a space before it.
    bool take_offset(WrittenTime& out) {
        (void)take(' ');
        if (text_.empty()) return true;
        out.has_offset = true;
        if (take('Z') || take('z')) return text_.empty();
        const bool west = text_.front() == '-';
        int hour = 0;
        int minute = 0;
        if (!take('-') && !take('+')) return false;
        if (!take_number(2, hour)) return false;
        (void)take(':');
        if (!take_number(2, minute) || hour > 23 || minute > 59) return false;
        const int seconds = hour * 3'600 + minute * 60;
        out.offset = west ? -seconds : seconds;
        return text_.empty();
    }

  private:
    std::string_view text_;
};

bool add_day(int year, int month, int day, WrittenTime& out) {
    const std::chrono::year_month_day date{std::chrono::year{year},
                                           std::chrono::month{static_cast<unsigned>(month)},
                                           std::chrono::day{static_cast<unsigned>(day)}};
    if (!date.ok()) return false;
    out.seconds += std::chrono::sys_days{date}.time_since_epoch().count() * std::int64_t{86'400};
    return true;
}

// `29/Nov/2026:10:00:00 +0100`.
bool read_common(std::string_view text, WrittenTime& out) {
    TimeText rest(text);
    int year = 0;
    int month = 0;
    int day = 0;
    return rest.take_number(2, day) && rest.take('/') && rest.take_month(month) && rest.take('/') &&
           rest.take_number(4, year) && rest.take(':') && add_day(year, month, day, out) &&
           rest.take_clock(out) && rest.take_offset(out);
}

// `2026-11-29T10:00:00+01:00`, `2026/11/29 10:00:00`.
bool read_iso(std::string_view text, WrittenTime& out) {
    TimeText rest(text);
    int year = 0;
    int month = 0;
    int day = 0;
    const char mark = text.size() > 4 ? text[4] : '-';
    if (mark != '-' && mark != '/') return false;
    return rest.take_number(4, year) && rest.take(mark) && rest.take_number(2, month) &&
           rest.take(mark) && rest.take_number(2, day) && add_day(year, month, day, out) &&
           (rest.take('T') || rest.take('t') || rest.take(' ')) && rest.take_clock(out) &&
           rest.take_offset(out);
}

LogTime checked(std::int64_t micros, bool is_whole_second) {
    if (micros < 0 || micros > limit::kNowMax.count()) return {.fault = kTooFar};
    return {Micros{micros}, is_whole_second, {}};
}

// By how much later the clocks of the zone show that time again, which they show first `offset`
// seconds ahead of UTC. 0: they show it once.
std::int64_t shown_again_after(const limit::TimeZone& zone, std::int64_t shown,
                               std::int64_t offset) {
    const std::int64_t after = zone.offset_at(shown + 86'400);
    const bool is_shown = zone.offset_at(shown - offset) == offset;
    return after < offset && is_shown && zone.offset_at(shown - after) == after ? offset - after
                                                                                : 0;
}

// The unit of a number follows from its size: seconds from 1970 to 5138, then milliseconds, and so
// on.
LogTime read_unix(std::string_view text) {
    constexpr std::size_t kDigitsMax = 19;
    constexpr std::size_t kDigitsOfSeconds = 11;
    std::int64_t whole = 0;
    std::size_t digits = 0;
    for (; digits < text.size() && is_digit(text[digits]); ++digits) {
        if (digits == kDigitsMax) return {.fault = kNoTime};
        if (whole > (INT64_MAX - 9) / 10) return {.fault = kNoTime};
        whole = whole * 10 + (text[digits] - '0');
    }
    if (digits == 0) return {.fault = kNoTime};
    std::string_view rest = text.substr(digits);
    std::int64_t nanos = 0;  // billionths of the unit
    bool has_fraction = false;
    if (rest.starts_with('.')) {
        has_fraction = true;
        rest.remove_prefix(1);
        std::int64_t unit = 100'000'000;
        for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1), unit /= 10) {
            nanos += (rest.front() - '0') * unit;
        }
    }
    if (!rest.empty()) return {.fault = kNoTime};
    if (digits <= kDigitsOfSeconds) {
        return checked(whole * kMicrosASecond + nanos / 1'000, !has_fraction);
    }
    if (digits <= kDigitsOfSeconds + 3) return checked(whole * 1'000 + nanos / 1'000'000, false);
    if (digits <= kDigitsOfSeconds + 5) return checked(whole, false);
    return checked(whole / 1'000, false);
}

}  // namespace

LogTime read_log_time(std::string_view text, const limit::TimeZone* zone) {
    WrittenTime written;
    const bool is_common = text.size() > 2 && text[2] == '/';
    const bool is_iso = !is_common && text.size() > 10 && (text[4] == '-' || text[4] == '/');
    if (!is_common && !is_iso) return read_unix(text);
    if (!(is_common ? read_common(text, written) : read_iso(text, written))) {
        return {.fault = kNoTime};
    }
    std::int64_t again_after = 0;
    if (!written.has_offset) {
        if (zone == nullptr) return {.fault = kLocalTime};
        // Where the clocks show a time twice, the first; where they skip it, the moment after.
        const std::int64_t before = zone->offset_at(written.seconds - 86'400);
        written.offset = before;
        const std::int64_t there = zone->offset_at(written.seconds - before);
        if (there != before) written.offset = there;
        again_after = shown_again_after(*zone, written.seconds, written.offset);
    }
    LogTime time = checked((written.seconds - written.offset) * kMicrosASecond + written.micros,
                           !written.has_fraction);
    if (again_after > 0) time.again = time.at + std::chrono::seconds{again_after};
    return time;
}

namespace {

// Takes digits off `text`, 12 at most.
std::optional<std::int64_t> take_digits(std::string_view& text) {
    constexpr std::size_t kDigitsMax = 12;
    std::int64_t whole = 0;
    std::size_t digits = 0;
    for (; digits < text.size() && is_digit(text[digits]); ++digits) {
        if (digits == kDigitsMax) return std::nullopt;
        whole = whole * 10 + (text[digits] - '0');
    }
    if (digits == 0) return std::nullopt;
    text.remove_prefix(digits);
    return whole;
}

// Takes what is before the seconds in `1h2m3.5s`, as programs in Go write it. Its seconds.
std::optional<std::int64_t> take_hours_and_minutes(std::string_view& text) {
    std::int64_t seconds = 0;
    constexpr std::int64_t kHoursMax = 1'000'000;
    for (const auto& [unit, worth] : {std::pair{'h', 3'600}, std::pair{'m', 60}}) {
        std::string_view rest = text;
        const auto count = take_digits(rest);
        const bool is_unit = count && rest.size() > 1 && rest[0] == unit && is_digit(rest[1]);
        if (!is_unit) continue;
        if (*count > kHoursMax) return std::nullopt;
        seconds += *count * worth;
        text = rest.substr(1);
    }
    return seconds;
}

}  // namespace

std::optional<std::int64_t> read_log_duration(std::string_view text) {
    std::string_view rest = text;
    const auto minutes = take_hours_and_minutes(rest);
    const bool has_minutes = rest.size() < text.size();
    const auto whole = take_digits(rest);
    if (!minutes || !whole) return std::nullopt;
    double value = static_cast<double>(*minutes + *whole);
    if (rest.starts_with('.')) {
        rest.remove_prefix(1);
        double unit = 0.1;
        for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1), unit /= 10) {
            value += (rest.front() - '0') * unit;
        }
    }
    double scale = 0;
    if (rest.empty() || rest == "s") scale = 1e6;
    if (rest == "ms") scale = 1e3;
    if (rest == "us" || rest == "µs") scale = 1;
    if (rest == "ns") scale = 1e-3;
    if (scale == 0 || (has_minutes && rest != "s")) return std::nullopt;
    return std::llround(value * scale);
}

}  // namespace tidegate::simulate
