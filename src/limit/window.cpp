#include "limit/window.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <iterator>
#include <limits>

#include "limit/time_zone.hpp"

namespace tidegate::limit {

namespace {

template <class Label, class Total>
std::size_t index_of(const WindowOf<Label, Total>& window, std::size_t room, std::size_t position) {
    const std::size_t index = window.first + position;
    return index < room ? index : index - room;
}

template <class Label, class Total>
const MarkOf<Label, Total>& mark_at(const WindowOf<Label, Total>& window,
                                    Ring<const MarkOf<Label, Total>> ring, std::size_t position) {
    return ring[index_of(window, ring.size(), position)];
}

template <class Label, class Total>
Label age_of(const WindowOf<Label, Total>& window, Label label) {
    return static_cast<Label>(window.newest - label);
}

// When a sub-bucket of that label stops counting.
template <class Label, class Total>
Micros end_of(const WindowOf<Label, Total>& window, const Limit& limit, Label label) {
    return Micros{window.ends_us} -
           static_cast<std::int64_t>(age_of(window, label)) * limit.precision;
}

// The first of the marks [from, window.marks) for which `reached` holds; they are ordered by time.
template <class Label, class Total, class Reached>
std::size_t first_mark(const WindowOf<Label, Total>& window, Ring<const MarkOf<Label, Total>> ring,
                       std::size_t from, Reached reached) {
    std::size_t low = from;
    std::size_t high = window.marks;
    while (low < high) {
        const std::size_t middle = (low + high) / 2;
        if (reached(mark_at(window, ring, middle))) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// The total when the sub-bucket at `position` began; window.marks is the newest.
template <class Label, class Total>
Total total_before(const WindowOf<Label, Total>& window, Ring<const MarkOf<Label, Total>> ring,
                   std::size_t position) {
    return position == 0 ? window.base : mark_at(window, ring, position - 1).total;
}

// As end_for(), for windows that do not follow the calendar.
Micros end_on_grid(const Limit& limit, Micros at) {
    return (limit.opens_itself() ? at : at - at % limit.precision) + span_of(limit);
}

// Apart, so that verdict_of() need not save registers for a call that it seldom makes.
[[gnu::noinline, gnu::cold]] Micros end_of_period(const Limit& limit, Micros at) {
    return period_at(limit, at).ends;
}

// Whether units taken at `at` belong to the newest sub-bucket. Requires that it still counts.
template <class Label, class Total>
bool newest_is_current(const WindowOf<Label, Total>& window, const Limit& limit, Micros at) {
    return end_on_grid(limit, at) == Micros{window.ends_us} || limit.opens_itself();
}

template <class Label, class Total>
bool newest_has_units(const WindowOf<Label, Total>& window, Ring<const MarkOf<Label, Total>> ring) {
    return window.total != total_before(window, ring, window.marks);
}

template <class Label, class Total>
void forget(WindowOf<Label, Total>& window, Ring<const MarkOf<Label, Total>> ring,
            std::size_t expired) {
    if (expired == 0) return;
    window.base = mark_at(window, ring, expired - 1).total;
    window.first = static_cast<std::uint16_t>((window.first + expired) % ring.size());
    window.marks = static_cast<std::uint16_t>(window.marks - expired);
}

template <class Label, class Total>
void add_mark(WindowOf<Label, Total>& window, Ring<MarkOf<Label, Total>> ring, const Limit& limit) {
    if (window.marks == marks_max(limit)) forget(window, ring, 1);
    assert(window.marks < ring.size());
    ring[index_of(window, ring.size(), window.marks)] = {window.total, window.newest};
    ++window.marks;
}

// Where the units taken at `at` are: the position of a mark, window.marks for the newest, more
// than that if nowhere.
template <class Label, class Total>
std::size_t position_of(const WindowOf<Label, Total>& window, Ring<const MarkOf<Label, Total>> ring,
                        const Limit& limit, Micros at) {
    const std::size_t nowhere = window.marks + 1U;
    const Micros ends{window.ends_us};
    if (limit.opens_itself()) {
        return at >= ends - span_of(limit) && at < ends ? window.marks : nowhere;
    }
    const Micros end = end_on_grid(limit, at);
    if (end >= ends) return end == ends ? window.marks : nowhere;
    const std::size_t position = first_mark(window, ring, 0, [&](const MarkOf<Label, Total>& mark) {
        return end_of(window, limit, mark.label) >= end;
    });
    if (position == window.marks) return nowhere;
    return end_of(window, limit, mark_at(window, ring, position).label) == end ? position : nowhere;
}

using Portion = UnreportedPortions::Portion;

// The first portion that began at `began` or later.
auto first_from(std::vector<Portion>& portions, Micros began) {
    return std::lower_bound(
        portions.begin(), portions.end(), began,
        [](const Portion& portion, Micros from) { return portion.began < from; });
}

// When the sub-bucket began that units taken at `at` are in; of a window that its first request
// opens, `at`.
Micros beginning(const Limit& limit, const Now& at) {
    if (limit.follows_calendar()) return period_at(limit, at.wall).begins;
    return limit.opens_itself() ? at.steady : at.steady - at.steady % limit.precision;
}

// The portion that units are in whose sub-bucket began at `began`; portions.end() if there is none.
auto portion_from(std::vector<Portion>& portions, const Limit& limit, Micros began) {
    if (limit.opens_itself()) {
        const auto later = first_from(portions, began + Micros{1});
        if (later == portions.begin()) return portions.end();
        return std::prev(later)->began + span_of(limit) > began ? std::prev(later) : portions.end();
    }
    const auto found = first_from(portions, began);
    return found != portions.end() && found->began == began ? found : portions.end();
}

void forget_the_oldest(std::vector<Portion>& portions, const Limit& limit, Micros now) {
    const auto counts = first_from(portions, now - span_of(limit) + Micros{1});
    const auto most = static_cast<std::ptrdiff_t>(marks_max(limit)) + 1;
    const auto kept = std::min<std::ptrdiff_t>(portions.end() - counts, most);
    portions.erase(portions.begin(), portions.end() - kept);
}

void add_portion(std::vector<Portion>& portions, const Limit& limit, Micros began,
                 std::int64_t units) {
    const std::int64_t most = limit.most_counted();
    const auto portion = portion_from(portions, limit, began);
    if (portion == portions.end()) {
        portions.insert(first_from(portions, began), {began, std::min(units, most)});
        forget_the_oldest(portions, limit, portions.back().began);
        return;
    }
    portion->units += std::min(units, most - portion->units);
}

// What names a sub-bucket to report.lua. It compares the steady clock with that of Redis, so that
// it knows days of UTC, too, by when they began; other periods it knows by their end.
Micros name_of(const Portion& portion, const Limit& limit, const Now& now) {
    if (is_named_by_end(limit)) return period_at(limit, portion.began).ends;
    return limit.follows_calendar() ? now.steady_at(portion.began) : portion.began;
}

}  // namespace

Micros end_for(const Limit& limit, Micros at) {
    return limit.follows_calendar() ? end_of_period(limit, at) : end_on_grid(limit, at);
}

Micros begin_for(const Limit& limit, Micros ends) {
    if (limit.follows_calendar()) return period_at(limit, ends - Micros{1}).begins;
    return ends - span_of(limit);
}

template <class Label, class Total>
WindowStanding WindowOf<Label, Total>::standing_at(ConstMarks ring, const Limit& limit,
                                                   Micros now) const {
    assert(now >= Micros{0} && now <= kNowMax);
    const Micros ends{ends_us};
    WindowStanding standing;
    standing.at = std::max(now, ends - span_of(limit));
    if (ends <= now || total == base) return standing;

    const auto counts = [&](const MarkOf<Label, Total>& mark) {
        return end_of(*this, limit, mark.label) > standing.at;
    };
    std::size_t expired = 0;
    // Nearly always nothing or little has expired: look there first.
    if (marks > 0 && !counts(mark_at(*this, ring, 0))) {
        expired = first_mark(*this, ring, 1, counts);
    }
    standing.units =
        static_cast<std::int64_t>(static_cast<Total>(total - total_before(*this, ring, expired)));
    standing.expired = static_cast<std::uint16_t>(expired);
    if (standing.units == 0) return standing;
    standing.next_free =
        expired < marks ? end_of(*this, limit, mark_at(*this, ring, expired).label) : ends;
    return standing;
}

template <class Label, class Total>
Micros WindowOf<Label, Total>::frees_at(ConstMarks ring, const Limit& limit,
                                        const WindowStanding& standing, std::int64_t needed) const {
    assert(needed >= 1 && needed <= standing.units);
    const auto before = static_cast<Total>(total - static_cast<Total>(standing.units));
    const std::size_t position =
        first_mark(*this, ring, standing.expired, [&](const MarkOf<Label, Total>& mark) {
            return static_cast<std::int64_t>(static_cast<Total>(mark.total - before)) >= needed;
        });
    if (position == marks) return Micros{ends_us};
    return end_of(*this, limit, mark_at(*this, ring, position).label);
}

std::size_t marks_max(const Limit& limit) {
    const std::int64_t most = limit.blocks - 1;
    if (limit.state() != StateKind::log) return static_cast<std::size_t>(most);
    return static_cast<std::size_t>(std::min(most, kLogQuotaMax));
}

template <class Label, class Total>
std::size_t WindowOf<Label, Total>::marks_after_take(ConstMarks ring, const Limit& limit,
                                                     const WindowStanding& standing) const {
    if (standing.units == 0) return 0;
    const auto kept = static_cast<std::size_t>(marks - standing.expired);
    if (newest_is_current(*this, limit, standing.at) || !newest_has_units(*this, ring)) {
        return kept;
    }
    return std::min(kept + 1, marks_max(limit));
}

template <class Label, class Total>
void WindowOf<Label, Total>::take(Marks ring, const Limit& limit, const WindowStanding& standing,
                                  std::int64_t units) {
    assert(units >= 1 && standing.units + units <= limit.most_counted());
    const Micros ends = end_on_grid(limit, standing.at);
    if (standing.units == 0) {
        base = total;
        first = 0;
        marks = 0;
        ends_us = ends.count();
    } else {
        forget(*this, ring, standing.expired);
        if (!newest_is_current(*this, limit, standing.at)) {
            if (newest_has_units(*this, ring)) add_mark(*this, ring, limit);
            const auto gap = (ends.count() - ends_us) / limit.precision.count();
            newest = static_cast<Label>(newest + static_cast<std::uint64_t>(gap));
            ends_us = ends.count();
        }
    }
    total += static_cast<Total>(units);
}

template <class Label, class Total>
void WindowOf<Label, Total>::give_back(Marks ring, const Limit& limit, Micros at,
                                       std::int64_t units, Micros now) {
    const WindowStanding standing = standing_at(ring, limit, now);
    if (standing.units == 0) return;
    const std::size_t position = position_of(*this, ring, limit, at);
    if (position < standing.expired || position > marks) return;
    const bool is_newest = position == marks;
    const Total begin = total_before(*this, ring, position);
    const Total end = is_newest ? total : mark_at(*this, ring, position).total;
    const auto held = static_cast<Total>(end - begin);
    const auto given = static_cast<Total>(std::min(units, static_cast<std::int64_t>(held)));
    total -= given;
    // Every later mark has the total without them, and an empty sub-bucket none at all.
    const std::size_t gone = !is_newest && given == held ? 1 : 0;
    for (std::size_t i = position + gone; i < marks; ++i) {
        MarkOf<Label, Total> mark = mark_at(*this, ring, i);
        mark.total -= given;
        ring[index_of(*this, ring.size(), i - gone)] = mark;
    }
    marks = static_cast<std::uint16_t>(marks - gone);
}

LimitVerdict verdict_of(const Limit& limit, const WindowStanding& standing, Micros now,
                        std::int64_t share, std::int64_t taken) {
    LimitVerdict verdict;
    verdict.remaining = std::max<std::int64_t>(0, share - standing.units - taken);
    if (standing.units > 0) {
        verdict.next_unit = standing.next_free - now;
    } else if (taken > 0) {
        verdict.next_unit = end_for(limit, standing.at) - now;
    }
    return verdict;
}

template struct WindowOf<std::uint16_t>;
template struct WindowOf<std::uint64_t>;
template struct WindowOf<std::uint16_t, std::uint64_t>;

LimitCount count_of_times(const WindowTimes& times, std::int64_t share, Micros now) {
    LimitCount count;
    count.counted = times.units;
    count.remaining = std::max<std::int64_t>(0, share - times.units);
    if (times.units > 0) {
        count.next_unit = times.next_free - now;
        count.all_free = times.all_free - now;
    }
    count.denied = times.units >= share;
    if (count.denied) count.denied_for = share > 0 ? times.passes_at - now : kNever;
    return count;
}

void UnreportedPortions::take(const Limit& limit, std::int64_t units, const Now& at) {
    add_portion(all, limit, beginning(limit, at), units);
}

void UnreportedPortions::give_back(const Limit& limit, std::int64_t units, Micros at,
                                   const Now& now) {
    const Now then{at, now.wall_at(at)};
    const auto portion = portion_from(all, limit, beginning(limit, then));
    if (portion == all.end()) return;
    portion->units -= std::min(units, portion->units);
    if (portion->units == 0) all.erase(portion);
}

void UnreportedPortions::add_later(const Limit& limit, const UnreportedPortions& later) {
    for (const Portion& portion : later.all) add_portion(all, limit, portion.began, portion.units);
}

Micros UnreportedPortions::ends(const Limit& limit, Micros wall_ahead) const {
    if (all.empty()) return Micros{0};
    const Micros end = end_for(limit, all.back().began);
    return limit.follows_calendar() ? end - wall_ahead : end;
}

std::int64_t UnreportedPortions::units() const {
    std::int64_t units = 0;
    for (const Portion& portion : all) units += portion.units;
    return units;
}

void UnreportedPortions::append_report(const Limit& limit, const Now& now, std::string& out) const {
    append_packed(static_cast<std::uint16_t>(all.size()), out);
    for (const Portion& portion : all) {
        append_double(name_of(portion, limit, now).count(), out);
        if (limit.is_wide()) {
            append_double(portion.units, out);
        } else {
            append_packed(static_cast<std::uint32_t>(portion.units), out);
        }
    }
}

void WindowVerbs::append_refund(const Limit& limit, const Refund& refund, std::string& out) {
    append_double(limit.opens_itself() ? 0 : limit.precision.count(), out);
    append_double(span_of(limit).count(), out);
    append_double(refund.charge.cost, out);
}

ScriptAnswer WindowVerbs::answer(const ScriptQuestion& question, const StateNumbers& numbers) {
    const std::int64_t quota = question.limit.quota;
    WindowStanding standing;
    standing.units = numbers.first;
    standing.next_free = Micros{numbers.second};
    standing.at = question.now;
    // Where nothing counts the script tells when the newest sub-bucket ends: time never runs back.
    if (standing.units == 0) {
        standing.at = std::max(question.now, begin_for(question.limit, standing.next_free));
    }
    ScriptAnswer answer;
    answer.verdict =
        limit::verdict_of(question.limit, standing, question.now, quota, question.taken);
    answer.passes_now = standing.units + question.cost <= quota;
    // The script counts no further than that: there the denial may have left units == quota.
    const bool is_over = standing.units > quota || standing.units == question.limit.most_counted();
    answer.verdict.denied = question.counted_denial ? is_over : !answer.passes_now;
    answer.retry = question.cost > quota ? kNever : question.windows_admit_at - question.now;
    return answer;
}

void WindowVerbs::take_units(const Limit& limit, Micros now, std::int64_t cost,
                             StateNumbers& numbers) {
    if (numbers.first == 0) {
        WindowStanding nothing;
        nothing.at = now;
        const LimitVerdict verdict = limit::verdict_of(limit, nothing, now, limit.quota, cost);
        numbers.second = (now + verdict.next_unit).count();
    }
    numbers.first += std::min(cost, limit.most_counted() - numbers.first);
}

LimitCount WindowVerbs::count_of(const Limit& limit, const InspectedNumbers& numbers, Micros now) {
    return count_of_times({numbers[0], Micros{numbers[1]}, Micros{numbers[2]}, Micros{numbers[3]}},
                          limit.quota, now);
}

template <class Label, class Total>
Micros WindowCount<Label, Total>::retry(const Limit& limit, const Asked& asked,
                                        const WindowStanding& standing) const {
    const std::int64_t share = asked.share(limit);
    if (asked.cost > share) return kNever;
    const std::int64_t over = asked.cost - (share - standing.units);
    return window_.frees_at(ring(), limit, standing, over) - asked.now.steady;
}

template <class Label, class Total>
void WindowCount<Label, Total>::grow(const Limit& limit, std::size_t needed) {
    const std::size_t room = window_.room;
    const std::size_t larger =
        std::max(needed, std::min(marks_max(limit), room == 0 ? 4 : 2 * room));
    auto copy = std::make_unique<MarkOf<Label, Total>[]>(larger);
    for (std::size_t i = 0; i < window_.marks; ++i) copy[i] = marks_[(window_.first + i) % room];
    marks_ = std::move(copy);
    window_.room = static_cast<std::uint16_t>(larger);
    window_.first = 0;
}

template <class Label, class Total>
LimitCount WindowCount<Label, Total>::count(const Limit& limit, const Asked& asked) const {
    const WindowStanding standing = look(limit, asked);
    const std::int64_t share = asked.share(limit);
    WindowTimes times;
    times.units = standing.units;
    times.next_free = standing.next_free;
    if (standing.units > 0) {
        times.all_free = window_.frees_at(ring(), limit, standing, standing.units);
    }
    if (share > 0 && !passes(limit, asked, standing)) {
        times.passes_at = asked.now.steady + retry(limit, asked, standing);
    }
    return count_of_times(times, share, asked.now.steady);
}

template <class Label, class Total>
void WindowCount<Label, Total>::save(CountsWriter& out) const {
    out.number(std::uint64_t{window_.base});
    out.number(std::uint64_t{window_.total});
    out.number(std::uint64_t{window_.newest});
    out.number(window_.ends_us);
    out.number(std::uint64_t{window_.marks});
    for (std::size_t i = 0; i < window_.marks; ++i) {
        const auto& mark = marks_[(window_.first + i) % window_.room];
        out.number(std::uint64_t{mark.total});
        out.number(std::uint64_t{mark.label});
    }
}

template <class Label, class Total>
void WindowCount<Label, Total>::load(CountsReader& in) {
    window_ = {};
    window_.base = static_cast<Total>(in.number());
    window_.total = static_cast<Total>(in.number());
    window_.newest = static_cast<Label>(in.number());
    window_.ends_us = in.time_us();
    window_.marks = static_cast<std::uint16_t>(
        std::min<std::size_t>(in.count(16), std::numeric_limits<std::uint16_t>::max()));
    window_.room = window_.marks;
    marks_ = std::make_unique<MarkOf<Label, Total>[]>(window_.room);
    for (std::size_t i = 0; i < window_.marks; ++i) {
        marks_[i].total = static_cast<Total>(in.number());
        marks_[i].label = static_cast<Label>(in.number());
    }
}

template class WindowCount<std::uint16_t>;
template class WindowCount<std::uint64_t>;
template class WindowCount<std::uint16_t, std::uint64_t>;

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
