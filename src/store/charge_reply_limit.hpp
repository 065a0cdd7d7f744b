// What the reply to a charge says about one limit. Pure; inline, as every decision of Redis reads
// some.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limit/charge.hpp"
#include "limit/concurrency.hpp"
#include "limit/gcra.hpp"
#include "limit/schedule.hpp"
#include "limit/window.hpp"

namespace tidegate::store {

// How a limit stood before the first request took anything, as lua/charge.lua packs it: units and
// when the next is free, or what else the algorithm has.
struct LimitNumbers {
    std::int64_t first = 0;
    std::int64_t second = 0;
};

// A request, as one limit looks at it.
struct LimitQuestion {
    const limit::Limit& limit;
    limit::Micros now;
    std::int64_t cost;
    limit::Micros moment;            // that a schedule is asked about
    std::int64_t taken;              // 0 when its group denied
    bool counted_denial;             // the numbers are after this very denial
    limit::Micros windows_admit_at;  // when all windows would admit it
};

struct LimitAnswer {
    limit::LimitVerdict verdict;
    bool passes_now = true;  // by the numbers; with `count: all` a denial may have changed that
    limit::Micros retry{0};  // where it does not pass
    limit::Micros wait{0};   // in a leaky bucket's line
};

inline LimitAnswer answer_of_window(const LimitQuestion& question, const LimitNumbers& numbers) {
    const std::int64_t quota = question.limit.quota;
    limit::Standing standing;
    standing.units = numbers.first;
    standing.next_free = limit::Micros{numbers.second};
    standing.at = question.now;
    // Where nothing counts the script tells when the newest sub-bucket ends: time never runs back.
    if (standing.units == 0) {
        standing.at = std::max(question.now, limit::begin_for(question.limit, standing.next_free));
    }
    LimitAnswer answer;
    answer.verdict =
        limit::verdict_of(question.limit, standing, question.now, quota, question.taken);
    answer.passes_now = standing.units + question.cost <= quota;
    // The script counts no further than the largest quota: there the denial left units == quota.
    const bool is_over = standing.units > quota || standing.units == limit::kQuotaMax;
    answer.verdict.denied = question.counted_denial ? is_over : !answer.passes_now;
    answer.retry = question.cost > quota ? limit::kNever : question.windows_admit_at - question.now;
    return answer;
}

// What gcra and leaky_bucket keep.
inline limit::Bucket bucket_of(const limit::Limit& limit, const LimitNumbers& numbers) {
    limit::Bucket bucket;
    bucket.parts_of = static_cast<std::uint32_t>(limit.quota);
    bucket.parts = numbers.first;
    bucket.tat_us = numbers.second;
    return bucket;
}

inline LimitAnswer answer_of_bucket(const LimitQuestion& question, const LimitNumbers& numbers) {
    const limit::Flow flow(question.limit);
    const limit::Bucket bucket = bucket_of(question.limit, numbers);
    const limit::ExactTime backlog = limit::backlog_at(bucket, flow, question.now);
    LimitAnswer answer;
    answer.verdict = limit::verdict_of(flow, backlog, question.taken);
    answer.passes_now = limit::passes(flow, backlog, question.cost);
    answer.verdict.denied =
        question.counted_denial ? !limit::passes(flow, backlog, 0) : !answer.passes_now;
    if (!answer.passes_now) answer.retry = limit::retry_after(flow, backlog, question.cost);
    if (flow.leaky && question.taken > 0) answer.wait = limit::wait_of(backlog);
    return answer;
}

inline LimitAnswer answer_of_schedule(const LimitQuestion& question, const LimitNumbers& numbers) {
    const std::int64_t quota = question.limit.quota;
    LimitAnswer answer;
    if (!limit::concerns_moment(question.limit, question.moment, question.now)) {
        answer.verdict = limit::verdict_of_schedule(0, quota, 0);
        return answer;
    }
    answer.verdict = limit::verdict_of_schedule(numbers.first, quota, question.taken);
    answer.passes_now = numbers.first + question.cost <= quota;
    answer.verdict.denied = !answer.passes_now;
    answer.retry = limit::kNever;
    return answer;
}

inline LimitAnswer answer_of_slots(const LimitQuestion& question, const LimitNumbers& numbers) {
    const std::int64_t quota = question.limit.quota;
    const limit::Slots slots{numbers.first, numbers.second != 0};
    LimitAnswer answer;
    answer.verdict = limit::verdict_of(slots, quota, question.taken > 0);
    answer.passes_now = limit::passes(slots, quota, question.cost);
    answer.verdict.denied = !answer.passes_now;
    answer.retry = limit::retry_of_slot(quota, question.cost);
    return answer;
}

// Whether the script can have sent these numbers.
inline bool are_possible(const LimitNumbers& numbers, const limit::Limit& limit) {
    if (numbers.first < 0 || numbers.second < 0) return false;
    return limit.is_bucket() ? numbers.first < limit.quota : numbers.first <= limit::kQuotaMax;
}

// Requires possible numbers.
inline LimitAnswer answer_of(const LimitQuestion& question, const LimitNumbers& numbers) {
    switch (question.limit.state()) {
        case limit::StateKind::bucket:
            return answer_of_bucket(question, numbers);
        case limit::StateKind::moments:
            return answer_of_schedule(question, numbers);
        case limit::StateKind::slots:
            return answer_of_slots(question, numbers);
        default:
            return answer_of_window(question, numbers);
    }
}

// The numbers after an admitted request of `cost`, for the next one in the same command. Requires a
// limit that can share a command.
inline void take_units(const limit::Limit& limit, limit::Micros now, std::int64_t cost,
                       LimitNumbers& numbers) {
    if (limit.is_bucket()) {
        limit::Bucket bucket = bucket_of(limit, numbers);
        limit::take(bucket, limit::Flow(limit), now, cost);
        numbers = {bucket.parts, bucket.tat_us};
        return;
    }
    if (numbers.first == 0) {
        limit::Standing nothing;
        nothing.at = now;
        const auto verdict = limit::verdict_of(limit, nothing, now, limit.quota, cost);
        numbers.second = (now + verdict.next_unit).count();
    }
    numbers.first += cost;
}

}  // namespace tidegate::store
