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
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "limit/charge.hpp"
#include "limit/limit.hpp"
#include "limit/verbs.hpp"

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

// The moments of a schedule as scripts list them (lua/schedule.lua).
struct ListedMoments {
    Micros asked_for{0};                  // those that cannot matter from then on are left out
    std::vector<std::int64_t> moments{};  // in order, several may be equal
    bool are_all = true;                  // else there are later ones
};

// False if this is no list of moments; `list` is then unspecified.
bool read_moments(PackedReader& reader, ListedMoments& list);
// How the schedule stands at `now`, for people.
LimitCount count_of_moments(const ListedMoments& list, const Limit& limit, Micros now);

// How a schedule stands around the moment of a request.
struct ScheduleStanding {
    bool concerned = true;  // false: the moment is past, and past moments are not counted
    Micros at{0};
    std::int64_t busiest = 0;
};

// The scripts say the units in the fullest window around the moment.
class ScheduleCount : public CommonVerbs {
  public:
    using Standing = ScheduleStanding;

    ScheduleStanding look(const Limit& limit, const Asked& asked) const;
    bool passes(const Limit& limit, const Asked& asked, const ScheduleStanding& standing) const;
    static Micros retry(const Limit&, const Asked&, const ScheduleStanding&) { return kNever; }
    static LimitVerdict verdict_of(const Limit& limit, const Asked& asked,
                                   const ScheduleStanding& standing, std::int64_t taken);
    void reserve(const Limit& limit, const Asked& asked, const ScheduleStanding& standing);
    void take(const Limit& limit, const Asked& asked, const ScheduleStanding& standing);
    void give_back(const Limit& limit, const Asked& asked, Micros at);
    LimitCount count(const Limit& limit, const Asked& asked) const;
    std::int64_t ends_us(const Now& now) const { return now.steady_at(Micros{ends_us_}).count(); }
    void save(CountsWriter& out) const;
    void load(CountsReader& in);
    double weight(const Limit& limit, const Asked& asked) const;

    static std::optional<Micros> moment(const ScheduleStanding& standing) {
        return standing.concerned ? std::optional(standing.at) : std::nullopt;
    }
    Micros earliest(const Limit& limit, const Asked& asked, Micros from) const;

    static void pack_terms(const Limit& limit, Micros wall, Packer& out);
    static void append_request(const Limit& limit, const Charge& charge, std::string& out);
    static void append_refund(const Limit& limit, const Refund& refund, std::string& out);
    static bool are_possible(const Limit&, const StateNumbers& numbers) {
        return numbers.first <= kQuotaMax;
    }
    static ScriptAnswer answer(const ScriptQuestion& question, const StateNumbers& numbers);
    static bool is_possible(const Limit&, const InspectedNumbers&) { return true; }
    // What is counted is made of the moments, which inspect.lua lists behind all numbers.
    static LimitCount count_of(const Limit&, const InspectedNumbers&, Micros) { return {}; }

  private:
    std::size_t taken_of(const Asked& asked) const;
    static std::int64_t share(const Limit& limit, const Asked& asked);
    std::int64_t newest_at(const Limit& limit, const Now& now) const;

    // All by the wall clock.
    std::vector<std::int64_t> moments_;  // in order
    std::int64_t newest_us_ = 0;         // when the newest was asked for
    std::int64_t ends_us_ = 0;
    // By the steady clock: when the newest was asked for, if that was in this process.
    std::int64_t asked_us_ = 0;
};

}  // namespace tidegate::limit
