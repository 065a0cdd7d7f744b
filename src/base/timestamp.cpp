#include "base/timestamp.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "base/text.hpp"

namespace tidegate {

namespace {

using std::chrono::microseconds;

constexpr std::int64_t kMicrosASecond = 1'000'000;
constexpr int kSecondsADay = 86'400;
constexpr std::size_t kUnixDigitsMax = 12;  // beyond the year 9999, and far from overflow

// Takes exactly `count` digits off `text`.
bool take_digits(std::string_view& text, std::size_t count, int& number) {
    if (text.size() < count) return false;
    number = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (!is_digit(text[i])) return false;
        number = number * 10 + (text[i] - '0');
    }
    text.remove_prefix(count);
    return true;
}

bool take(std::string_view& text, std::string_view any_of) {
    if (text.empty() || any_of.find(text.front()) == any_of.npos) return false;
    text.remove_prefix(1);
    return true;
}

// `.25`, or nothing at all. A point without a digit is a fault.
bool take_fraction(std::string_view& text, std::int64_t& micros) {
    micros = 0;
    if (!take(text, ".")) return true;
    if (text.empty() || !is_digit(text.front())) return false;
    std::int64_t unit = kMicrosASecond / 10;
    for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1), unit /= 10) {
        micros += (text.front() - '0') * unit;
    }
    return true;
}

bool take_date(std::string_view& text, std::int64_t& days) {
    int year = 0;
    int month = 0;
    int day = 0;
    if (!take_digits(text, 4, year) || !take(text, "-") || !take_digits(text, 2, month) ||
        !take(text, "-") || !take_digits(text, 2, day)) {
        return false;
    }
    const std::chrono::year_month_day date{std::chrono::year{year},
                                           std::chrono::month{static_cast<unsigned>(month)},
                                           std::chrono::day{static_cast<unsigned>(day)}};
    days = std::chrono::sys_days{date}.time_since_epoch().count();
    return date.ok();
}

bool take_clock(std::string_view& text, std::int64_t& seconds) {
    int hour = 0;
    int minute = 0;
    int second = 0;
    if (!take_digits(text, 2, hour) || !take(text, ":") || !take_digits(text, 2, minute) ||
        !take(text, ":") || !take_digits(text, 2, second)) {
        return false;
    }
    seconds = std::int64_t{hour} * 3'600 + std::int64_t{minute} * 60 + second;
    return hour < 24 && minute < 60 && second < 60;
}

// `Z` or `+01:00`: what to subtract to get UTC.
bool take_offset(std::string_view& text, std::int64_t& seconds) {
    seconds = 0;
    if (take(text, "Zz")) return true;
    const bool west = text.starts_with('-');
    int hour = 0;
    int minute = 0;
    if (!take(text, "+-") || !take_digits(text, 2, hour) || !take(text, ":") ||
        !take_digits(text, 2, minute)) {
        return false;
    }
    seconds = (std::int64_t{hour} * 3'600 + std::int64_t{minute} * 60) * (west ? -1 : 1);
    return hour < 24 && minute < 60;
}

std::optional<microseconds> parse_rfc3339(std::string_view text) {
    std::int64_t days = 0;
    std::int64_t seconds = 0;
    std::int64_t micros = 0;
    std::int64_t offset = 0;
    if (!take_date(text, days) || !take(text, "Tt") || !take_clock(text, seconds) ||
        !take_fraction(text, micros) || !take_offset(text, offset) || !text.empty()) {
        return std::nullopt;
    }
    const std::int64_t since_epoch = days * kSecondsADay + seconds - offset;
    if (since_epoch < 0) return std::nullopt;
    return microseconds{since_epoch * kMicrosASecond + micros};
}

std::optional<microseconds> parse_unix(std::string_view text) {
    std::int64_t seconds = 0;
    std::size_t digits = 0;
    for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1)) {
        if (++digits > kUnixDigitsMax) return std::nullopt;
        seconds = seconds * 10 + (text.front() - '0');
    }
    std::int64_t micros = 0;
    if (digits == 0 || !take_fraction(text, micros) || !text.empty()) return std::nullopt;
    return microseconds{seconds * kMicrosASecond + micros};
}

}  // namespace

std::optional<microseconds> parse_timestamp(std::string_view text) {
    const bool dated = text.size() > 4 && text[4] == '-';
    return dated ? parse_rfc3339(text) : parse_unix(text);
}

std::string format_timestamp(microseconds moment) {
    using namespace std::chrono;
    const sys_time<microseconds> time{moment};
    const sys_days day = floor<days>(time);
    const year_month_day date{day};
    const hh_mm_ss<microseconds> clock{time - day};
    std::array<char, 64> text;
    int size = std::snprintf(
        text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
        static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
        static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
        static_cast<int>(clock.seconds().count()));
    std::string out(text.data(), static_cast<std::size_t>(size));
    if (clock.subseconds().count() != 0) {
        size = std::snprintf(text.data(), text.size(), ".%06d",
                             static_cast<int>(clock.subseconds().count()));
        out.append(text.data(), static_cast<std::size_t>(size));
    }
    return out += 'Z';
}

std::string format_day(std::chrono::system_clock::time_point moment) {
    constexpr std::string_view kDay = "2026-11-21";
    constexpr std::chrono::years kFar{250};
    const auto since = std::chrono::floor<std::chrono::seconds>(moment.time_since_epoch());
    if (since >= kFar) return "the far future";
    return format_timestamp(std::max(since, std::chrono::seconds{0})).substr(0, kDay.size());
}

void append_http_date(std::chrono::sys_seconds moment, std::string& out) {
    using namespace std::chrono;
    static constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const sys_days day = floor<days>(moment);
    const year_month_day date{day};
    const hh_mm_ss<seconds> clock{moment - day};
    std::array<char, 64> text;
    const int size = std::snprintf(
        text.data(), text.size(), "%s, %02u %s %04d %02d:%02d:%02d GMT",
        kDays.at(weekday{day}.c_encoding()), static_cast<unsigned>(date.day()),
        kMonths.at(static_cast<unsigned>(date.month()) - 1), static_cast<int>(date.year()),
        static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
        static_cast<int>(clock.seconds().count()));
    out.append(text.data(), static_cast<std::size_t>(size));
}

}  // namespace tidegate
