#include "store/model_counters.hpp"

#include <algorithm>
#include <limits>

#include "store/calendar.hpp"

namespace tidegate::test {

using limit::Algorithm;
using limit::Anchor;
using limit::Limit;
using limit::LimitVerdict;
using limit::Micros;

namespace {

constexpr std::int64_t kNeverCount = limit::kNever.count();
constexpr std::int64_t kDay = 86'400'000'000;

// The least number of [low, high] for which `holds`; it holds from some number on, and for high.
template <class Holds>
std::int64_t least(std::int64_t low, std::int64_t high, Holds holds) {
    while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (holds(middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// When the units taken at `at` stop counting.
std::int64_t freed(const Limit& limit, std::int64_t at) {
    if (limit.anchor == Anchor::first_request) return at + limit.duration.count();
    if (limit.anchor == Anchor::utc_week || limit.anchor == Anchor::utc_month) {
        return period_end(limit.anchor, at);
    }
    const std::int64_t bucket = at / limit.precision.count();
    return (bucket + limit.blocks) * limit.precision.count();
}

}  // namespace

std::int64_t WindowCounter::units_at(const Limit& limit, std::int64_t moment) const {
    std::int64_t units = 0;
    for (const Taken& one : taken_) {
        if (freed(limit, one.at) > moment) units += one.units;
    }
    return units;
}

// now = max(now, newest in the state)
std::int64_t WindowCounter::time_of(const Question& question) const {
    return std::max(question.now, newest_);
}

bool WindowCounter::passes(const Limit& limit, const Question& question) const {
    return units_at(limit, time_of(question)) + question.charge.cost <= limit.quota;
}

std::int64_t WindowCounter::retry(const Limit& limit, const Question& question) const {
    if (question.charge.cost > limit.quota) return kNeverCount;
    // The first moment at which something is freed and the request fits.
    std::set<std::int64_t> moments;
    for (const Taken& one : taken_) moments.insert(freed(limit, one.at));
    for (const std::int64_t moment : moments) {
        if (moment <= time_of(question)) continue;
        if (units_at(limit, moment) + question.charge.cost <= limit.quota) {
            return moment - question.now;
        }
    }
    return kNeverCount;
}

LimitVerdict WindowCounter::verdict_of(const Limit& limit, const Question& question) const {
    const std::int64_t time = time_of(question);
    LimitVerdict verdict;
    verdict.remaining = std::max<std::int64_t>(0, limit.quota - units_at(limit, time));
    std::int64_t next = 0;
    for (const Taken& one : taken_) {
        const std::int64_t moment = freed(limit, one.at);
        if (moment > time && (next == 0 || moment < next)) next = moment;
    }
    if (next != 0) verdict.next_unit = Micros{next - question.now};
    return verdict;
}

void WindowCounter::take(const Limit& limit, const Question& question) {
    const std::int64_t time = time_of(question);
    const std::int64_t counted = units_at(limit, time);
    const std::int64_t most = limit.in_money ? 4'000'000'000'000'000 : 4'294'967'295;
    const std::int64_t units = std::min(question.charge.cost, most - counted);
    if (units == 0) return;
    if (limit.anchor != Anchor::first_request || counted == 0) newest_ = time;
    taken_.push_back({newest_, units});
    if (limit.algorithm != Algorithm::sliding_log) return;
    // Even so many moments deny.
    std::set<std::int64_t> moments;
    for (const Taken& one : taken_) moments.insert(one.at);
    while (moments.size() > limit::kLogQuotaMax + 1) {
        std::erase_if(taken_, [&](const Taken& one) { return one.at == *moments.begin(); });
        moments.erase(moments.begin());
    }
}

void WindowCounter::give_back(const Limit& limit, const Question& question, std::int64_t at) {
    std::int64_t left = question.charge.cost;
    for (Taken& one : taken_) {
        const bool there = limit.anchor == Anchor::first_request
                               ? one.at == newest_ && one.at <= at && at < freed(limit, one.at)
                               : freed(limit, one.at) == freed(limit, at);
        if (!there || freed(limit, one.at) <= time_of(question)) continue;
        const std::int64_t units = std::min(left, one.units);
        one.units -= units;
        left -= units;
    }
    std::erase_if(taken_, [](const Taken& one) { return one.units == 0; });
}

// Over another quota than before: rounded up to a whole microsecond.
BucketCounter::Wide BucketCounter::tat_over(std::int64_t quota) const {
    if (quota == quota_) return tat_;
    return (tat_ + quota_ - 1) / quota_ * quota;
}

// Times the quota.
BucketCounter::Wide BucketCounter::backlog(const Limit& limit, std::int64_t now) const {
    return std::max<Wide>(0, tat_over(limit.quota) - Wide{now} * limit.quota);
}

bool BucketCounter::admits(const Limit& limit, std::int64_t now, std::int64_t cost) const {
    if (cost > limit.burst) return false;
    const Wide duration = limit.duration.count();
    const Wide full = limit.burst * duration;
    if (limit.algorithm == Algorithm::gcra) return backlog(limit, now) + cost * duration <= full;
    return backlog(limit, now) <= full &&
           backlog(limit, now) <= Wide{limit.max_delay.count()} * limit.quota;
}

// How many units would pass at that moment, one after the other.
std::int64_t BucketCounter::one_by_one(const Limit& limit, std::int64_t now) const {
    const Wide duration = limit.duration.count();
    const auto denied = [&](std::int64_t units) {  // the one after so many
        const Wide before = backlog(limit, now) + units * duration;
        if (limit.algorithm == Algorithm::gcra) return before + duration > limit.burst * duration;
        return before > limit.burst * duration ||
               before > Wide{limit.max_delay.count()} * limit.quota;
    };
    return least(0, limit.burst + 1, denied);
}

bool BucketCounter::passes(const Limit& limit, const Question& question) const {
    return admits(limit, question.now, question.charge.cost);
}

std::int64_t BucketCounter::retry(const Limit& limit, const Question& question) const {
    if (question.charge.cost > limit.burst) return kNeverCount;
    return least(0, std::int64_t{1} << 54, [&](std::int64_t later) {
        return admits(limit, question.now + later, question.charge.cost);
    });
}

LimitVerdict BucketCounter::verdict_of(const Limit& limit, const Question& question) const {
    LimitVerdict verdict;
    verdict.remaining = one_by_one(limit, question.now);
    constexpr std::int64_t kLong = std::int64_t{1} << 54;
    if (one_by_one(limit, question.now + kLong) == verdict.remaining) return verdict;
    verdict.next_unit = Micros{least(0, kLong, [&](std::int64_t later) {
        return one_by_one(limit, question.now + later) > verdict.remaining;
    })};
    return verdict;
}

void BucketCounter::take(const Limit& limit, const Question& question) {
    const Wide duration = limit.duration.count();
    const Wide before = backlog(limit, question.now);
    const Wide most = std::max(before, 2 * limit.burst * duration);
    // A request that comes alone, later than all before it, is known to be the last.
    const bool last = line_.empty() || question.now > *line_.rbegin();
    line_.insert(question.now);
    last_ = last ? question.now : 0;
    tat_ = Wide{question.now} * limit.quota +
           std::min(before + Wide{question.charge.cost} * duration, most);
    quota_ = limit.quota;
}

void BucketCounter::give_back(const Limit& limit, const Question& question, std::int64_t at) {
    if (backlog(limit, question.now) == 0) return;
    Wide given = Wide{std::min(question.charge.cost, 2 * limit.burst)} * limit.duration.count();
    if (limit.algorithm == Algorithm::leaky_bucket) {
        if (last_ != at) return;
        last_ = 0;
    } else {
        // What leaked meanwhile stays leaked.
        given -= Wide{std::max<std::int64_t>(0, question.now - at)} * limit.quota;
    }
    if (given <= 0) return;
    tat_ = std::max(tat_over(limit.quota) - given, Wide{at} * limit.quota);
    quota_ = limit.quota;
}

std::int64_t BucketCounter::wait(const Limit& limit, const Question& question) const {
    if (limit.algorithm != Algorithm::leaky_bucket) return 0;
    const Wide parts = backlog(limit, question.now);
    return static_cast<std::int64_t>((parts + limit.quota - 1) / limit.quota);
}

bool ScheduleCounter::concerned(const Limit& limit, const limit::Charge& charge, std::int64_t now) {
    return !(limit.forward_past && charge.moment.count() < now);
}

std::int64_t ScheduleCounter::moment_of(const Question& question) const {
    return std::max({question.charge.moment.count(), question.now, newest_});
}

// Tries every window that contains the moment and begins where the count may change.
std::int64_t ScheduleCounter::most_around(const Limit& limit, std::int64_t moment) const {
    const std::int64_t width = limit.utc_day ? kDay : limit.duration.count();
    const auto held_from = [&](std::int64_t begin) {
        return std::count_if(moments_.begin(), moments_.end(),
                             [&](std::int64_t one) { return one >= begin && one < begin + width; });
    };
    if (limit.utc_day) return held_from(moment / kDay * kDay);
    std::vector<std::int64_t> begins{moment, moment - width + 1};
    for (const std::int64_t one : moments_) {
        for (const std::int64_t begin : {one, one + 1, one - width, one - width + 1}) {
            if (begin > moment - width && begin <= moment) begins.push_back(begin);
        }
    }
    std::int64_t most = 0;
    for (const std::int64_t begin : begins) most = std::max<std::int64_t>(most, held_from(begin));
    return most;
}

bool ScheduleCounter::passes(const Limit& limit, const Question& question) const {
    if (!concerned(limit, question.charge, question.now)) return true;
    const std::int64_t cost = std::min(question.charge.cost, limit::kQuotaMax);
    return most_around(limit, moment_of(question)) + cost <= limit.quota;
}

std::int64_t ScheduleCounter::retry(const Limit&, const Question&) const {
    return kNeverCount;
}

LimitVerdict ScheduleCounter::verdict_of(const Limit& limit, const Question& question) const {
    LimitVerdict verdict;
    verdict.remaining = limit.quota;
    if (concerned(limit, question.charge, question.now)) {
        verdict.remaining =
            std::max<std::int64_t>(0, limit.quota - most_around(limit, moment_of(question)));
    }
    return verdict;
}

void ScheduleCounter::take(const Limit& limit, const Question& question) {
    if (!concerned(limit, question.charge, question.now)) return;
    const std::int64_t moment = moment_of(question);
    newest_ = std::max(newest_, question.now);
    for (std::int64_t i = 0; i < question.charge.cost; ++i) moments_.push_back(moment);
}

void ScheduleCounter::give_back(const Limit& limit, const Question& question, std::int64_t at) {
    if (!concerned(limit, question.charge, at)) return;
    const std::int64_t moment = std::max(question.charge.moment.count(), at);
    for (std::int64_t i = 0; i < question.charge.cost; ++i) {
        const auto one = std::find(moments_.begin(), moments_.end(), moment);
        if (one != moments_.end()) moments_.erase(one);
    }
}

std::pair<std::int64_t, bool> SlotCounter::standing(const Question& question) const {
    std::int64_t others = 0;
    bool mine = false;
    for (const auto& [hold, until] : held_) {
        if (until <= question.now) continue;
        if (hold == question.charge.slot_hold) {
            mine = true;
        } else {
            ++others;
        }
    }
    return {others, mine};
}

bool SlotCounter::passes(const Limit& limit, const Question& question) const {
    const auto [others, mine] = standing(question);
    if (question.charge.cost == 0) return others + (mine ? 1 : 0) <= limit.quota;
    return mine || others + 1 <= limit.quota;
}

std::int64_t SlotCounter::retry(const Limit& limit, const Question& question) const {
    return limit.quota == 0 && question.charge.cost > 0 ? kNeverCount : 1'000'000;
}

LimitVerdict SlotCounter::verdict_of(const Limit& limit, const Question& question) const {
    const auto [others, mine] = standing(question);
    const std::int64_t held = others + (mine ? 1 : 0);
    LimitVerdict verdict;
    verdict.remaining = std::max<std::int64_t>(0, limit.quota - held);
    if (held > 0) verdict.next_unit = Micros{1'000'000};
    return verdict;
}

void SlotCounter::take(const Limit&, const Question& question) {
    constexpr std::int64_t kSlotTime = 10'000'000;
    std::erase_if(held_, [&](const auto& one) { return one.second <= question.now; });
    held_[question.charge.slot_hold] =
        question.slots_expire ? question.now + kSlotTime : std::numeric_limits<std::int64_t>::max();
}

void SlotCounter::give_back(const Limit&, const Question& question, std::int64_t) {
    held_.erase(question.charge.slot_hold);
}

std::unique_ptr<Counter> make_counter(Algorithm algorithm) {
    switch (algorithm) {
        case Algorithm::gcra:
        case Algorithm::leaky_bucket:
            return std::make_unique<BucketCounter>();
        case Algorithm::schedule:
            return std::make_unique<ScheduleCounter>();
        case Algorithm::concurrency:
            return std::make_unique<SlotCounter>();
        default:
            return std::make_unique<WindowCounter>();
    }
}

}  // namespace tidegate::test
