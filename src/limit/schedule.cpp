#include "limit/schedule.hpp"

#include <algorithm>
#include <cassert>
#include <string_view>

#include "base/text.hpp"

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

constexpr std::uint16_t kMembersMax = 4'000;  // the script lists no more

// `moment:units`
bool add_moments(std::string_view text, std::vector<std::int64_t>& moments) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return false;
    const auto moment = parse_number<std::int64_t>(text.substr(0, colon));
    const auto units = parse_number<std::int64_t>(text.substr(colon + 1));
    if (!moment || !units || *units < 1 || *units > kMomentsMax) return false;
    moments.insert(moments.end(), static_cast<std::size_t>(*units), *moment);
    return moments.size() <= 2 * static_cast<std::size_t>(kMomentsMax);
}

// `moments` in order; `at` is the earliest that a request may be meant for, at least `now`. Not
// `are_all`: later ones are missing.
LimitCount count_of_booked(std::span<const std::int64_t> moments, bool are_all, const Limit& limit,
                           std::int64_t share, Micros at, Micros now) {
    const auto booked = moments.subspan(past(moments, limit, at));
    const std::int64_t busiest = limit::busiest(booked, limit, at);
    LimitCount count;
    count.counted = static_cast<std::int64_t>(booked.size());
    count.counted_all = are_all;
    count.remaining = verdict_of_schedule(busiest, share, 0).remaining;
    if (!booked.empty() && are_all) {
        count.all_free = end_of_moment(limit, Micros{booked.back()}) - now;
    }
    count.denied = busiest >= share;
    if (count.denied) {
        const Micros earliest = earliest_fit(booked, limit, share, at, 1);
        if (earliest == kNever) {
            count.denied_for = kNever;
        } else if (are_all) {
            count.denied_for = earliest - now;
        }
    }
    for (const std::int64_t moment : booked.first(std::min(booked.size(), kMomentsTold))) {
        count.moments.emplace_back(moment);
    }
    return count;
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

bool read_moments(PackedReader& reader, ListedMoments& list) {
    list.asked_for = Micros{reader.number()};
    const auto members = reader.packed<std::uint16_t>();
    for (std::uint16_t i = 0; i < members; ++i) {
        if (!add_moments(reader.take(reader.byte()), list.moments)) return false;
    }
    list.are_all = members < kMembersMax;
    return !reader.is_broken();
}

LimitCount count_of_moments(const ListedMoments& list, const Limit& limit, Micros now) {
    return count_of_booked(list.moments, list.are_all, limit, limit.quota, list.asked_for, now);
}

ScheduleStanding ScheduleCount::look(const Limit& limit, const Asked& asked) const {
    ScheduleStanding standing;
    standing.concerned = concerns_moment(limit, asked.charge.moment, asked.now.wall);
    if (!standing.concerned) return standing;
    standing.at = std::max(asked.charge.moment, Micros{newest_at(limit, asked.now)});
    standing.busiest = limit::busiest(moments_, limit, standing.at);
    return standing;
}

// The time of the newest request, or now if that is later: time does not run backwards, unless the
// wall clock was set back by more than a window. Without that the identifier would wait until the
// old time comes again. lua/schedule.lua does the same.
std::int64_t ScheduleCount::newest_at(const Limit& limit, const Now& now) const {
    const std::int64_t wall_us = now.wall.count();
    const bool was_set_back =
        newest_us_ - wall_us > limit.duration.count() && now.steady.count() >= asked_us_;
    return was_set_back ? wall_us : std::max(wall_us, newest_us_);
}

// The store that replaces Redis does not know its moments: it cannot admit any.
std::int64_t ScheduleCount::share(const Limit& limit, const Asked& asked) {
    return asked.stands_in ? 0 : limit.quota;
}

bool ScheduleCount::passes(const Limit& limit, const Asked& asked,
                           const ScheduleStanding& standing) const {
    if (!standing.concerned) return true;
    const std::int64_t cost = asked.cost;
    if (cost == 0) return standing.busiest <= share(limit, asked);
    return cost <= share(limit, asked) - standing.busiest &&
           cost <= kMomentsMax - static_cast<std::int64_t>(moments_.size());
}

LimitVerdict ScheduleCount::verdict_of(const Limit& limit, const Asked& asked,
                                       const ScheduleStanding& standing, std::int64_t taken) {
    return verdict_of_schedule(standing.busiest, share(limit, asked),
                               standing.concerned ? taken : 0);
}

// A soft policy may ask for more than there is room for.
std::size_t ScheduleCount::taken_of(const Asked& asked) const {
    const auto room = kMomentsMax - static_cast<std::int64_t>(moments_.size());
    return static_cast<std::size_t>(std::clamp<std::int64_t>(room, 0, asked.cost));
}

void ScheduleCount::reserve(const Limit&, const Asked& asked, const ScheduleStanding& standing) {
    if (!standing.concerned) return;
    const std::size_t needed = moments_.size() + taken_of(asked);
    if (needed > moments_.capacity()) moments_.reserve(std::max(needed, 2 * moments_.size()));
}

void ScheduleCount::take(const Limit& limit, const Asked& asked, const ScheduleStanding& standing) {
    if (!standing.concerned) return;
    newest_us_ = newest_at(limit, asked.now);
    asked_us_ = std::max(asked_us_, asked.now.steady.count());
    const std::size_t gone = past(moments_, limit, Micros{newest_us_});
    moments_.erase(moments_.begin(), moments_.begin() + static_cast<std::ptrdiff_t>(gone));
    const auto place = std::upper_bound(moments_.begin(), moments_.end(), standing.at.count());
    moments_.insert(place, taken_of(asked), standing.at.count());
    if (moments_.empty()) return;
    ends_us_ = end_of_moment(limit, Micros{moments_.back()}).count();
}

void ScheduleCount::give_back(const Limit& limit, const Asked& asked, Micros at) {
    at = asked.now.wall_at(at);
    if (!concerns_moment(limit, asked.charge.moment, at)) return;
    const std::int64_t moment = std::max(asked.charge.moment, at).count();
    const auto [first, last] = std::equal_range(moments_.begin(), moments_.end(), moment);
    moments_.erase(first, first + std::min<std::ptrdiff_t>(last - first, asked.cost));
}

double ScheduleCount::weight(const Limit& limit, const Asked& asked) const {
    return weight_of(static_cast<std::int64_t>(moments_.size()), share(limit, asked), limit);
}

Micros ScheduleCount::earliest(const Limit& limit, const Asked& asked, Micros from) const {
    return earliest_fit(moments_, limit, share(limit, asked), from, asked.cost);
}

LimitCount ScheduleCount::count(const Limit& limit, const Asked& asked) const {
    const Micros at{newest_at(limit, asked.now)};
    return count_of_booked(moments_, true, limit, share(limit, asked), at, asked.now.wall);
}

void ScheduleCount::save(CountsWriter& out) const {
    out.number(newest_us_);
    out.number(ends_us_);
    out.number(std::uint64_t{moments_.size()});
    for (const std::int64_t moment : moments_) out.number(moment);
}

void ScheduleCount::load(CountsReader& in) {
    newest_us_ = in.time_us();
    ends_us_ = in.time_us();
    moments_.resize(in.count(8));
    for (std::int64_t& moment : moments_) moment = in.time_us();
    if (!std::is_sorted(moments_.begin(), moments_.end())) in.refuse();
}

void ScheduleCount::pack_terms(const Limit& limit, Micros, Packer& out) {
    out.put_double(limit.duration.count());
    out.put_double(limit.forward_past ? 1 : 0);
}

void ScheduleCount::append_request(const Limit&, const Charge& charge, std::string& out) {
    append_double(charge.moment.count(), out);
    append_double(0, out);
}

void ScheduleCount::append_refund(const Limit&, const Refund& refund, std::string& out) {
    append_double(std::max(refund.charge.moment, refund.receipt->at).count(), out);
    append_double(refund.charge.cost, out);
    append_double(0, out);
}

ScriptAnswer ScheduleCount::answer(const ScriptQuestion& question, const StateNumbers& numbers) {
    const std::int64_t quota = question.limit.quota;
    ScriptAnswer answer;
    if (!concerns_moment(question.limit, question.moment, question.now)) {
        answer.verdict = verdict_of_schedule(0, quota, 0);
        return answer;
    }
    answer.verdict = verdict_of_schedule(numbers.first, quota, question.taken);
    answer.passes_now = numbers.first + question.cost <= quota;
    answer.verdict.denied = !answer.passes_now;
    answer.retry = kNever;
    return answer;
}

}  // namespace tidegate::limit
