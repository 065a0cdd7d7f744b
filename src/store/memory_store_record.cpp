#include "store/memory_store_record.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "limit/schedule.hpp"

namespace tidegate::store {

using limit::kNever;
using limit::kQuotaMax;
using limit::Limit;
using limit::LimitVerdict;
using limit::Micros;

namespace {

double weight_of(std::int64_t units, std::int64_t quota, const Limit& limit) {
    if (units >= quota) return quota > 0 ? static_cast<double>(limit.duration.count()) : 0;
    return static_cast<double>(units) / static_cast<double>(quota) *
           static_cast<double>(limit.duration.count());
}

}  // namespace

template <class Label>
limit::Standing WindowCount<Label>::look(const Limit& limit, const Asked& asked) const {
    return limit::standing_at(window_, ring(), limit, asked.now.steady);
}

template <class Label>
bool WindowCount<Label>::passes(const Limit& limit, const Asked& asked, const Look& standing) {
    return asked.charge.cost <= asked.share(limit) - standing.units;
}

template <class Label>
Micros WindowCount<Label>::retry(const Limit& limit, const Asked& asked,
                                 const Look& standing) const {
    const std::int64_t share = asked.share(limit);
    if (asked.charge.cost > share) return kNever;
    const std::int64_t over = asked.charge.cost - (share - standing.units);
    return limit::frees_at(window_, ring(), limit, standing, over) - asked.now.steady;
}

template <class Label>
LimitVerdict WindowCount<Label>::verdict_of(const Limit& limit, const Asked& asked,
                                            const Look& standing, std::int64_t taken) {
    return limit::verdict_of(limit, standing, asked.now.steady, asked.share(limit), taken);
}

template <class Label>
void WindowCount<Label>::reserve(const Limit& limit, const Asked&, const Look& standing) {
    const std::size_t needed = limit::marks_after_take(window_, ring(), limit, standing);
    const std::size_t room = window_.room;
    if (needed <= room) return;
    const std::size_t larger =
        std::max(needed, std::min(limit::marks_max(limit), room == 0 ? 4 : 2 * room));
    auto copy = std::make_unique<limit::MarkOf<Label>[]>(larger);
    for (std::size_t i = 0; i < window_.marks; ++i) copy[i] = marks_[(window_.first + i) % room];
    marks_ = std::move(copy);
    window_.room = static_cast<std::uint16_t>(larger);
    window_.first = 0;
}

template <class Label>
void WindowCount<Label>::take(const Limit& limit, const Asked& asked, const Look& standing) {
    const std::int64_t units = std::min(asked.charge.cost, kQuotaMax - standing.units);
    if (units > 0) limit::take(window_, ring(), limit, standing, units);
}

template <class Label>
void WindowCount<Label>::give_back(const Limit& limit, const Asked& asked, Micros at) {
    limit::give_back(window_, ring(), limit, at, asked.charge.cost, asked.now.steady);
}

template <class Label>
double WindowCount<Label>::weight(const Limit& limit, const Asked& asked) const {
    return weight_of(static_cast<std::uint32_t>(window_.total - window_.base), asked.share(limit),
                     limit);
}

template <class Label>
LimitCount WindowCount<Label>::count(const Limit& limit, const Asked& asked) const {
    const Look standing = look(limit, asked);
    const std::int64_t share = asked.share(limit);
    WindowStand stand;
    stand.units = standing.units;
    stand.next_free = standing.next_free;
    if (standing.units > 0) {
        stand.all_free = limit::frees_at(window_, ring(), limit, standing, standing.units);
    }
    if (share > 0 && !passes(limit, asked, standing)) {
        stand.passes_at = asked.now.steady + retry(limit, asked, standing);
    }
    return count_of_window(stand, share, asked.now.steady);
}

template class WindowCount<std::uint16_t>;
template class WindowCount<std::uint64_t>;

limit::ExactTime BucketCount::look(const Limit& limit, const Asked& asked) const {
    return limit::backlog_at(bucket_, {limit, asked.divisor}, asked.now.steady);
}

bool BucketCount::passes(const Limit& limit, const Asked& asked, const Look& backlog) {
    return limit::passes({limit, asked.divisor}, backlog, asked.charge.cost);
}

Micros BucketCount::retry(const Limit& limit, const Asked& asked, const Look& backlog) {
    return limit::retry_after({limit, asked.divisor}, backlog, asked.charge.cost);
}

LimitVerdict BucketCount::verdict_of(const Limit& limit, const Asked& asked, const Look& backlog,
                                     std::int64_t taken) {
    return limit::verdict_of({limit, asked.divisor}, backlog, taken);
}

void BucketCount::take(const Limit& limit, const Asked& asked, const Look&) {
    const limit::Flow flow{limit, asked.divisor};
    // A share of nothing has no rate to count by; it denies everything as it is.
    if (flow.quota > 0) limit::take(bucket_, flow, asked.now.steady, asked.charge.cost);
}

void BucketCount::give_back(const Limit& limit, const Asked& asked, Micros at) {
    limit::give_back(bucket_, {limit, asked.divisor}, at, asked.charge.cost, asked.now.steady);
}

// A unit that leaks is held until it has left. So two buckets that both admit no more weigh the
// same.
double BucketCount::weight(const Limit& limit, const Asked& asked) const {
    const limit::Flow flow{limit, asked.divisor};
    const std::int64_t backlog = bucket_.tat_us - asked.now.steady.count();
    if (flow.quota == 0 || backlog < 0) return 0;
    const double emission =
        static_cast<double>(limit.duration.count()) / static_cast<double>(flow.quota);
    // Parts of a microsecond are no unit.
    const double units = std::ceil((static_cast<double>(backlog) - 1) / emission);
    return std::clamp(units, 1.0, static_cast<double>(std::max<std::int64_t>(1, flow.burst))) *
           emission;
}

limit::Standing PeriodCount::look(const Limit&, const Asked& asked) const {
    return limit::standing_at(count_, asked.now);
}

bool PeriodCount::passes(const Limit& limit, const Asked& asked, const Look& standing) {
    return asked.charge.cost <= asked.share(limit) - standing.units;
}

Micros PeriodCount::retry(const Limit& limit, const Asked& asked, const Look& standing) {
    return asked.charge.cost > asked.share(limit) ? kNever : standing.next_free - asked.now.wall;
}

LimitVerdict PeriodCount::verdict_of(const Limit& limit, const Asked& asked, const Look& standing,
                                     std::int64_t taken) {
    return limit::verdict_of(limit, standing, asked.now.wall, asked.share(limit), taken);
}

void PeriodCount::take(const Limit& limit, const Asked& asked, const Look& standing) {
    const std::int64_t units = std::min(asked.charge.cost, kQuotaMax - standing.units);
    if (units > 0) limit::take(count_, limit, standing, asked.now, units);
}

void PeriodCount::give_back(const Limit&, const Asked& asked, Micros at) {
    limit::give_back(count_, at, asked.charge.cost, asked.now);
}

double PeriodCount::weight(const Limit& limit, const Asked& asked) const {
    return weight_of(count_.units, asked.share(limit), limit);
}

LimitCount PeriodCount::count(const Limit& limit, const Asked& asked) const {
    const Look standing = look(limit, asked);
    return count_of_window(
        {standing.units, standing.next_free, standing.next_free, standing.next_free},
        asked.share(limit), asked.now.wall);
}

MomentStanding MomentsCount::look(const Limit& limit, const Asked& asked) const {
    MomentStanding standing;
    standing.concerned = limit::concerns_moment(limit, asked.charge.moment, asked.now.wall);
    if (!standing.concerned) return standing;
    standing.at = std::max(asked.charge.moment, Micros{newest_at(limit, asked.now)});
    standing.busiest = limit::busiest(moments_, limit, standing.at);
    return standing;
}

// The time of the newest request, or now if that is later: time does not run backwards, unless the
// wall clock was set back by more than a window. Without that the identifier would wait until the
// old time comes again. lua/schedule.lua does the same.
std::int64_t MomentsCount::newest_at(const Limit& limit, const limit::Now& now) const {
    const std::int64_t wall_us = now.wall.count();
    const bool was_set_back =
        newest_us_ - wall_us > limit.duration.count() && now.steady.count() >= asked_us_;
    return was_set_back ? wall_us : std::max(wall_us, newest_us_);
}

// The store that replaces Redis does not know its moments: it cannot admit any.
std::int64_t MomentsCount::share(const Limit& limit, const Asked& asked) {
    return asked.stands_in ? 0 : limit.quota;
}

bool MomentsCount::passes(const Limit& limit, const Asked& asked, const Look& standing) const {
    if (!standing.concerned) return true;
    const std::int64_t cost = asked.charge.cost;
    if (cost == 0) return standing.busiest <= share(limit, asked);
    return cost <= share(limit, asked) - standing.busiest &&
           cost <= limit::kMomentsMax - static_cast<std::int64_t>(moments_.size());
}

LimitVerdict MomentsCount::verdict_of(const Limit& limit, const Asked& asked, const Look& standing,
                                      std::int64_t taken) {
    return limit::verdict_of_schedule(standing.busiest, share(limit, asked),
                                      standing.concerned ? taken : 0);
}

void MomentsCount::reserve(const Limit&, const Asked& asked, const Look& standing) {
    if (!standing.concerned) return;
    const std::size_t needed = moments_.size() + static_cast<std::size_t>(asked.charge.cost);
    if (needed > moments_.capacity()) moments_.reserve(std::max(needed, 2 * moments_.size()));
}

void MomentsCount::take(const Limit& limit, const Asked& asked, const Look& standing) {
    if (!standing.concerned) return;
    newest_us_ = newest_at(limit, asked.now);
    asked_us_ = std::max(asked_us_, asked.now.steady.count());
    const std::size_t past = limit::past(moments_, limit, Micros{newest_us_});
    moments_.erase(moments_.begin(), moments_.begin() + static_cast<std::ptrdiff_t>(past));
    const auto place = std::upper_bound(moments_.begin(), moments_.end(), standing.at.count());
    moments_.insert(place, static_cast<std::size_t>(asked.charge.cost), standing.at.count());
    ends_us_ = limit::end_of_moment(limit, Micros{moments_.back()}).count();
}

void MomentsCount::give_back(const Limit& limit, const Asked& asked, Micros at) {
    at = asked.now.wall_at(at);
    if (!limit::concerns_moment(limit, asked.charge.moment, at)) return;
    const std::int64_t moment = std::max(asked.charge.moment, at).count();
    const auto [first, last] = std::equal_range(moments_.begin(), moments_.end(), moment);
    moments_.erase(first, first + std::min<std::ptrdiff_t>(last - first, asked.charge.cost));
}

double MomentsCount::weight(const Limit& limit, const Asked& asked) const {
    return weight_of(static_cast<std::int64_t>(moments_.size()), share(limit, asked), limit);
}

Micros MomentsCount::earliest(const Limit& limit, const Asked& asked, Micros from) const {
    return limit::earliest_fit(moments_, limit, share(limit, asked), from, asked.charge.cost);
}

std::int64_t SlotsCount::held_at(std::int64_t now_us) const {
    const auto kept = std::upper_bound(kept_until_us_.begin(), kept_until_us_.end(), now_us);
    return static_cast<std::int64_t>(held_.size()) + (kept_until_us_.end() - kept);
}

limit::Slots SlotsCount::look(const Limit&, const Asked& asked) const {
    return {held_at(asked.now.steady.count()), held_.contains(asked.charge.lease)};
}

bool SlotsCount::passes(const Limit& limit, const Asked& asked, const Look& slots) {
    return limit::passes(slots, asked.share(limit), asked.charge.cost);
}

Micros SlotsCount::retry(const Limit& limit, const Asked& asked, const Look&) {
    return limit::retry_of_slot(asked.share(limit), asked.charge.cost);
}

LimitVerdict SlotsCount::verdict_of(const Limit& limit, const Asked& asked, const Look& slots,
                                    std::int64_t taken) {
    return limit::verdict_of(slots, asked.share(limit), taken > 0);
}

void SlotsCount::reserve(const Limit&, const Asked&, const Look&) {
    if (held_.size() >= held_.max_load()) held_.reserve(2 * held_.size() + 1);
}

void SlotsCount::take(const Limit&, const Asked& asked, const Look&) {
    held_.insert(asked.charge.lease);
    const std::int64_t now_us = asked.now.steady.count();
    std::erase_if(kept_until_us_, [=](std::int64_t until_us) { return until_us <= now_us; });
}

void SlotsCount::give_back(const Limit&, const Asked& asked, Micros) {
    held_.erase(asked.charge.lease);
}

void SlotsCount::release(const limit::LeaseId& lease, Micros until) {
    if (held_.erase(lease) == 0 || until == Micros{0}) return;
    const auto later =
        std::upper_bound(kept_until_us_.begin(), kept_until_us_.end(), until.count());
    kept_until_us_.insert(later, until.count());
}

void Record::reset(std::uint32_t id, limit::StateKind kind) {
    id_ = id;
    weight_ = 0;
    switch (kind) {
        case limit::StateKind::windows:
            kind_.emplace<Windows>();
            break;
        case limit::StateKind::bucket:
            kind_.emplace<BucketCount>();
            break;
        case limit::StateKind::log:
            kind_ = std::make_unique<Log>();
            break;
        case limit::StateKind::moments:
            kind_ = std::make_unique<MomentsCount>();
            break;
        case limit::StateKind::slots:
            kind_ = std::make_unique<SlotsCount>();
            break;
        case limit::StateKind::period:
            kind_.emplace<PeriodCount>();
            break;
    }
}

// Ids are hashes: two limits that differ in kind might share one.
bool Record::counts(const Limit& limit) const {
    return id_ == limit.id && kind_.index() == static_cast<std::size_t>(limit.state());
}

std::int64_t Record::ends_us(const limit::Now& now) const {
    return with([&](const auto& kind) { return kind.ends_us(now); });
}

bool Record::holds_slots() const {
    const auto* const slots = std::get_if<std::unique_ptr<SlotsCount>>(&kind_);
    return slots != nullptr && (*slots)->in_flight();
}

void Record::take(const Limit& limit, const Asked& asked, const Standing& standing) {
    weight_ = static_cast<float>(with([&](auto& kind) {
        using Look = typename std::remove_reference_t<decltype(kind)>::Look;
        kind.take(limit, asked, *std::get_if<Look>(&standing));
        return kind.weight(limit, asked);
    }));
}

void Record::give_back(const Limit& limit, const Asked& asked, Micros at) {
    weight_ = static_cast<float>(with([&](auto& kind) {
        kind.give_back(limit, asked, at);
        return kind.weight(limit, asked);
    }));
}

void Record::release(const limit::LeaseId& lease, Micros until) {
    SlotsCount& kept = slots();
    kept.release(lease, until);
    weight_ = static_cast<float>(kept.weight());
}

LimitCount BucketCount::count(const Limit& limit, const Asked& asked) const {
    return count_of_bucket({limit, asked.divisor}, look(limit, asked));
}

LimitCount MomentsCount::count(const Limit& limit, const Asked& asked) const {
    const Micros at{newest_at(limit, asked.now)};
    return count_of_schedule(moments_, true, limit, share(limit, asked), at, asked.now.wall);
}

LimitCount SlotsCount::count(const Limit& limit, const Asked& asked) const {
    return count_of_slots(held_at(asked.now.steady.count()), asked.share(limit));
}

}  // namespace tidegate::store
