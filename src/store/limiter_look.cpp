// A look at what is counted, before a request is worth a charge.
#include <algorithm>

#include "store/limiter.hpp"
#include "store/spread.hpp"

namespace tidegate::store {

namespace {

using Result = Decision::Result;

// As a charge of one unit would be answered.
limit::LimitVerdict verdict_of(const LimitCount& count) {
    return {.remaining = count.remaining,
            .next_unit = count.next_unit.value_or(limit::kNever),
            .denied = count.denied};
}

}  // namespace

void Limiter::look(Decision& decision, Wakeup& sleeper, SteadyTime now) {
    decision.asked_ = now;
    decision.store_failed = decision.remembered = false;
    decision.is_settled_ = true;
    decision.is_spread_ = false;
    decision.result = Result::admitted;
    if (!redis_.servers) {
        decision.decided_by = telemetry::StoreKind::memory;
        memory_->look(decision.charge(), process_now(), decision.verdict);
        if (!decision.verdict.admitted) decision.result = Result::limited;
        return;
    }
    decision.decided_by = telemetry::StoreKind::redis;
    if (denials_.recall(decision.charge(), now, decision.verdict)) {
        metrics_->count_deny_cache_hit();
        decision.remembered = true;
        decision.result = Result::limited;
        return;
    }
    // One command is all this is worth: an address that counts by prefixes in several slots passes.
    if (redis_.servers.is_cluster() && !lie_in_one_slot(decision.items)) return;
    decision.result = Result::pending;
    inspector_->count(decision.items, [this, &decision,
                                       &sleeper](const tidegate::Result<Counts, std::string>& got) {
        decision.result = Result::admitted;
        if (got) looked(decision, *got);
        sleeper.wake_later();
    });
}

void Limiter::looked(Decision& decision, const Counts& counts) {
    limit::Verdict& verdict = decision.verdict;
    verdict = {};
    for (const ItemCounts& item : counts.items) {
        for (const LimitCount& count : item.limits) {
            const limit::LimitVerdict& told = verdict.limits.emplace_back(verdict_of(count));
            if (!told.denied) continue;
            verdict.admitted = false;
            // Slots: when one is given up is not known, and they are not remembered.
            const limit::Micros wait = count.denied_for.value_or(std::chrono::seconds{1});
            verdict.retry_after =
                std::max({verdict.retry_after, wait, count.next_unit.value_or(wait)});
        }
    }
    if (verdict.admitted) return;
    decision.result = Result::limited;
    // What is denied one unit is denied more of them, too.
    limit::Charge asked = decision.charge();
    asked.cost = 1;
    denials_.remember(asked, verdict, decision.asked_);
}

}  // namespace tidegate::store
