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
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "limit/limit.hpp"
#include "limit/window.hpp"

namespace tidegate::limit {

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
