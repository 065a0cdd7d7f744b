#include "limit/concurrency.hpp"

#include <algorithm>

namespace tidegate::limit {
namespace {

LimitCount count_of_slots(std::int64_t held, std::int64_t share) {
    const SlotStanding slots{held, false};
    LimitCount count;
    count.counted = held;
    count.remaining = verdict_of(slots, share, false).remaining;
    count.denied = !passes(slots, share, 1);
    if (count.denied && share == 0) count.denied_for = kNever;
    return count;
}

}  // namespace

std::int64_t SlotCount::held_at(std::int64_t now_us) const {
    const auto kept = std::upper_bound(kept_until_us_.begin(), kept_until_us_.end(), now_us);
    return static_cast<std::int64_t>(held_.size()) + (kept_until_us_.end() - kept);
}

SlotStanding SlotCount::look(const Limit&, const Asked& asked) const {
    return {held_at(asked.now.steady.count()), held_.contains(asked.charge.slot_hold)};
}

void SlotCount::reserve(const Limit&, const Asked&, const SlotStanding&) {
    if (held_.size() >= held_.max_load()) held_.reserve(2 * held_.size() + 1);
}

void SlotCount::take(const Limit&, const Asked& asked, const SlotStanding&) {
    held_.insert(asked.charge.slot_hold);
    const std::int64_t now_us = asked.now.steady.count();
    std::erase_if(kept_until_us_, [=](std::int64_t until_us) { return until_us <= now_us; });
}

void SlotCount::give_back(const Limit&, const Asked& asked, Micros) {
    held_.erase(asked.charge.slot_hold);
}

void SlotCount::release(const SlotHold& hold, Micros until) {
    if (held_.erase(hold) == 0 || until == Micros{0}) return;
    const auto later =
        std::upper_bound(kept_until_us_.begin(), kept_until_us_.end(), until.count());
    kept_until_us_.insert(later, until.count());
}

LimitCount SlotCount::count(const Limit& limit, const Asked& asked) const {
    return count_of_slots(held_at(asked.now.steady.count()), asked.share(limit));
}

void SlotCount::save(CountsWriter& out) const {
    out.number(std::uint64_t{kept_until_us_.size()});
    for (const std::int64_t until : kept_until_us_) out.number(until);
}

void SlotCount::load(CountsReader& in) {
    kept_until_us_.resize(in.count(8));
    for (std::int64_t& until : kept_until_us_) until = in.time_us();
    if (!std::is_sorted(kept_until_us_.begin(), kept_until_us_.end())) in.refuse();
}

void SlotCount::pack_terms(const Limit& limit, Micros, Packer& out) {
    out.put_double(limit.duration.count());
    out.put_double(0);
}

void SlotCount::append_request(const Limit&, const Charge& charge, std::string& out) {
    append_packed(charge.slot_hold.holder, out);
    append_packed(charge.slot_hold.request, out);
}

ScriptAnswer SlotCount::answer(const ScriptQuestion& question, const StateNumbers& numbers) {
    const std::int64_t quota = question.limit.quota;
    const SlotStanding slots{numbers.first, numbers.second != 0};
    ScriptAnswer answer;
    answer.verdict = limit::verdict_of(slots, quota, question.taken > 0);
    answer.passes_now = limit::passes(slots, quota, question.cost);
    answer.verdict.denied = !answer.passes_now;
    answer.retry = retry_of_slot(quota, question.cost);
    return answer;
}

LimitCount SlotCount::count_of(const Limit& limit, const InspectedNumbers& numbers, Micros) {
    return count_of_slots(numbers[0], limit.quota);
}

}  // namespace tidegate::limit
