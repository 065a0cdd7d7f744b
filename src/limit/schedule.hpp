// Moments that were accepted for one identifier, and whether one more fits among them.
//
// A request names the moment it is meant for. It fits if every half-open window of one duration
// around it holds at most the quota with it, on both sides: exactly one duration apart is no
// conflict, and midnight is no boundary. With `utc_day` the day of UTC is the only window.
//
// Both stores decide by the same rules:
// - The moment counts as no earlier than the time: t = max(moment, now), where `now` is at least
//   that of the newest request that was recorded.
// - With `forward_past`, a moment before the asker's own `now` does not concern the limit: it is
//   neither asked nor recorded, and has all of the quota remaining.
// - A cost of n is n moments at t. Of 0: passes if no window around t holds more than the quota.
// - Moments are kept while a window could hold both them and t.
//
// Pure: no clock, no allocation. `moments` are microseconds since the epoch, in order, and several
// may be equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "limit/charge.hpp"
#include "limit/limit.hpp"

namespace tidegate::limit {

// Whether the limit is asked at all.
constexpr bool concerns_moment(const Limit& limit, Micros moment, Micros now) {
    return !limit.forward_past || moment >= now;
}

// The most that any of the limit's windows around `at` holds.
std::int64_t busiest(std::span<const std::int64_t> moments, const Limit& limit, Micros at);

// The first moment from `from` on where `cost` more fit in a quota of `share`; kNever if they never
// do. Requires cost >= 1.
Micros earliest_fit(std::span<const std::int64_t> moments, const Limit& limit, std::int64_t share,
                    Micros from, std::int64_t cost);

// How many of the moments, counted from the oldest, no moment from `now` on can meet in a window.
std::size_t past(std::span<const std::int64_t> moments, const Limit& limit, Micros now);

// Until when a moment may matter.
Micros end_of_moment(const Limit& limit, Micros moment);

// What a client sees: what is left around its moment. When a unit comes free is a question that
// a schedule does not have: next_unit is 0.
LimitVerdict verdict_of_schedule(std::int64_t busiest, std::int64_t share, std::int64_t taken);

}  // namespace tidegate::limit
