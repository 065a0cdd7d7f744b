#include "store/joint.hpp"

#include <algorithm>
#include <cassert>

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using limit::Limit;
using limit::LimitVerdict;
using limit::Micros;
using limit::OnStoreFailure;

void clear(Joint::Part& part) {
    part.items.clear();
    part.places.clear();
    part.verdict.limits.clear();
    part.answer = Joint::Answer::none;
}

bool has_shadow(const Joint::Part& part) {
    return std::any_of(part.items.begin(), part.items.end(),
                       [](const ChargeItem& item) { return item.policy->shadow; });
}

// A limit as it stands without the units that it is about to get back.
void tell_without(std::int64_t cost, const Limit& limit, LimitVerdict& told) {
    const bool slots = limit.is_concurrency();
    const std::int64_t full = limit.burst > 0 ? limit.burst : limit.quota;
    told.remaining = std::min(full, told.remaining + (slots ? 1 : cost));
    if (told.remaining == full) told.next_unit = Micros{0};
}

// Whether a schedule is among what denied.
bool schedule_denied(const Joint::Part& part) {
    std::size_t position = 0;
    for (const ChargeItem& item : part.items) {
        for (const Limit& limit : item.limits()) {
            const bool denied = part.verdict.limits[position++].denied;
            if (denied && limit.is_schedule() && !item.policy->shadow) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace

void Joint::begin(std::span<const ChargeItem> items, std::int64_t cost, const SlotOf& slot_of) {
    used_ = 0;
    clear(local_);
    items_.assign(items.begin(), items.end());
    cost_ = cost;
    result_ = Result::admitted;
    shadow_admitted_ = true;
    has_failed_ = false;
    for (std::size_t i = 0; i < items.size(); ++i) {
        Part& part = part_of(slot_of(items[i]));
        part.items.push_back(items[i]);
        part.places.push_back(i);
    }
}

Joint::Part& Joint::part_of(std::uint16_t slot) {
    for (Part& part : parts()) {
        if (part.slot == slot) return part;
    }
    if (used_ == parts_.size()) parts_.emplace_back();
    Part& part = parts_[used_++];
    clear(part);
    part.slot = slot;
    return part;
}

// Policies in shadow refuse nobody, whoever fails.
bool Joint::must_deny(bool can_be_local) const {
    const auto denies = [&](const ChargeItem& item) {
        if (item.policy->shadow) return false;
        const OnStoreFailure decides = item.policy->on_store_failure;
        return decides == OnStoreFailure::deny ||
               (decides == OnStoreFailure::local && !can_be_local);
    };
    return std::any_of(parts().begin(), parts().end(), [&](const Part& part) {
        return part.answer == Answer::failed &&
               std::any_of(part.items.begin(), part.items.end(), denies);
    });
}

Joint::Next Joint::next(bool can_be_local) {
    bool denied = false;
    shadow_admitted_ = true;
    for (const Part& part : parts()) {
        if (part.answer == Answer::none) return Next::wait;
        has_failed_ = has_failed_ || part.answer == Answer::failed;
        denied = denied || part.answer == Answer::denied;
        if (part.answer != Answer::failed && !part.verdict.shadow_admitted) {
            shadow_admitted_ = false;
        }
    }
    if (must_deny(can_be_local)) return end(Result::unavailable);
    if (denied) return end(Result::limited);
    // Last, as it is the cheapest to ask in vain.
    if (local_.answer == Answer::none && begin_local(can_be_local)) return Next::ask_local;
    if (local_.answer == Answer::failed) return end(Result::unavailable);
    if (local_.answer == Answer::denied) return end(Result::limited);
    if (!local_.items.empty() && !local_.verdict.shadow_admitted) shadow_admitted_ = false;
    return end(Result::admitted);
}

Joint::Next Joint::end(Result result) {
    result_ = result;
    if (local_.answer == Answer::none) clear(local_);
    return Next::end;
}

bool Joint::begin_local(bool can_be_local) {
    for (std::size_t place = 0; place < items_.size(); ++place) {
        const OnStoreFailure decides = items_[place].policy->on_store_failure;
        const bool is_local = decides == OnStoreFailure::local_or_alone ||
                              (decides == OnStoreFailure::local && can_be_local);
        if (!is_local) continue;
        for (const Part& part : parts()) {
            if (part.answer != Answer::failed) continue;
            if (std::find(part.places.begin(), part.places.end(), place) == part.places.end()) {
                continue;
            }
            local_.items.push_back(items_[place]);
            local_.places.push_back(place);
        }
    }
    return !local_.items.empty();
}

Joint::Back Joint::back_of(const Part& part) const {
    if (part.answer != Answer::admitted || cost_ == 0) return Back::nothing;
    if (result_ != Result::admitted) return Back::all;
    // Where its own group denied, nothing of it was taken.
    const bool took_shadow = part.verdict.shadow_admitted && has_shadow(part);
    return !shadow_admitted_ && took_shadow ? Back::shadow : Back::nothing;
}

template <class Visit>
void Joint::for_each_part(Visit visit) const {
    for (const Part& part : parts()) visit(part);
    visit(local_);
}

void Joint::join(limit::Verdict& verdict, std::vector<ChargeItem>& decided) const {
    decided.clear();
    verdict.limits.clear();
    verdict.receipt.generations.clear();
    verdict.admitted = result_ == Result::admitted;
    verdict.shadow_admitted = shadow_admitted_;
    verdict.retry_after = verdict.wait = verdict.earliest = Micros{0};
    if (result_ == Result::unavailable) return;
    bool earliest_known = true;
    for_each_part([&](const Part& part) {
        if (part.answer == Answer::admitted && verdict.admitted) {
            verdict.wait = std::max(verdict.wait, part.verdict.wait);
        } else if (part.answer == Answer::denied) {
            verdict.retry_after = std::max(verdict.retry_after, part.verdict.retry_after);
            verdict.earliest = std::max(verdict.earliest, part.verdict.earliest);
            if (part.verdict.earliest == Micros{0} && schedule_denied(part)) earliest_known = false;
        }
    });
    if (!earliest_known) verdict.earliest = Micros{0};
    for (std::size_t place = 0; place < items_.size(); ++place) {
        for_each_part([&](const Part& part) {
            if (part.answer != Answer::admitted && part.answer != Answer::denied) return;
            std::size_t first = 0;
            for (std::size_t i = 0; i < part.items.size(); ++i) {
                if (part.places[i] == place) {
                    decided.push_back(part.items[i]);
                    tell_limits(part, i, first, verdict);
                }
                first += part.items[i].limits().size();
            }
        });
    }
}

// Appends what the limits of an item say, whose first is at `first` in the part's own verdict.
void Joint::tell_limits(const Part& part, std::size_t item, std::size_t first,
                        limit::Verdict& verdict) const {
    const bool shadow = part.items[item].policy->shadow;
    const Back back = back_of(part);
    const bool taken = !shadow || part.verdict.shadow_admitted;
    const bool given_back = taken && (back == Back::all || (back == Back::shadow && shadow));
    for (const Limit& limit : part.items[item].limits()) {
        LimitVerdict told = part.verdict.limits[first++];
        // What counts the denied ones, too, keeps what it took.
        if (given_back && limit.count != limit::Count::all) tell_without(cost_, limit, told);
        verdict.limits.push_back(told);
    }
}

}  // namespace tidegate::store
