#include "store/counts.hpp"

#include <algorithm>

#include "limit/concurrency.hpp"
#include "limit/schedule.hpp"

namespace tidegate::store {

LimitCount count_of_window(const WindowStand& stand, std::int64_t share, Micros now) {
    LimitCount count;
    count.counted = stand.units;
    count.remaining = std::max<std::int64_t>(0, share - stand.units);
    if (stand.units > 0) {
        count.next_unit = stand.next_free - now;
        count.all_free = stand.all_free - now;
    }
    count.denied = stand.units >= share;
    if (count.denied) count.denied_for = share > 0 ? stand.passes_at - now : limit::kNever;
    return count;
}

LimitCount count_of_bucket(const limit::Flow& flow, limit::ExactTime backlog) {
    const limit::LimitVerdict verdict = limit::verdict_of(flow, backlog, 0);
    LimitCount count;
    count.counted = limit::units_of(flow, backlog);
    count.remaining = verdict.remaining;
    if (verdict.next_unit > Micros{0}) count.next_unit = verdict.next_unit;
    if (count.counted > 0) count.all_free = limit::wait_of(backlog);
    count.denied = !limit::passes(flow, backlog, 1);
    if (count.denied) count.denied_for = limit::retry_after(flow, backlog, 1);
    return count;
}

LimitCount count_of_schedule(std::span<const std::int64_t> moments, bool are_all,
                             const limit::Limit& limit, std::int64_t share, Micros at, Micros now) {
    const auto booked = moments.subspan(limit::past(moments, limit, at));
    const std::int64_t busiest = limit::busiest(booked, limit, at);
    LimitCount count;
    count.counted = static_cast<std::int64_t>(booked.size());
    count.counted_all = are_all;
    count.remaining = limit::verdict_of_schedule(busiest, share, 0).remaining;
    if (!booked.empty() && are_all) {
        count.all_free = limit::end_of_moment(limit, Micros{booked.back()}) - now;
    }
    count.denied = busiest >= share;
    if (count.denied) {
        const Micros earliest = limit::earliest_fit(booked, limit, share, at, 1);
        if (earliest == limit::kNever) {
            count.denied_for = limit::kNever;
        } else if (are_all) {
            count.denied_for = earliest - now;
        }
    }
    for (const std::int64_t moment : booked.first(std::min(booked.size(), kMomentsTold))) {
        count.moments.emplace_back(moment);
    }
    return count;
}

LimitCount count_of_slots(std::int64_t held, std::int64_t share) {
    const limit::Slots slots{held, false};
    LimitCount count;
    count.counted = held;
    count.remaining = limit::verdict_of(slots, share, false).remaining;
    count.denied = !limit::passes(slots, share, 1);
    if (count.denied && share == 0) count.denied_for = limit::kNever;
    return count;
}

}  // namespace tidegate::store
