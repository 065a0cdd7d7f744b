#include "simulate/log.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "limit/window.hpp"

namespace tidegate::simulate {

namespace {

constexpr std::int64_t kMicros = 1'000'000;

// What is kept of a request: this, the sizes of its texts and values, the numbers but for status
// and duration if there are any, then the texts.
struct Kept {
    std::int64_t time;
    std::int64_t duration_us;
    std::int16_t status;
    std::uint8_t is_whole_second;
    std::uint8_t is_end;
    std::uint8_t has_numbers;
    std::uint8_t has_address;
    IpAddress address;
    std::uint16_t values;
    std::array<std::uint16_t, kLogTexts> sizes;
};

constexpr std::size_t kFirstRareNumber = 2;
static_assert(static_cast<std::size_t>(LogNumber::status) == 0 &&
              static_cast<std::size_t>(LogNumber::duration_us) == 1);

template <class Value>
char* put(char* to, const Value& value) {
    std::memcpy(to, &value, sizeof(value));
    return to + sizeof(value);
}

char* put(char* to, std::string_view text) {
    if (!text.empty()) std::memcpy(to, text.data(), text.size());
    return to + text.size();
}

template <class Value>
const char* get(const char* from, Value& value) {
    std::memcpy(&value, from, sizeof(value));
    return from + sizeof(value);
}

void append(const LoggedRequest& request, std::vector<char>& bytes) {
    Kept kept{};
    kept.time = request.time.count();
    kept.duration_us = request.number(LogNumber::duration_us);
    kept.status = static_cast<std::int16_t>(
        std::clamp<std::int64_t>(request.number(LogNumber::status), -1, 999));
    kept.is_whole_second = request.is_whole_second ? 1 : 0;
    kept.is_end = request.is_end ? 1 : 0;
    const auto* const rare = request.numbers.data() + kFirstRareNumber;
    const auto* const end = request.numbers.data() + kLogNumbers;
    kept.has_numbers =
        std::any_of(rare, end, [](std::int64_t one) { return one != LoggedRequest::kUnknown; });
    kept.has_address = request.address ? 1 : 0;
    kept.address = request.address.value_or(IpAddress{});
    kept.values = static_cast<std::uint16_t>(request.values.size());
    std::size_t size = sizeof(Kept) + request.values.size() * sizeof(std::uint16_t);
    if (kept.has_numbers != 0) size += static_cast<std::size_t>(end - rare) * sizeof(*rare);
    for (std::size_t i = 0; i < kLogTexts; ++i) {
        kept.sizes[i] = static_cast<std::uint16_t>(request.texts[i].size());
        size += request.texts[i].size();
    }
    for (const std::string_view value : request.values) size += value.size();
    const std::size_t begin = bytes.size();
    bytes.resize(begin + size);
    char* to = put(bytes.data() + begin, kept);
    for (const std::string_view value : request.values) {
        to = put(to, static_cast<std::uint16_t>(value.size()));
    }
    if (kept.has_numbers != 0) {
        for (const auto* number = rare; number != end; ++number) to = put(to, *number);
    }
    for (const std::string_view text : request.texts) to = put(to, text);
    for (const std::string_view value : request.values) to = put(to, value);
}

void read_back(const char* from, LoggedRequest& request) {
    Kept kept;
    from = get(from, kept);
    request.time = Micros{kept.time};
    request.is_whole_second = kept.is_whole_second != 0;
    request.is_end = kept.is_end != 0;
    request.numbers.fill(LoggedRequest::kUnknown);
    request.number(LogNumber::status) = kept.status;
    request.number(LogNumber::duration_us) = kept.duration_us;
    request.address.reset();
    if (kept.has_address != 0) request.address = kept.address;
    request.values.resize(kept.values);
    const char* const sizes = from;
    from += request.values.size() * sizeof(std::uint16_t);
    if (kept.has_numbers != 0) {
        for (std::size_t i = kFirstRareNumber; i < kLogNumbers; ++i) {
            from = get(from, request.numbers[i]);
        }
    }
    for (std::size_t i = 0; i < kLogTexts; ++i) {
        request.texts[i] = {from, kept.sizes[i]};
        from += kept.sizes[i];
    }
    for (std::size_t i = 0; i < request.values.size(); ++i) {
        std::uint16_t size = 0;
        get(sizes + i * sizeof(size), size);
        request.values[i] = {from, size};
        from += size;
    }
}

}  // namespace

LogOrder::LogOrder(UseRequests release, std::int64_t seconds, std::size_t bytes_max)
    : release_(std::move(release)),
      window_(std::clamp<std::int64_t>(seconds, 1, kOrderSecondsMax)),
      bytes_max_(bytes_max),
      seconds_(std::bit_ceil(static_cast<std::size_t>(window_) + 2)) {}

bool LogOrder::add(const LoggedRequest& request) {
    const std::int64_t second = request.time.count() / kMicros;
    if (newest_ < 0) newest_ = oldest_ = second;
    if (second < newest_ - window_) return false;
    if (second > newest_) {
        hand_out_before(second - window_);
        newest_ = second;
    }
    oldest_ = std::min(oldest_, second);
    Second& to = second_at(second);
    const std::size_t before = to.bytes.size();
    to.places.push_back({request.time.count(), before});
    append(request, to.bytes);
    if (request.is_whole_second) ++to.whole;
    bytes_ += to.bytes.size() - before + sizeof(Place);
    // All but the newest seconds go early where too many requests would wait.
    for (; bytes_ > bytes_max_ && oldest_ <= newest_; ++oldest_) hand_out(oldest_);
    return true;
}

void LogOrder::hand_out_before(std::int64_t second) {
    const std::int64_t end = std::min(second, newest_ + 1);
    for (; oldest_ < end; ++oldest_) hand_out(oldest_);
    oldest_ = std::max(oldest_, second);
}

void LogOrder::finish() {
    if (newest_ >= 0) hand_out_before(newest_ + 1);
    newest_ = -1;
}

void LogOrder::hand_out(std::int64_t second) {
    Second& of = second_at(second);
    if (of.places.empty()) return;
    if (of.whole > 0) {
        std::int64_t number = 0;
        const auto count = static_cast<std::int64_t>(of.whole);
        for (Place& place : of.places) {
            Kept kept;
            get(of.bytes.data() + place.offset, kept);
            if (kept.is_whole_second != 0) place.time += number++ * kMicros / count;
        }
    }
    const auto earlier = [](const Place& a, const Place& b) { return a.time < b.time; };
    if (!std::is_sorted(of.places.begin(), of.places.end(), earlier)) {
        std::stable_sort(of.places.begin(), of.places.end(), earlier);
    }
    for (std::size_t next = 0; next < of.places.size();) {
        const std::size_t count = std::min(requests_.size(), of.places.size() - next);
        for (std::size_t i = 0; i < count; ++i) {
            const Place& place = of.places[next++];
            read_back(of.bytes.data() + place.offset, requests_[i]);
            requests_[i].time = Micros{place.time};
            requests_[i].is_whole_second = false;
        }
        release_(std::span(requests_).first(count));
    }
    bytes_ -= of.bytes.size() + of.places.size() * sizeof(Place);
    of.bytes.clear();
    of.places.clear();
    of.whole = 0;
}

// Times, as logs write them.
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
