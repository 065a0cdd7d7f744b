// One limit's count for one identifier: what sliding_window, fixed_window and sliding_log are made
// of; the windows of the calendar have a count of their own, at the end. A log is a window whose
// sub-buckets are single microseconds; only its labels are wider.
//
// The count is kept as running totals. Each sub-bucket that was used leaves a mark: the total of
// all units taken when it ended. What counts at a moment is then the difference of two totals,
// found by bisection, so that neither a denial nor a long idle time walks through expired
// sub-buckets, and asking changes nothing. lua/window.lua keeps the same record in Redis.
//
// Pure: no clock, no allocation; whoever owns a Window supplies the room for its marks and the
// lock around it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "limit/charge.hpp"
#include "limit/limit.hpp"
#include "limit/verbs.hpp"

namespace tidegate::limit {

// The latest `now` that can be decided at (the year 2112): what is added to it stays below 2^53.
inline constexpr Micros kNowMax{std::int64_t{1} << 52};

// A sub-bucket that ended. Totals and labels wrap: only differences are ever used, and those are
// smaller than the type (a quota fits 32 bits, one of money 64; kBlocksMax + 1 sub-buckets fit 16).
template <class Label, class Total = std::uint32_t>
struct MarkOf {
    Total total;  // units taken up to its end
    Label label;  // its position among the sub-buckets of this record
};

// The room of a window's marks. What it holds follows from the window: any span will do.
template <class Mark>
using Ring = std::type_identity_t<std::span<Mark>>;

// How a window stands at a moment.
struct WindowStanding {
    std::int64_t units = 0;     // that count
    Micros at{0};               // the moment as this window sees it: its time never runs backwards
    Micros next_free{0};        // when the oldest sub-bucket that counts stops; 0 if none does
    std::uint16_t expired = 0;  // marks that count no more
};

// What is counted. All zero: nothing. A sub-bucket with no units has no mark.
template <class Label, class Total = std::uint32_t>
struct WindowOf {
    Total base = 0;           // the total before the oldest sub-bucket kept
    Total total = 0;          // the total now
    Label newest = 0;         // label of the newest sub-bucket, the one that has no mark yet
    std::uint16_t first = 0;  // where the oldest mark is in the ring
    std::uint16_t marks = 0;  // sub-buckets in use, older than the newest
    std::uint16_t room = 0;   // of the ring; for whoever owns it
    // When the newest sub-bucket stops counting. It stays though its units be given back: time
    // never runs backwards.
    std::int64_t ends_us = 0;

    using Marks = Ring<MarkOf<Label, Total>>;
    using ConstMarks = Ring<const MarkOf<Label, Total>>;

    // Looks without touching. `ring` is the room of the window's marks.
    // Requires 0us <= now <= kNowMax.
    WindowStanding standing_at(ConstMarks ring, const Limit& limit, Micros now) const;
    // When `needed` of the units that count will have stopped counting if nothing is taken.
    // Requires 1 <= needed <= standing.units.
    Micros frees_at(ConstMarks ring, const Limit& limit, const WindowStanding& standing,
                    std::int64_t needed) const;
    // How many marks the ring must have room for if units are taken now.
    std::size_t marks_after_take(ConstMarks ring, const Limit& limit,
                                 const WindowStanding& standing) const;
    // Takes `units` at standing.at and forgets what has expired. Requires units >= 1, units that
    // keep the count within limit.most_counted(), room for marks_after_take(), and a standing of
    // this very window.
    void take(Marks ring, const Limit& limit, const WindowStanding& standing, std::int64_t units);
    // Gives back up to `units` of what the sub-bucket of `at` holds, if it still counts. Where time
    // had run ahead, units taken at `at` are in a later sub-bucket: then too much is counted, never
    // too little. Same requirements as standing_at().
    void give_back(Marks ring, const Limit& limit, Micros at, std::int64_t units, Micros now);
};

using Mark = MarkOf<std::uint16_t>;  // of sliding_window and fixed_window
using Window = WindowOf<std::uint16_t>;
using LogMark = MarkOf<std::uint64_t>;  // of sliding_log
using Log = WindowOf<std::uint64_t>;
using WideMark = MarkOf<std::uint16_t, std::uint64_t>;  // of limits that count money
using WideWindow = WindowOf<std::uint16_t, std::uint64_t>;

// How long a sub-bucket counts from its beginning; of a period, the longest.
constexpr Micros span_of(const Limit& limit) {
    return limit.blocks * limit.precision;
}

// When a sub-bucket in which units are taken at `at` stops counting, if `at` is the first moment
// that it is used; of a limit that follows the calendar, the end of the period. Requires a limit of
// windows.
Micros end_for(const Limit& limit, Micros at);

// When the sub-bucket or period began that stops counting at `ends`.
Micros begin_for(const Limit& limit, Micros ends);

// The most marks a window of that limit ever has. A sliding_log that counts the denied ones too may
// hold more units than its quota; its oldest go when those that stay deny everything by themselves.
std::size_t marks_max(const Limit& limit);

// What a client sees of the limit. `share` is the quota that holds here; `taken` is 0 for a
// request that is denied.
LimitVerdict verdict_of(const Limit& limit, const WindowStanding& standing, Micros now,
                        std::int64_t share, std::int64_t taken);

// What this process admitted while Redis was away: for each sub-bucket its units.
struct UnreportedPortions {
    // A sub-bucket by its beginning; where the first request opens it, by that. The beginning of a
    // day, week or month is by the wall clock, all else by the steady one.
    struct Portion {
        Micros began{0};
        std::int64_t units = 0;
    };

    void take(const Limit& limit, std::int64_t units, const Now& at);
    // Takes out what is still here of units that were taken at `at`, by the steady clock. Where the
    // wall clock was set meanwhile, a day, week or month may keep them.
    void give_back(const Limit& limit, std::int64_t units, Micros at, const Now& now);
    void add_later(const Limit& limit, const UnreportedPortions& later);
    Micros ends(const Limit& limit, Micros wall_ahead) const;
    std::int64_t units() const;
    std::size_t portions() const { return all.size(); }
    void append_report(const Limit& limit, const Now& now, std::string& out) const;

    std::vector<Portion> all;  // in order of time
};

// When units of a window come free, for people. With `units`, the next of which is free at
// `next_free`, all at `all_free`; where one more does not pass it does at `passes_at`. The moments
// are looked at only where they have a meaning.
struct WindowTimes {
    std::int64_t units = 0;
    Micros next_free{0};
    Micros all_free{0};
    Micros passes_at{0};
};
LimitCount count_of_times(const WindowTimes& times, std::int64_t share, Micros now);

// What the scripts say of windows, logs and periods: units and when the next one is free; and in
// the answer to an inspection, when all are, and when one more passes.
struct WindowVerbs : CommonVerbs {
    using Standing = WindowStanding;
    using Unreported = UnreportedPortions;

    static bool passes(const Limit& limit, const Asked& asked, const WindowStanding& standing) {
        return asked.cost <= asked.share(limit) - standing.units;
    }

    static void pack_terms(const Limit& limit, Micros, Packer& out) {
        out.put_double(limit.opens_itself() ? 0 : limit.precision.count());
        out.put_double(span_of(limit).count());
    }
    static void append_refund(const Limit& limit, const Refund& refund, std::string& out);
    static bool are_possible(const Limit& limit, const StateNumbers& numbers) {
        return numbers.first <= limit.most_counted();
    }
    static ScriptAnswer answer(const ScriptQuestion& question, const StateNumbers& numbers);
    static void take_units(const Limit& limit, Micros now, std::int64_t cost,
                           StateNumbers& numbers);
    static bool is_possible(const Limit& limit, const InspectedNumbers& numbers) {
        return numbers[0] <= limit.most_counted();
    }
    static LimitCount count_of(const Limit& limit, const InspectedNumbers& numbers, Micros now);
};

// sliding_window, fixed_window; sliding_log with wide labels; money with wide totals.
template <class Label, class Total = std::uint32_t>
class WindowCount : public WindowVerbs {
  public:
    WindowStanding look(const Limit& limit, const Asked& asked) const {
        return window_.standing_at(ring(), limit, asked.now.steady);
    }
    Micros retry(const Limit& limit, const Asked& asked, const WindowStanding& standing) const;
    static LimitVerdict verdict_of(const Limit& limit, const Asked& asked,
                                   const WindowStanding& standing, std::int64_t taken) {
        return limit::verdict_of(limit, standing, asked.now.steady, asked.share(limit), taken);
    }
    void reserve(const Limit& limit, const Asked&, const WindowStanding& standing) {
        const std::size_t needed = window_.marks_after_take(ring(), limit, standing);
        if (needed > window_.room) grow(limit, needed);
    }
    void take(const Limit& limit, const Asked& asked, const WindowStanding& standing) {
        const std::int64_t units = std::min(asked.cost, kMost - standing.units);
        if (units > 0) window_.take(ring(), limit, standing, units);
    }
    void give_back(const Limit& limit, const Asked& asked, Micros at) {
        window_.give_back(ring(), limit, at, asked.cost, asked.now.steady);
    }
    LimitCount count(const Limit& limit, const Asked& asked) const;
    std::int64_t ends_us(const Now&) const { return window_.ends_us; }
    // Begins to load the marks into the processor's cache.
    void load_ahead() const { __builtin_prefetch(marks_.get()); }
    void save(CountsWriter& out) const;
    void load(CountsReader& in);
    double weight(const Limit& limit, const Asked& asked) const {
        return weight_of(
            static_cast<std::int64_t>(static_cast<Total>(window_.total - window_.base)),
            asked.share(limit), limit);
    }

  private:
    static constexpr std::int64_t kMost = sizeof(Total) > sizeof(std::uint32_t) ? kMoneyCountedMax
                                                                                : kQuotaMax;

    std::span<MarkOf<Label, Total>> ring() const { return {marks_.get(), window_.room}; }
    void grow(const Limit& limit, std::size_t needed);

    WindowOf<Label, Total> window_;
    std::unique_ptr<MarkOf<Label, Total>[]> marks_;
};

// Days, weeks and months: the windows of the anchors that follow the calendar, and the count of
// one.
//
// Which period it is the wall clock says, and that clock steps. The time of a count never runs
// backwards all the same:
// - A wall clock that is set forward begins the period that it says, with a whole quota.
// - One that is set back within the period changes nothing but when the period ends.
// - One that is set back to before the period leaves the units where they are: until the wall clock
//   has come to the end of that period, or the time that was left of it when its first unit was
//   taken has passed by the steady clock. So neither steps back and forth bring a second quota, nor
//   does a clock that was years ahead lock a client out for longer than a period.
//
// Pure: no clock.

// Half-open, in microseconds since 1970.
struct Period {
    Micros begins;
    Micros ends;

    bool operator==(const Period&) const = default;
};

// The period that holds `at`. A week begins on Monday. Leap years count as in the Gregorian
// calendar; leap seconds do not exist in Unix time. In a time zone a period begins with the first
// moment of its first day (TimeZone::begin_of), so days have 23 to 25 hours, or what the zone makes
// of them. Requires limit.follows_calendar().
Period period_at(const Limit& limit, Micros at);

// The units of the newest period in which some were taken. All zero: none ever.
struct PeriodUnits {
    std::int64_t begins_us = 0;  // of the period, by the wall clock
    std::int64_t opened_us = 0;  // when its first unit was taken, by the steady clock
    std::uint32_t length_s = 0;  // of the period
    std::uint32_t left_ms = 0;   // of it when it was opened, rounded up
    std::int64_t units = 0;

    Micros begins() const { return Micros{begins_us}; }
    Micros ends() const { return begins() + std::chrono::seconds{length_s}; }
    // When it has ended though the wall clock has been set back; by the steady clock.
    Micros latest() const { return Micros{opened_us} + std::chrono::milliseconds{left_ms}; }

    bool operator==(const PeriodUnits&) const = default;
};

// Looks without touching. The times of the answer are the wall clock's.
WindowStanding standing_at(const PeriodUnits& count, const Now& now);

// Takes `units` at `now`. Requires units that keep the count within limit.most_counted(), at least
// one unless it is full, and a standing of this very count at `now`.
void take(PeriodUnits& count, const Limit& limit, const WindowStanding& standing, const Now& now,
          std::int64_t units);

// Gives back up to `units` that were taken at `at`, by the steady clock, if the period of then is
// still the one that counts.
void give_back(PeriodUnits& count, Micros at, std::int64_t units, const Now& now);

// When nothing counts any more, by the steady clock; as the clocks differ now.
Micros end_of(const PeriodUnits& count, const Now& now);

// Whether a refund or a report names a period of the limit by its end. A day of UTC it does not:
// that lies on the grid of its duration.
inline bool is_named_by_end(const Limit& limit) {
    return limit.follows_calendar() && !limit.is_on_grid();
}

// fixed_window with an anchor of the calendar.
class PeriodCount : public WindowVerbs {
  public:
    WindowStanding look(const Limit&, const Asked& asked) const {
        return standing_at(count_, asked.now);
    }
    static Micros retry(const Limit& limit, const Asked& asked, const WindowStanding& standing);
    static LimitVerdict verdict_of(const Limit& limit, const Asked& asked,
                                   const WindowStanding& standing, std::int64_t taken) {
        return limit::verdict_of(limit, standing, asked.now.wall, asked.share(limit), taken);
    }
    static void reserve(const Limit&, const Asked&, const WindowStanding&) {}
    void take(const Limit& limit, const Asked& asked, const WindowStanding& standing) {
        // A full count takes none, but notes the moment: what was taken then may be given back.
        const std::int64_t units = std::min(asked.cost, limit.most_counted() - standing.units);
        limit::take(count_, limit, standing, asked.now, units);
    }
    void give_back(const Limit&, const Asked& asked, Micros at) {
        limit::give_back(count_, at, asked.cost, asked.now);
    }
    LimitCount count(const Limit& limit, const Asked& asked) const;
    std::int64_t ends_us(const Now& now) const { return end_of(count_, now).count(); }
    void save(CountsWriter& out) const;
    void load(CountsReader& in);
    double weight(const Limit& limit, const Asked& asked) const {
        return weight_of(count_.units, asked.share(limit), limit);
    }

    // The script works out by itself when weeks and months of UTC end. It knows no time zones: of
    // one, the terms are when the period that holds `wall` ends, and when the next one does.
    static void pack_terms(const Limit& limit, Micros wall, Packer& out);
    static void append_refund(const Limit& limit, const Refund& refund, std::string& out);

  private:
    PeriodUnits count_;
};

}  // namespace tidegate::limit
