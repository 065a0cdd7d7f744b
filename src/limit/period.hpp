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

#include <cstdint>

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
    std::uint32_t units = 0;

    Micros begins() const { return Micros{begins_us}; }
    Micros ends() const { return begins() + std::chrono::seconds{length_s}; }
    // When it has ended though the wall clock has been set back; by the steady clock.
    Micros latest() const { return Micros{opened_us} + std::chrono::milliseconds{left_ms}; }

    bool operator==(const PeriodUnits&) const = default;
};

// Looks without touching. The times of the answer are the wall clock's.
Standing standing_at(const PeriodUnits& count, const Now& now);

// Takes `units` at `now`. Requires units >= 1, units that keep the count within kQuotaMax, and a
// standing of this very count at `now`.
void take(PeriodUnits& count, const Limit& limit, const Standing& standing, const Now& now,
          std::int64_t units);

// Gives back up to `units` that were taken at `at`, by the steady clock, if the period of then is
// still the one that counts.
void give_back(PeriodUnits& count, Micros at, std::int64_t units, const Now& now);

// When nothing counts any more, by the steady clock; as the clocks differ now.
Micros end_of(const PeriodUnits& count, const Now& now);

}  // namespace tidegate::limit
