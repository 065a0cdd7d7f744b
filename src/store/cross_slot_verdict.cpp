#include "store/cross_slot_verdict.hpp"

#include <algorithm>

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using limit::Limit;
using limit::LimitVerdict;
using limit::Micros;
using limit::OnStoreFailure;

void clear(CrossSlotVerdict::Part& part) {
    part.items.clear();
    part.positions.clear();
    part.verdict.limits.clear();
    part.answer = CrossSlotVerdict::Answer::none;
}

bool has_shadow(const CrossSlotVerdict::Part& part) {
    return std::any_of(part.items.begin(), part.items.end(),
                       [](const ChargeItem& item) { return item.policy->shadow; });
}

bool counts_denied(const ChargeItem& item) {
    const auto limits = item.limits();
    return std::any_of(limits.begin(), limits.end(),
                       [](const Limit& limit) { return limit.count == limit::Count::all; });
}

// Whether a schedule is among the limits that denied.
bool schedule_denied(const CrossSlotVerdict::Part& part) {
    std::size_t next = 0;
    for (const ChargeItem& item : part.items) {
        for (const Limit& limit : item.limits()) {
            const bool denied = part.verdict.limits[next++].denied;
            if (denied && limit.is_schedule() && !item.policy->shadow) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace

void CrossSlotVerdict::begin(std::span<const ChargeItem> items, std::int64_t cost,
                             const SlotOf& slot_of) {
    used_ = turn_ = 0;
    turns_ = 1;
    for (Part& local : locals_) {
        clear(local);
        local.in_process = true;
    }
    items_.assign(items.begin(), items.end());
    cost_ = cost;
    result_ = Result::admitted;
    shadow_admitted_ = true;
    has_failed_ = false;
    const bool any_of_client =
        std::any_of(items.begin(), items.end(), [](const auto& item) { return item.of_client; });
    for (std::size_t i = 0; i < items.size(); ++i) {
        const bool is_second = any_of_client && !items[i].of_client && !counts_denied(items[i]);
        if (is_second) turns_ = 2;
        CrossSlotVerdict::Part& part = part_of(slot_of(items[i]), is_second ? 1 : 0);
        part.items.push_back(items[i]);
        part.positions.push_back(i);
    }
}

CrossSlotVerdict::Part& CrossSlotVerdict::part_of(std::uint16_t slot, std::size_t turn) {
    for (CrossSlotVerdict::Part& part : parts()) {
        if (part.slot == slot && part.turn == turn) return part;
    }
    if (used_ == parts_.size()) parts_.emplace_back();
    CrossSlotVerdict::Part& part = parts_[used_++];
    clear(part);
    part.slot = slot;
    part.turn = turn;
    return part;
}

// Policies in shadow deny nothing, whatever fails.
bool CrossSlotVerdict::must_deny(bool can_be_local) const {
    const auto denies = [&](const ChargeItem& item) {
        if (item.policy->shadow) return false;
        const OnStoreFailure decides = item.policy->on_store_failure;
        return decides == OnStoreFailure::deny ||
               (decides == OnStoreFailure::local && !can_be_local);
    };
    return std::any_of(parts().begin(), parts().end(), [&](const CrossSlotVerdict::Part& part) {
        return part.answer == Answer::failed &&
               std::any_of(part.items.begin(), part.items.end(), denies);
    });
}

template <class Visit>
void CrossSlotVerdict::for_each_part(Visit visit) const {
    for (const CrossSlotVerdict::Part& part : parts()) visit(part);
    for (const CrossSlotVerdict::Part& local : locals_) visit(local);
}

CrossSlotVerdict::Next CrossSlotVerdict::next(bool can_be_local) {
    bool denied = false;
    for (const CrossSlotVerdict::Part& part : parts()) {
        if (is_due(part)) return Next::wait;
        if (part.turn != turn_) continue;
        has_failed_ = has_failed_ || part.answer == Answer::failed;
        denied = denied || part.answer == Answer::denied;
    }
    if (must_deny(can_be_local)) return end(Result::unavailable);
    if (denied) return end(Result::limited);
    // Last of the turn: not needed where Redis denies.
    if (local().answer == Answer::none && begin_local(can_be_local)) return Next::ask_local;
    if (local().answer == Answer::failed) return end(Result::unavailable);
    if (local().answer == Answer::denied) return end(Result::limited);
    if (turn_ + 1 == turns_) return end(Result::admitted);
    ++turn_;
    return Next::ask_slots;
}

CrossSlotVerdict::Next CrossSlotVerdict::end(Result result) {
    result_ = result;
    shadow_admitted_ = true;
    for_each_part([&](const CrossSlotVerdict::Part& part) {
        const bool is_known = part.answer == Answer::admitted || part.answer == Answer::denied;
        if (is_known && !part.verdict.shadow_admitted) shadow_admitted_ = false;
    });
    for (Part& local : locals_) {
        if (local.answer == Answer::none) clear(local);
    }
    return Next::end;
}

bool CrossSlotVerdict::begin_local(bool can_be_local) {
    for (std::size_t position = 0; position < items_.size(); ++position) {
        const OnStoreFailure decides = items_[position].policy->on_store_failure;
        const bool is_local = decides == OnStoreFailure::local_or_alone ||
                              (decides == OnStoreFailure::local && can_be_local);
        if (!is_local) continue;
        for (const CrossSlotVerdict::Part& part : parts()) {
            if (part.turn != turn_ || part.answer != Answer::failed) continue;
            if (std::find(part.positions.begin(), part.positions.end(), position) ==
                part.positions.end()) {
                continue;
            }
            local().items.push_back(items_[position]);
            local().positions.push_back(position);
        }
    }
    return !local().items.empty();
}

CrossSlotVerdict::GiveBack CrossSlotVerdict::to_give_back(
    const CrossSlotVerdict::Part& part) const {
    if (part.answer != Answer::admitted || cost_ == 0) return GiveBack::nothing;
    if (result_ != Result::admitted) return GiveBack::all;
    // A group that denied has taken nothing.
    const bool took_shadow = part.verdict.shadow_admitted && has_shadow(part);
    return !shadow_admitted_ && took_shadow ? GiveBack::shadow : GiveBack::nothing;
}

void CrossSlotVerdict::merge(limit::Verdict& verdict, std::vector<ChargeItem>& decided) const {
    decided.clear();
    verdict.limits.clear();
    verdict.receipt.generations.clear();
    verdict.admitted = result_ == Result::admitted;
    verdict.shadow_admitted = shadow_admitted_;
    verdict.retry_after = verdict.wait = verdict.earliest = Micros{0};
    if (result_ == Result::unavailable) return;
    bool earliest_known = true;
    for_each_part([&](const CrossSlotVerdict::Part& part) {
        if (part.answer == Answer::admitted && verdict.admitted) {
            verdict.wait = std::max(verdict.wait, part.verdict.wait);
        } else if (part.answer == Answer::denied) {
            verdict.retry_after = std::max(verdict.retry_after, part.verdict.retry_after);
            verdict.earliest = std::max(verdict.earliest, part.verdict.earliest);
            if (part.verdict.earliest == Micros{0} && schedule_denied(part)) earliest_known = false;
        }
    });
    if (!earliest_known) verdict.earliest = Micros{0};
    for (std::size_t position = 0; position < items_.size(); ++position) {
        for_each_part([&](const CrossSlotVerdict::Part& part) {
            if (part.answer != Answer::admitted && part.answer != Answer::denied) return;
            std::size_t first = 0;
            for (std::size_t i = 0; i < part.items.size(); ++i) {
                if (part.positions[i] == position) {
                    decided.push_back(part.items[i]);
                    append_limits(part, i, first, verdict);
                }
                first += part.items[i].limits().size();
            }
        });
    }
}

// Appends the verdicts on the limits of an item, the first of which is at `first` in that of the
// part.
void CrossSlotVerdict::append_limits(const CrossSlotVerdict::Part& part, std::size_t item,
                                     std::size_t first, limit::Verdict& verdict) const {
    const bool shadow = part.items[item].policy->shadow;
    const GiveBack back = to_give_back(part);
    const bool taken = !shadow || part.verdict.shadow_admitted;
    const bool given_back =
        taken && (back == GiveBack::all || (back == GiveBack::shadow && shadow));
    for (const Limit& limit : part.items[item].limits()) {
        LimitVerdict& one = verdict.limits.emplace_back(part.verdict.limits[first++]);
        if (given_back) limit::add_back(cost_, limit, one);
    }
}

}  // namespace tidegate::store
