#include "store/limiter.hpp"

#include <algorithm>
#include <cassert>
#include <random>
#include <utility>

#include "store/process_clock.hpp"

namespace tidegate::store {

namespace {

// As a charge of one unit would be answered.
limit::LimitVerdict verdict_of(const LimitCount& count) {
    const limit::Micros otherwise = count.remaining > 0 ? limit::Micros{0} : limit::kNever;
    return {.remaining = count.remaining,
            .next_unit = count.next_unit.value_or(otherwise),
            .denied = count.denied};
}

void begin(LimitDecision& decision, SteadyTime now, StoreKind store) {
    decision.decided_by = store;
    decision.store_failed = decision.remembered = decision.is_partial = false;
    decision.store_state.asked = now;
    decision.store_state.crosses_slots = decision.store_state.is_leased = false;
    decision.store_state.has_waited = false;
}

}  // namespace

Limiter::Limiter(MemoryStore& memory, Metrics& metrics) : Limiter(memory, RedisParts{}, metrics) {}

Limiter::Limiter(MemoryStore& memory, RedisParts redis, Metrics& metrics)
    : memory_(memory),
      metrics_(metrics),
      redis_(std::move(redis.store)),
      freed_(redis.freed),
      denials_(redis.deny_cache, redis.freed),
      local_report_(redis_, redis.local_report, metrics),
      failure_policy_(memory, redis.replicas, local_report_, metrics),
      refunds_(redis_, memory, local_report_, redis.freed),
      corrections_(redis_, memory, refunds_, local_report_, redis.freed),
      slot_renewal_(redis_),
      batches_(redis_, denials_, slot_renewal_, failure_policy_, redis.sharing),
      batches_of_leases_({redis_, refunds_, redis.known_replicas, failure_policy_, metrics},
                         [this](LimitDecision& decision) { batches_.charge_later(decision); }),
      cross_slot_services_{redis_, failure_policy_, refunds_, slot_renewal_, denials_, metrics} {
    if (redis_.servers) inspector_.emplace(redis_);
    std::random_device device;
    slot_holder_ = std::uint64_t{device()} << 32 | device();
}

void Limiter::decide(LimitDecision& decision, Wakeup& sleeper, SteadyTime now) {
    if (batches_of_leases_.is_used()) {
        decide_with_leases(decision, sleeper, now);
    } else {
        ask(decision, sleeper, now);
    }
}

// A request that batches admit alone asks nothing. Of others the store is asked about the rest.
void Limiter::decide_with_leases(LimitDecision& decision, Wakeup& sleeper, SteadyTime now) {
    begin(decision, now, StoreKind::redis);
    decision.store_state.is_settled = !decision.needs_settling;
    decision.store_state.has_status = false;
    const Leases::Served served = batches_of_leases_.serve(decision, now);
    if (served == Leases::Served::all) return;
    if (served == Leases::Served::none) {
        ask(decision, sleeper, now);
    } else {
        decision.store_state.is_leased = true;
        LimitDecision& rest = Leases::part_of(decision).rest;
        ask(rest, sleeper, now);
        decision.result = LimitDecision::Result::pending;
        is_pending(decision);
    }
    // A denial that is remembered is of a limit that has nothing left, or of another one.
    const bool is_asked = !decision.remembered && !decision.store_failed;
    if (is_asked) batches_of_leases_.refill(decision, now);
}

bool Limiter::is_pending(LimitDecision& decision) {
    if (decision.result != LimitDecision::Result::pending) return false;
    if (!decision.store_state.is_leased) return true;
    const LimitDecision& rest = Leases::part_of(decision).rest;
    if (rest.result == LimitDecision::Result::pending) return true;
    batches_of_leases_.join(decision, std::chrono::steady_clock::now());
    return false;
}

void Limiter::ask(LimitDecision& decision, Wakeup& sleeper, SteadyTime now) {
    const bool in_redis = static_cast<bool>(redis_.servers);
    begin(decision, now, in_redis ? StoreKind::redis : StoreKind::memory);
    LimitDecision::StoreState& state = decision.store_state;
    state.sleeper = &sleeper;
    state.slot_hold = {slot_holder_, ++last_slot_hold_};
    state.is_settled = !decision.needs_settling;
    state.has_status = false;
    decision.result = LimitDecision::Result::pending;
    if (!in_redis) {
        decision.result = charge_in_process(memory_, decision.charge(), decision.verdict, metrics_);
    } else if (!decision.is_alone && is_denied_already(decision)) {
        return;
    } else if (now >= decision.needed_by) {
        failure_policy_.decide(decision, StoreFailure::timeout);
    } else if (!batches_of_leases_.is_used() || !batches_of_leases_.wait(decision, now)) {
        send(decision);
    }
}

void Limiter::send(LimitDecision& decision) {
    if (redis_.crosses_slots(decision.items)) {
        cross_slot_of(decision).begin();
    } else {
        batches_.charge(decision);
    }
}

CrossSlotCharge& Limiter::cross_slot_of(LimitDecision& decision) {
    auto& charge = decision.store_state.cross_slot;
    if (!charge) charge = std::make_unique<CrossSlotCharge>(cross_slot_services_, decision);
    return *charge;
}

bool Limiter::is_denied_already(LimitDecision& decision) {
    const bool is_denied =
        redis_.crosses_slots(decision.items)
            ? denials_.size() > 0 && cross_slot_of(decision).recall()
            : denials_.recall(decision.charge(), decision.store_state.asked, decision.verdict);
    if (!is_denied) return false;
    metrics_.deny_cache_hits.add();
    decision.remembered = true;
    decision.result = LimitDecision::Result::limited;
    return true;
}

void Limiter::look(LimitDecision& decision, Wakeup& sleeper, SteadyTime now) {
    const bool in_redis = static_cast<bool>(redis_.servers);
    begin(decision, now, in_redis ? StoreKind::redis : StoreKind::memory);
    decision.store_state.is_settled = true;
    decision.result = LimitDecision::Result::admitted;
    if (!in_redis) {
        memory_.look(decision.charge(), process_now(), decision.verdict);
        decision.result = result_of(decision.verdict);
        return;
    }
    if (is_denied_already(decision)) return;
    // Not worth several commands: an address that counts by prefixes in several slots passes.
    if (redis_.crosses_slots(decision.items)) return;
    decision.result = LimitDecision::Result::pending;
    inspector_->count(
        decision.items, decision.needed_by,
        [this, &decision, &sleeper](const tidegate::Result<Counts, std::string>& counts) {
            decision.result = LimitDecision::Result::admitted;
            if (counts) read_look(decision, *counts);
            sleeper.wake_later();
        });
}

void Limiter::read_look(LimitDecision& decision, const Counts& counts) {
    limit::Verdict& verdict = decision.verdict;
    verdict = {};
    for (std::size_t i = 0; i < counts.items.size(); ++i) {
        for (const LimitCount& count : counts.items[i].limits) {
            verdict.limits.push_back(verdict_of(count));
            if (!count.denied || decision.items[i].policy->soft) continue;
            verdict.admitted = false;
            // Slots: when one is given up is not known, and the deny cache does not take them.
            const limit::Micros wait = count.denied_for.value_or(std::chrono::seconds{1});
            verdict.retry_after =
                std::max({verdict.retry_after, wait, count.next_unit.value_or(wait)});
        }
    }
    decision.result = result_of(verdict);
    if (verdict.admitted) return;
    // A limit that denies one unit denies more of them, too.
    limit::Charge asked = decision.charge();
    asked.cost = 1;
    denials_.remember(asked, verdict, decision.store_state.asked);
}

void Limiter::settle(LimitDecision& decision, limit::AnswerStatus status,
                     std::chrono::milliseconds hold) {
    if (decision.is_linked()) decision.unlink();
    if (decision.store_state.is_leased) {
        LimitDecision& rest = Leases::part_of(decision).rest;
        if (rest.is_linked()) rest.unlink();
    }
    if (decision.result != LimitDecision::Result::admitted) return;
    if (std::exchange(decision.store_state.is_settled, true)) return;
    const bool has_status = decision.store_state.has_status;
    for_each_admission(decision, [&](const Admission& admission) {
        if (!has_status) refunds_.give_back(admission, limit::Refund::Of::status, status);
        refunds_.release(admission.charge, admission.in_redis, hold);
    });
}

void Limiter::note_status(LimitDecision& decision, limit::AnswerStatus status) {
    if (decision.result != LimitDecision::Result::admitted || decision.store_state.is_settled)
        return;
    if (std::exchange(decision.store_state.has_status, true)) return;
    for_each_admission(decision, [&](const Admission& admission) {
        refunds_.give_back(admission, limit::Refund::Of::status, status);
    });
}

void Limiter::give_back(LimitDecision& decision) {
    if (decision.result != LimitDecision::Result::admitted) return;
    for_each_admission(decision,
                       [&](const Admission& admission) { refunds_.give_back_all(admission); });
}

void Limiter::correct(LimitDecision& decision, std::span<const std::int64_t> used) {
    if (decision.result != LimitDecision::Result::admitted) return;
    assert(used.size() == decision.items.size());
    for_each_admission(decision, [&](const Admission& admission) {
        corrections_.correct(admission, decision, used);
    });
}

void Limiter::leave_line(LimitDecision& decision) {
    if (decision.result != LimitDecision::Result::admitted) return;
    for_each_admission(decision, [&](const Admission& admission) {
        refunds_.give_back(admission, limit::Refund::Of::place);
    });
}

void Limiter::follow_wall_clock(SteadyTime now) {
    const std::uint64_t steps = wall_clock_steps();
    if (std::exchange(clock_steps_, steps) == steps) return;
    denials_.clear(now);
    batches_of_leases_.end_all();
}

std::vector<std::int64_t> Limiter::leased(std::span<const limit::ChargeItem> items) const {
    std::vector<std::int64_t> units;
    units.reserve(items.size());
    for (const limit::ChargeItem& item : items) units.push_back(batches_of_leases_.units_of(item));
    return units;
}

void Limiter::forget(std::span<const limit::ChargeItem> items) {
    denials_.clear(std::chrono::steady_clock::now());
    local_report_.forget(items);
    for (const limit::ChargeItem& item : items) batches_of_leases_.end_of(item.identifier);
}

}  // namespace tidegate::store
