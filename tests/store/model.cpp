#include "store/model.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "store/model_counters.hpp"

namespace tidegate::test {

using limit::Micros;

std::vector<Model::Part> Model::parts_of(const limit::Charge& charge) {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        const limit::ChargeItem& item = charge.items[i];
        for (const limit::Limit& limit : item.limits()) {
            auto& counter = counters_[{item.policy->name, std::string(item.identifier), limit.id}];
            if (!counter) counter = make_counter(limit.algorithm);
            parts.push_back({&limit, counter.get(), i, item.policy, charge,
                             item.policy->shadow && item.policy->candidate_of == nullptr,
                             !item.policy->shadow && !item.policy->soft, false, false});
            parts.back().charge.cost = charge.cost_of(item);
        }
    }
    return parts;
}

// The first moment that every enforced schedule would accept: the one asked, or one at which
// something stops being in the way. None where no schedule is to take anything.
Micros Model::earliest(const std::vector<Part>& parts, std::int64_t now) {
    std::vector<const Part*> schedules;
    std::set<std::int64_t> moments;
    std::int64_t from = 0;
    bool any_takes = false;
    for (const Part& part : parts) {
        const auto* const counter = dynamic_cast<const ScheduleCounter*>(part.counter);
        if (counter == nullptr || !part.enforced ||
            !ScheduleCounter::concerned(*part.limit, part.charge, now)) {
            continue;
        }
        any_takes = any_takes || part.charge.cost > 0;
        schedules.push_back(&part);
        from = std::max(from, counter->moment_of({part.charge, now}));
        constexpr std::int64_t kDay = 86'400'000'000;
        for (const std::int64_t one : counter->moments()) {
            moments.insert(part.limit->utc_day ? (one / kDay + 1) * kDay
                                               : one + part.limit->duration.count());
        }
    }
    moments.insert(from);
    for (const std::int64_t moment : moments) {
        if (moment < from || !any_takes) continue;
        const bool fits = std::all_of(schedules.begin(), schedules.end(), [&](const Part* part) {
            const auto& counter = dynamic_cast<const ScheduleCounter&>(*part->counter);
            return part->charge.cost == 0 ||
                   counter.most_around(*part->limit, moment) + part->charge.cost <=
                       part->limit->quota;
        });
        if (fits) return Micros{moment};
    }
    return Micros{0};
}

// In the world in which the candidate is live, and the policy that it replaces is not there.
bool Model::is_admitted_by_candidate(const std::vector<Part>& parts,
                                     const limit::Policy& candidate) {
    bool admitted = true;
    for (const Part& part : parts) {
        const limit::Policy* const live =
            part.policy->twin_of != nullptr ? part.policy->twin_of : part.policy;
        const bool is_beside = part.enforced && live != candidate.candidate_of;
        if (part.policy == &candidate || is_beside) admitted = admitted && part.passes;
    }
    return admitted;
}

limit::Verdict Model::charge(const limit::Charge& charge, Micros now) {
    const auto question = [&](const Part& part) {
        return Question{part.charge, now.count(), slots_expire_};
    };
    limit::Verdict verdict;
    std::vector<Part> parts = parts_of(charge);
    for (Part& part : parts) {
        part.passes = part.counter->passes(*part.limit, question(part));
        if (part.shadow) verdict.shadow_admitted = verdict.shadow_admitted && part.passes;
        if (part.enforced) verdict.admitted = verdict.admitted && part.passes;
    }
    const auto granted = [&](const Part& part) {
        if (part.policy->candidate_of != nullptr) {
            return part.charge.cost > 0 && is_admitted_by_candidate(parts, *part.policy);
        }
        return part.charge.cost > 0 && verdict.admitted &&
               (!part.shadow || verdict.shadow_admitted);
    };
    verdict.receipt = {now, std::vector<std::uint64_t>(charge.items.size(), 0)};
    for (Part& part : parts) {
        if (granted(part)) verdict.receipt.generations[part.item] = 1;
        const bool takes =
            granted(part) || (part.charge.cost > 0 && part.limit->count == limit::Count::all);
        if (!takes) continue;
        if (part.enforced) {
            const Micros wait{part.counter->wait(*part.limit, question(part))};
            if (granted(part)) verdict.wait = std::max(verdict.wait, wait);
        }
        part.counter->take(*part.limit, question(part));
    }
    bool by_schedule = false;
    for (const Part& part : parts) {
        verdict.limits.push_back(part.counter->verdict_of(*part.limit, question(part)));
        verdict.limits.back().denied = !part.passes;
        if (verdict.admitted || !part.enforced ||
            part.counter->passes(*part.limit, question(part))) {
            continue;
        }
        const Micros retry{part.counter->retry(*part.limit, question(part))};
        verdict.retry_after = std::max(verdict.retry_after, retry);
        by_schedule = by_schedule || part.limit->algorithm == limit::Algorithm::schedule;
    }
    if (by_schedule) verdict.earliest = earliest(parts, now.count());
    return verdict;
}

void Model::give_back(const limit::Refund& refund, Micros now) {
    for (const Part& part : parts_of(refund.charge)) {
        if (part.charge.cost == 0 || refund.receipt->generations[part.item] == 0 ||
            !refund.concerns(*part.limit)) {
            continue;
        }
        part.counter->give_back(*part.limit, {part.charge, now.count()},
                                refund.receipt->at.count());
    }
}

void Model::release(const limit::Charge& charge) {
    for (const Part& part : parts_of(charge)) part.counter->release(charge.slot_hold);
}

}  // namespace tidegate::test
