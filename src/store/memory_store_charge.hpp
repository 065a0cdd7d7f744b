// The steps of a charge in the in-process store, on states that were found and are locked.
//
// Inline, as MemoryStore::charge() is made of them: calls would cost a tenth of it. Only
// memory_store.cpp includes this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "limit/charge.hpp"
#include "limit/gcra.hpp"
#include "store/memory_store_record.hpp"
#include "store/memory_store_shard.hpp"

namespace tidegate::store {

// An item of the charge and what the store knows of it.
struct Found {
    const limit::ChargeItem* item;
    StateName name;
    std::size_t shard = 0;
    State* state = nullptr;  // null: nothing is counted yet
    bool made = false;       // by this charge
    bool takes = false;      // some limit of it takes units
    bool granted = false;    // they may be given back: its group of policies admitted

    bool shadow() const { return item->policy->shadow; }
};

// A limit of an item: its record in the state and how it stands.
struct Step {
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);  // no record yet

    Found* found;
    const limit::Limit* limit;
    std::size_t record = kNone;
    bool passes = false;
    bool takes = false;
    Standing standing{};
};

// One a thread, so that a charge allocates nothing once it has been as large before.
struct Scratch {
    std::vector<Found> found;
    std::vector<Step> steps;  // items in their order, limits in their order
};

// What a limit counts that was never asked before.
inline const Record& nothing_of(const limit::Limit& limit) {
    static const auto kNothing = [] {
        std::vector<Record> records;
        for (std::size_t i = 0; i < limit::kAlgorithms.size(); ++i) {
            limit::Limit some;
            some.algorithm = static_cast<limit::Algorithm>(i);
            records.emplace_back(some);
        }
        limit::Limit day;
        day.anchor = limit::Anchor::utc_day;
        records.emplace_back(day);
        return records;
    }();
    const bool is_period = limit.state() == limit::StateKind::period;
    return is_period ? kNothing.back() : kNothing[static_cast<std::size_t>(limit.algorithm)];
}

inline const Record& record_of(const Step& step) {
    return step.record == Step::kNone ? nothing_of(*step.limit)
                                      : step.found->state->records[step.record];
}

template <class Kind>
const typename Kind::Look& standing_of(const Kind&, const Step& step) {
    return *std::get_if<typename Kind::Look>(&step.standing);
}

inline void look(const Asked& asked, Step& step) {
    record_of(step).with([&](const auto& kind) {
        const auto standing = kind.look(*step.limit, asked);
        step.passes = kind.passes(*step.limit, asked, standing);
        step.standing = standing;
    });
}

// Looks at every limit of every item, changing nothing: the verdict as far as it hangs on what is
// counted now.
inline void begin_verdict(const Asked& asked, Scratch& work, limit::Verdict& verdict) {
    verdict.admitted = verdict.shadow_admitted = true;
    verdict.retry_after = verdict.wait = verdict.earliest = limit::Micros{0};
    verdict.limits.clear();
    work.steps.clear();
    for (Found& found : work.found) {
        const auto limits = found.item->limits();
        for (std::size_t i = 0; i < limits.size(); ++i) {
            Step& step = work.steps.emplace_back(Step{&found, &limits[i]});
            if (found.state != nullptr) {
                const std::size_t record = found.state->find(limits[i], i);
                if (record < found.state->records.size()) step.record = record;
            }
            look(asked, step);
            bool& admitted = found.shadow() ? verdict.shadow_admitted : verdict.admitted;
            admitted = admitted && step.passes;
            verdict.limits.push_back({.denied = !step.passes});
        }
    }
}

// Who takes: all of a group that admits, else those of its limits that count the denied ones too.
// The shadow group takes nothing where the other denies.
inline bool choose_takers(const limit::Charge& charge, const limit::Verdict& verdict,
                          Scratch& work) {
    if (charge.cost == 0) return false;
    for (Found& found : work.found) {
        found.granted = verdict.admitted && (verdict.shadow_admitted || !found.shadow());
    }
    bool any = false;
    for (Step& step : work.steps) {
        step.takes = step.found->granted || step.limit->count == limit::Count::all;
        step.found->takes = step.found->takes || step.takes;
        any = any || step.takes;
    }
    return any;
}

// The answer does not hang on the shadow group: without room it takes nothing.
inline void leave_out_shadow(Scratch& work) {
    for (Step& step : work.steps) {
        Found& found = *step.found;
        if (found.shadow()) step.takes = found.takes = found.granted = false;
    }
}

// Reuses a record that has expired and is none of the item's, so that reloads leave nothing behind.
// Positions of other records stay.
inline std::size_t add_record(State& state, std::span<const limit::Limit> limits,
                              const limit::Limit& limit, const limit::Now& now) {
    const auto stale =
        std::find_if(state.records.begin(), state.records.end(), [&](const Record& record) {
            return record.ends_us(now) <= now.steady.count() && !record.holds_slots() &&
                   std::none_of(limits.begin(), limits.end(),
                                [&](const limit::Limit& one) { return record.counts(one); });
        });
    const auto position = static_cast<std::size_t>(stale - state.records.begin());
    if (stale == state.records.end()) {
        if (state.records.empty()) state.records.reserve(limits.size());
        state.records.emplace_back(limit);
    } else {
        state.records[position].reset(limit);
    }
    return position;
}

// Allocates all that take() needs, before the first unit is taken.
inline void make_records(const Asked& asked, Scratch& work) {
    for (Step& step : work.steps) {
        if (!step.takes) continue;
        State& state = *step.found->state;
        if (step.record == Step::kNone) {
            step.record = add_record(state, step.found->item->limits(), *step.limit, asked.now);
        }
        state.records[step.record].with(
            [&](auto& kind) { kind.reserve(*step.limit, asked, standing_of(kind, step)); });
    }
}

inline void take(const Asked& asked, Scratch& work) {
    for (Step& step : work.steps) {
        if (!step.takes) continue;
        State& state = *step.found->state;
        Record& record = state.records[step.record];
        record.take(*step.limit, asked, step.standing);
        state.expires_us = std::max(state.expires_us, record.ends_us(asked.now));
        // A denial that took tells what is so now.
        if (!step.found->granted) look(asked, step);
    }
}

// How a schedule stands that is enforced for the moment of the request; null: the step is another.
inline const MomentStanding* schedule_of(const Step& step) {
    const auto* const standing = std::get_if<MomentStanding>(&step.standing);
    const bool decides = standing != nullptr && standing->concerned && !step.found->shadow();
    return decides ? standing : nullptr;
}

// The first moment that all schedules would accept; 0 for none.
inline limit::Micros earliest_of_all(const Asked& asked, const Scratch& work) {
    limit::Micros moment{0};
    for (const Step& step : work.steps) {
        if (const auto* schedule = schedule_of(step)) moment = std::max(moment, schedule->at);
    }
    for (limit::Micros before{-1}; before != moment && moment != limit::kNever;) {
        before = moment;
        for (const Step& step : work.steps) {
            if (moment == limit::kNever || schedule_of(step) == nullptr) continue;
            moment = record_of(step).moments().earliest(*step.limit, asked, moment);
        }
    }
    return moment == limit::kNever ? limit::Micros{0} : moment;
}

// When a denied request would pass: the latest of all limits that do not let it pass as they stand
// now, be it because they deny or because they counted this very denial.
inline void tell_retry(const Asked& asked, const Scratch& work, limit::Verdict& verdict) {
    bool by_schedule = false;
    for (const Step& step : work.steps) {
        if (step.passes || step.found->shadow()) continue;
        const limit::Micros retry = record_of(step).with([&](const auto& kind) {
            return kind.retry(*step.limit, asked, standing_of(kind, step));
        });
        verdict.retry_after = std::max(verdict.retry_after, retry);
        by_schedule = by_schedule || step.limit->is_schedule();
    }
    // A cost of 0 asks whether there is room, and nothing else.
    if (by_schedule && asked.charge.cost > 0) verdict.earliest = earliest_of_all(asked, work);
}

// What clients see, of a denial with the time to come back.
inline void end_verdict(const Asked& asked, const Scratch& work, limit::Verdict& verdict) {
    if (!verdict.admitted) tell_retry(asked, work, verdict);
    for (std::size_t i = 0; i < work.steps.size(); ++i) {
        const Step& step = work.steps[i];
        const std::int64_t taken = step.found->granted ? asked.charge.cost : 0;
        limit::LimitVerdict& its_verdict = verdict.limits[i];
        const bool denied = its_verdict.denied;
        its_verdict = record_of(step).with([&](const auto& kind) {
            return kind.verdict_of(*step.limit, asked, standing_of(kind, step), taken);
        });
        its_verdict.denied = denied;
        if (taken > 0 && step.limit->traits().queues && !step.found->shadow()) {
            const auto& backlog = std::get<limit::ExactTime>(step.standing);
            verdict.wait = std::max(verdict.wait, limit::wait_of(backlog));
        }
    }
}

inline void write_receipt(const Asked& asked, const Scratch& work, limit::Receipt& receipt) {
    receipt.at = asked.now.steady;
    receipt.generations.clear();
    for (const Found& found : work.found) {
        receipt.generations.push_back(found.granted && found.takes ? found.state->generation : 0);
    }
}

}  // namespace tidegate::store
