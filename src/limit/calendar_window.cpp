#include "limit/calendar_window.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>

#include "limit/time_zone.hpp"

namespace tidegate::limit {
namespace {

using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::weeks;

// The days of a period: its first, and that of the next one.
struct Dates {
    sys_days first;
    sys_days next;
};

Dates week_of(sys_days today) {
    const sys_days monday = today - (std::chrono::weekday(today) - std::chrono::Monday);
    return {monday, monday + weeks{1}};
}

Dates month_of(sys_days today) {
    const std::chrono::year_month_day date(today);
    const auto month = date.year() / date.month();
    const auto next = month + std::chrono::months{1};
    return {month / 1, next / 1};
}

Dates dates_of(Anchor anchor, sys_days today) {
    switch (anchor) {
        case Anchor::utc_day:
        case Anchor::day:
            return {today, today + days{1}};
        case Anchor::utc_week:
        case Anchor::week:
            return week_of(today);
        default:
            return month_of(today);
    }
}

Period period_in(const TimeZone& zone, Anchor anchor, Micros at) {
    using std::chrono::seconds;
    const std::int64_t at_s = std::chrono::floor<seconds>(at).count();
    const seconds local{at_s + zone.offset_at(at_s)};
    Dates dates = dates_of(anchor, std::chrono::floor<days>(std::chrono::sys_seconds(local)));
    // Clocks that go back over midnight show the day before again; it has ended all the same.
    while (zone.begin_of(dates.next) <= at_s) dates = dates_of(anchor, dates.next);
    return {seconds{zone.begin_of(dates.first)}, seconds{zone.begin_of(dates.next)}};
}

// When the period of `at` ends, negative, and when the next one does.
struct Ends {
    std::int64_t present_us;
    std::int64_t next_us;
};

Ends ends_at(const Limit& limit, Micros at) {
    const Micros ends = period_at(limit, at).ends;
    return {-ends.count(), period_at(limit, ends).ends.count()};
}

}  // namespace

Period period_at(const Limit& limit, Micros at) {
    assert(limit.follows_calendar());
    if (limit.zone != nullptr) return period_in(*limit.zone, limit.anchor, at);
    const auto [first, next] =
        dates_of(limit.anchor, std::chrono::floor<days>(std::chrono::sys_time<Micros>(at)));
    return {first.time_since_epoch(), next.time_since_epoch()};
}

WindowStanding standing_at(const PeriodUnits& count, const Now& now) {
    const bool is_ahead = now.wall < count.begins();
    const Micros left = count.latest() - now.steady;
    WindowStanding standing;
    standing.at = now.wall;
    if (is_ahead && left <= Micros{0}) return standing;
    standing.at = std::max(now.wall, count.begins());
    if (count.units == 0 || now.wall >= count.ends()) return standing;
    standing.units = count.units;
    standing.next_free = is_ahead ? std::min(count.ends(), now.wall + left) : count.ends();
    return standing;
}

void take(PeriodUnits& count, const Limit& limit, const WindowStanding& standing, const Now& now,
          std::int64_t units) {
    assert((units >= 1 || standing.units > 0) && standing.units + units <= limit.most_counted());
    using std::chrono::ceil;
    using std::chrono::floor;
    using std::chrono::milliseconds;
    using std::chrono::seconds;
    const Period period =
        standing.units == 0 ? period_at(limit, standing.at) : Period{count.begins(), count.ends()};
    if (period != Period{count.begins(), count.ends()}) {
        count.begins_us = period.begins.count();
        count.length_s =
            static_cast<std::uint32_t>(floor<seconds>(period.ends - period.begins).count());
        count.opened_us = now.steady.count();
        count.left_ms =
            static_cast<std::uint32_t>(ceil<milliseconds>(period.ends - standing.at).count());
        count.units = 0;
    } else if (now.steady.count() < count.opened_us && now.wall >= count.begins()) {
        // A thread that read the clock before the one that opened the period.
        const auto earlier = ceil<milliseconds>(Micros{count.opened_us} - now.steady);
        count.left_ms += static_cast<std::uint32_t>(earlier.count());
        count.opened_us = now.steady.count();
    }
    count.units += units;
}

void give_back(PeriodUnits& count, Micros at, std::int64_t units, const Now& now) {
    const WindowStanding standing = standing_at(count, now);
    if (standing.units == 0 || at.count() < count.opened_us) return;
    count.units -= std::min(units, standing.units);
}

Micros end_of(const PeriodUnits& count, const Now& now) {
    const Micros by_wall = now.steady_at(count.ends());
    return now.wall < count.begins() ? std::min(by_wall, count.latest()) : by_wall;
}

Micros PeriodCount::retry(const Limit& limit, const Asked& asked, const WindowStanding& standing) {
    return asked.cost > asked.share(limit) ? kNever : standing.next_free - asked.now.wall;
}

LimitCount PeriodCount::count(const Limit& limit, const Asked& asked) const {
    const WindowStanding standing = look(limit, asked);
    return count_of_times(
        {standing.units, standing.next_free, standing.next_free, standing.next_free},
        asked.share(limit), asked.now.wall);
}

void PeriodCount::save(CountsWriter& out) const {
    out.number(count_.begins_us);
    out.number(count_.opened_us);
    out.number(std::uint64_t{count_.length_s});
    out.number(std::uint64_t{count_.left_ms});
    out.number(count_.units);
}

void PeriodCount::load(CountsReader& in) {
    count_.begins_us = in.time_us();
    count_.opened_us = in.time_us();
    count_.length_s = static_cast<std::uint32_t>(in.number());
    count_.left_ms = static_cast<std::uint32_t>(in.number());
    count_.units = in.time_us();
    if (count_.units < 0) in.refuse();
}

void PeriodCount::pack_terms(const Limit& limit, Micros wall, Packer& out) {
    if (limit.zone != nullptr) {
        const Ends ends = ends_at(limit, wall);
        out.put_double(ends.present_us);
        out.put_double(ends.next_us);
    } else if (is_named_by_end(limit)) {
        out.put_double(limit.anchor == Anchor::utc_week ? -1 : -2);
        out.put_double(0);
    } else {
        WindowVerbs::pack_terms(limit, wall, out);
    }
}

void PeriodCount::append_refund(const Limit& limit, const Refund& refund, std::string& out) {
    if (!is_named_by_end(limit)) return WindowVerbs::append_refund(limit, refund, out);
    const Ends ends = ends_at(limit, refund.receipt->at);
    append_double(ends.present_us, out);
    append_double(ends.next_us, out);
    append_double(refund.charge.cost, out);
}

}  // namespace tidegate::limit
