#include "limit/schedule.hpp"

#include <algorithm>
#include <cassert>

namespace tidegate::limit {
namespace {

constexpr std::int64_t kDayUs = 86'400'000'000;

std::int64_t day_of(std::int64_t moment) {
    return moment - moment % kDayUs;
}

std::int64_t busiest_of_day(std::span<const std::int64_t> moments, std::int64_t at) {
    const auto first = std::lower_bound(moments.begin(), moments.end(), day_of(at));
    return std::lower_bound(first, moments.end(), day_of(at) + kDayUs) - first;
}

// Whole days that are full are skipped one by one; each holds at least a moment.
std::int64_t first_day_that_fits(std::span<const std::int64_t> moments, std::int64_t room,
                                 std::int64_t from) {
    while (busiest_of_day(moments, from) > room) from = day_of(from) + kDayUs;
    return from;
}

// The first moment from `from` on that meets no more than `room` others in any window. A run of
// room + 1 others within less than a duration forbids all that a window could hold with them.
std::int64_t first_that_fits(std::span<const std::int64_t> moments, std::int64_t duration,
                             std::int64_t room, std::int64_t from) {
    const auto run = static_cast<std::size_t>(room);  // from the first of a run to its last
    const auto begin = std::upper_bound(moments.begin(), moments.end(), from - duration);
    for (auto i = static_cast<std::size_t>(begin - moments.begin()); i + run < moments.size();
         ++i) {
        const std::int64_t first = moments[i];
        const std::int64_t last = moments[i + run];
        if (from <= last - duration) break;  // all runs after this one begin too late, too
        if (last - first < duration && from < first + duration) from = first + duration;
    }
    return from;
}

}  // namespace

std::int64_t busiest(std::span<const std::int64_t> moments, const Limit& limit, Micros at) {
    if (limit.utc_day) return busiest_of_day(moments, at.count());
    const std::int64_t duration = limit.duration.count();
    const auto begin = std::upper_bound(moments.begin(), moments.end(), at.count() - duration);
    // A window around `at` loses nothing when it is moved to where its first moment is, or to
    // `at`, whichever is earlier: only these need a look.
    auto end = std::lower_bound(begin, moments.end(), at.count());
    std::int64_t most = 0;
    for (auto first = begin; first != moments.end() && *first < at.count(); ++first) {
        while (end != moments.end() && *end - *first < duration) ++end;
        most = std::max<std::int64_t>(most, end - first);
    }
    const auto from = std::lower_bound(begin, moments.end(), at.count());
    while (end != moments.end() && *end - at.count() < duration) ++end;
    return std::max<std::int64_t>(most, end - from);
}

Micros earliest_fit(std::span<const std::int64_t> moments, const Limit& limit, std::int64_t share,
                    Micros from, std::int64_t cost) {
    assert(cost >= 1);
    if (cost > share) return kNever;
    const std::int64_t room = share - cost;
    return Micros{limit.utc_day
                      ? first_day_that_fits(moments, room, from.count())
                      : first_that_fits(moments, limit.duration.count(), room, from.count())};
}

std::size_t past(std::span<const std::int64_t> moments, const Limit& limit, Micros now) {
    const auto first = std::find_if(moments.begin(), moments.end(), [&](std::int64_t moment) {
        return end_of_moment(limit, Micros{moment}) > now;
    });
    return static_cast<std::size_t>(first - moments.begin());
}

Micros end_of_moment(const Limit& limit, Micros moment) {
    return limit.utc_day ? Micros{day_of(moment.count()) + kDayUs} : moment + limit.duration;
}

LimitVerdict verdict_of_schedule(std::int64_t busiest, std::int64_t share, std::int64_t taken) {
    LimitVerdict verdict;
    verdict.remaining = std::max<std::int64_t>(0, share - busiest - taken);
    return verdict;
}

}  // namespace tidegate::limit
