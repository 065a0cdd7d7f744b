#include "limit/time_zone.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "limit/bytes.hpp"

namespace tidegate::limit {
namespace {

using std::chrono::sys_days;
using std::chrono::year;

// Bounds of what a file may say; those of offsets are from RFC 9636, section 3.2.
constexpr std::uint32_t kTransitionsMax = 4'096;
constexpr std::uint32_t kTypesMax = 256;
constexpr std::uint32_t kNameBytesMax = 4'096;
constexpr std::size_t kRuleBytesMax = 256;
constexpr std::int32_t kOffsetMax = 26 * 3'600 - 1;
constexpr std::int64_t kTimeMax = std::int64_t{1} << 59;

// The rule is worked out for these years.
constexpr int kFirstYear = 1970;
constexpr int kLastYear = 2'113;

constexpr std::int64_t kDay = 86'400;

constexpr bool is_letter(char c) {
    return is_upper(c) || is_lower(c);
}

std::int64_t seconds_of(sys_days day) {
    return day.time_since_epoch().count() * kDay;
}

// Big-endian numbers.
class ZoneBytes : public ByteReader {
  public:
    using ByteReader::ByteReader;

    template <class Unsigned>
    Unsigned number() {
        const std::string_view bytes = take(sizeof(Unsigned));
        return bytes.empty() ? 0 : big_endian<Unsigned>(bytes);
    }
};

struct Header {
    char version = 0;
    std::uint32_t ut = 0, standard = 0, leaps = 0, times = 0, types = 0, letters = 0;

    // Of the data behind it, whose times have so many bytes.
    std::uint64_t data_bytes(std::uint64_t time_bytes) const {
        return (time_bytes + 1) * times + std::uint64_t{6} * types + letters +
               (time_bytes + 4) * leaps + standard + ut;
    }
};

std::optional<Header> read_header(ZoneBytes& in) {
    if (in.take(4) != "TZif") return std::nullopt;
    Header header;
    const std::string_view version = in.take(1);
    header.version = version.empty() ? '\0' : version[0];
    in.take(15);  // reserved
    for (std::uint32_t* count : {&header.ut, &header.standard, &header.leaps, &header.times,
                                 &header.types, &header.letters}) {
        *count = in.number<std::uint32_t>();
    }
    if (in.is_broken()) return std::nullopt;
    return header;
}

// When the rule changes the offset in a year: `M3.5.0/2`, `J60` or `59`, and the time of that day.
struct RuleDate {
    enum class Kind : std::uint8_t { month, julian, zero_based };
    Kind kind = Kind::month;
    unsigned month = 0, week = 0, weekday = 0;
    int day = 0;
    std::int32_t time = 2 * 3'600;  // seconds from midnight, by the clocks before the change

    std::int64_t in(int a_year) const {
        const sys_days first = year(a_year) / std::chrono::January / 1;
        switch (kind) {
            case Kind::julian: {
                // February 29 is never counted.
                const bool is_behind_leap_day = year(a_year).is_leap() && day >= 60;
                return seconds_of(first) + (day - 1 + (is_behind_leap_day ? 1 : 0)) * kDay + time;
            }
            case Kind::zero_based:
                return seconds_of(first) + day * kDay + time;
            case Kind::month:
                break;
        }
        const auto its_month = year(a_year) / std::chrono::month(month);
        const std::chrono::weekday its_weekday(weekday);
        const sys_days its_day = week == 5 ? sys_days(its_month / its_weekday[std::chrono::last])
                                           : sys_days(its_month / its_weekday[week]);
        return seconds_of(its_day) + time;
    }
};

struct Rule {
    std::int32_t standard = 0;
    std::int32_t summer = 0;
    bool has_summer = false;
    RuleDate summer_begins{};
    RuleDate summer_ends{};
};

// The POSIX TZ string, with the hours of up to a week that RFC 9636 allows in dates:
// `CET-1CEST,M3.5.0,M10.5.0/3`, `<-03>3`.
class RuleText {
  public:
    explicit RuleText(std::string_view text) : left_(text) {}

    std::optional<Rule> read() {
        Rule rule;
        if (!skip_name()) return std::nullopt;
        const auto standard = time(24);
        if (!standard) return std::nullopt;
        rule.standard = -*standard;
        if (left_.empty()) return rule;
        rule.has_summer = true;
        if (!skip_name()) return std::nullopt;
        rule.summer = rule.standard + 3'600;
        if (!left_.empty() && left_[0] != ',') {
            const auto summer = time(24);
            if (!summer) return std::nullopt;
            rule.summer = -*summer;
        }
        if (!read_date(rule.summer_begins) || !read_date(rule.summer_ends)) return std::nullopt;
        if (!left_.empty()) return std::nullopt;
        return rule;
    }

  private:
    bool skip(char sign) {
        if (left_.empty() || left_[0] != sign) return false;
        left_.remove_prefix(1);
        return true;
    }

    bool skip_name() {
        const bool is_quoted = skip('<');
        std::size_t size = 0;
        while (size < left_.size() && (is_letter(left_[size]) ||
                                       (is_quoted && (is_digit(left_[size]) || left_[size] == '+' ||
                                                      left_[size] == '-')))) {
            ++size;
        }
        left_.remove_prefix(size);
        return size >= 3 && (!is_quoted || skip('>'));
    }

    std::optional<int> number(int min, int max) {
        int value = 0;
        std::size_t digits = 0;
        while (digits < left_.size() && digits < 3 && is_digit(left_[digits])) {
            value = 10 * value + (left_[digits] - '0');
            ++digits;
        }
        left_.remove_prefix(digits);
        if (digits == 0 || value < min || value > max) return std::nullopt;
        return value;
    }

    // `[+-]hh[:mm[:ss]]`, in seconds.
    std::optional<std::int32_t> time(int hours_max) {
        const bool is_negative = skip('-');
        if (!is_negative) skip('+');
        const auto hours = number(0, hours_max);
        if (!hours) return std::nullopt;
        std::int32_t seconds = *hours * 3'600;
        for (const std::int32_t unit : {60, 1}) {
            if (!skip(':')) break;
            const auto part = number(0, 59);
            if (!part) return std::nullopt;
            seconds += *part * unit;
        }
        return is_negative ? -seconds : seconds;
    }

    bool read_date(RuleDate& date) {
        if (!skip(',')) return false;
        std::optional<int> day;
        if (skip('M')) {
            const auto month = number(1, 12);
            const auto week = month && skip('.') ? number(1, 5) : std::nullopt;
            day = week && skip('.') ? number(0, 6) : std::nullopt;
            if (!day) return false;
            date.month = static_cast<unsigned>(*month);
            date.week = static_cast<unsigned>(*week);
            date.weekday = static_cast<unsigned>(*day);
        } else {
            date.kind = skip('J') ? RuleDate::Kind::julian : RuleDate::Kind::zero_based;
            day = date.kind == RuleDate::Kind::julian ? number(1, 365) : number(0, 365);
            if (!day) return false;
            date.day = *day;
        }
        if (!skip('/')) return true;
        const auto at = time(167);
        if (at) date.time = *at;
        return at.has_value();
    }

    std::string_view left_;
};

}  // namespace

bool is_time_zone_name(std::string_view name) {
    if (name.empty() || name.size() > kTimeZoneNameMax) return false;
    bool is_in_part = false;
    for (const char letter : name) {
        const bool may_stand = is_letter(letter) || is_digit(letter) || letter == '_' ||
                               letter == '-' || letter == '+';
        if (!may_stand && !(letter == '/' && is_in_part)) return false;
        is_in_part = may_stand;
    }
    return is_in_part;
}

// Reads one file.
class TimeZone::Parser {
  public:
    explicit Parser(std::string_view bytes) : in_(bytes) {}

    // What is wrong; empty: nothing, and `changes` are those of the zone.
    std::string read() {
        const auto first = read_header(in_);
        if (!first) return "is no time zone: it does not begin as one";
        if (first->version < '2' || first->version > '4') {
            return "is of a version of TZif that Tidegate does not read: 2 to 4 are";
        }
        in_.take(first->data_bytes(4));  // the same for readers of version 1
        const auto header = read_header(in_);
        if (!header || header->version != first->version) return kBroken;
        if (header->leaps != 0) return "counts leap seconds, which Unix time does not";
        const bool is_possible = header->times <= kTransitionsMax && header->types >= 1 &&
                                 header->types <= kTypesMax && header->letters >= 1 &&
                                 header->letters <= kNameBytesMax &&
                                 (header->ut == 0 || header->ut == header->types) &&
                                 (header->standard == 0 || header->standard == header->types);
        if (!is_possible || !read_data(*header)) return kBroken;
        return read_rule();
    }

    std::vector<Change> changes;

  private:
    static constexpr const char* kBroken = "is damaged: its time zone cannot be read";

    bool read_data(const Header& header) {
        std::vector<std::int64_t> times(header.times);
        for (std::int64_t& time : times)
            time = static_cast<std::int64_t>(in_.number<std::uint64_t>());
        const std::string_view types_of_times = in_.take(header.times);
        std::vector<std::int32_t> offsets(header.types);
        for (std::int32_t& offset : offsets) {
            offset = static_cast<std::int32_t>(in_.number<std::uint32_t>());
            const std::int64_t is_summer = static_cast<unsigned char>(byte());
            const std::size_t name = static_cast<unsigned char>(byte());
            if (offset < -kOffsetMax || offset > kOffsetMax) return false;
            if (is_summer > 1 || name >= header.letters) return false;
        }
        in_.take(std::size_t{header.letters} + header.standard + header.ut);
        if (in_.is_broken()) return false;
        changes.push_back({std::numeric_limits<std::int64_t>::min(), offsets[0]});
        for (std::size_t i = 0; i < times.size(); ++i) {
            const std::size_t type = static_cast<unsigned char>(types_of_times[i]);
            const bool is_later = i == 0 || times[i] > times[i - 1];
            if (type >= offsets.size() || !is_later) return false;
            if (times[i] < -kTimeMax || times[i] > kTimeMax) return false;
            last_time_ = times[i];
            add({times[i], offsets[type]});
        }
        return true;
    }

    char byte() {
        const std::string_view one = in_.take(1);
        return one.empty() ? '\0' : one[0];
    }

    // The line behind the data.
    std::string read_rule() {
        std::string_view text = in_.left();
        if (text.size() < 2 || text.size() > kRuleBytesMax || text.front() != '\n' ||
            text.back() != '\n') {
            return kBroken;
        }
        text = text.substr(1, text.size() - 2);
        if (text.empty()) return {};
        const auto rule = RuleText(text).read();
        if (!rule) return "has a rule for the years to come that cannot be read";
        const std::int32_t last = changes.back().offset;
        if (last != rule->standard && (!rule->has_summer || last != rule->summer)) {
            return "has a rule for the years to come that does not follow the years before";
        }
        if (rule->has_summer) follow(*rule);
        return {};
    }

    void follow(const Rule& rule) {
        // Time, whether summer begins, offset. At one moment the end of a summer comes before the
        // beginning of the next: so a summer lasts all year.
        std::vector<std::tuple<std::int64_t, bool, std::int32_t>> events;
        for (int its_year = kFirstYear; its_year <= kLastYear; ++its_year) {
            events.emplace_back(rule.summer_begins.in(its_year)-rule.standard, true, rule.summer);
            events.emplace_back(rule.summer_ends.in(its_year)-rule.summer, false, rule.standard);
        }
        std::sort(events.begin(), events.end());
        for (const auto& [at, begins_summer, offset] : events) {
            if (at > last_time_) add({at, offset});
        }
    }

    void add(Change change) {
        if (changes.back().at == change.at) changes.pop_back();
        if (changes.empty() || changes.back().offset != change.offset) changes.push_back(change);
    }

    ZoneBytes in_;
    std::int64_t last_time_ = std::numeric_limits<std::int64_t>::min();
};

Result<TimeZone, std::string> TimeZone::parse(std::string_view bytes) {
    Parser parser(bytes);
    std::string fault = parser.read();
    if (!fault.empty()) return fault;
    return TimeZone(std::move(parser.changes));
}

std::size_t TimeZone::index_at(std::int64_t at) const {
    const auto later =
        std::upper_bound(changes_.begin() + 1, changes_.end(), at,
                         [](std::int64_t time, const Change& change) { return time < change.at; });
    return static_cast<std::size_t>(later - changes_.begin()) - 1;
}

std::int32_t TimeZone::offset_at(std::int64_t at) const {
    return changes_[index_at(at)].offset;
}

std::int64_t TimeZone::begin_of(sys_days local_day) const {
    const std::int64_t midnight = seconds_of(local_day);
    // At no offset does the day begin earlier.
    std::int64_t from = midnight - kOffsetMax;
    for (std::size_t i = index_at(from);; ++i) {
        const std::int64_t begins = std::max(from, midnight - changes_[i].offset);
        if (i + 1 == changes_.size() || begins < changes_[i + 1].at) return begins;
        from = changes_[i + 1].at;
    }
}

}  // namespace tidegate::limit
