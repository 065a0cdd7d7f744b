#include "store/failure_policy.hpp"

#include <algorithm>

#include "base/described_enum.hpp"
#include "store/process_clock.hpp"

namespace tidegate::store {

using limit::OnStoreFailure;

StoreFailure failure_of(redis::Failure failure) {
    static constexpr EnumTable<redis::Failure, StoreFailure> kCounted(
        {{redis::Failure::timeout, StoreFailure::timeout},
         {redis::Failure::disconnected, StoreFailure::disconnected},
         {redis::Failure::unavailable, StoreFailure::unavailable},
         {redis::Failure::overloaded, StoreFailure::overloaded},
         {redis::Failure::not_ready, StoreFailure::refused},
         {redis::Failure::refused, StoreFailure::refused}});
    return kCounted[failure];
}

LimitDecision::Result charge_in_process(MemoryStore& memory, const limit::Charge& charge,
                                        limit::Verdict& verdict, Metrics& metrics) {
    if (memory.charge(charge, process_now(), verdict) == MemoryStore::Outcome::full) {
        metrics.failures[StoreFailure::full].add();
        return LimitDecision::Result::unavailable;
    }
    return result_of(verdict);
}

void FailurePolicy::decide(LimitDecision& decision, StoreFailure failure) const {
    metrics_.failures[failure].add();
    decision.store_failed = true;
    decision.decided_by = StoreKind::local;
    auto& decided = decision.store_state.decided;
    decided.clear();
    const bool can_be_local = knows_share();
    bool denied = false;
    for (const limit::ChargeItem& item : decision.items) {
        switch (item.policy->on_store_failure) {
            case OnStoreFailure::deny:
                denied = denied || item.policy->is_enforced();
                break;
            case OnStoreFailure::local:
                denied = denied || (!can_be_local && item.policy->is_enforced());
                if (can_be_local) decided.push_back(item);
                break;
            case OnStoreFailure::local_or_alone:
                decided.push_back(item);
                break;
            case OnStoreFailure::allow:
                break;
        }
    }
    if (denied) {
        decided.clear();
        decision.result = LimitDecision::Result::unavailable;
    } else if (decided.empty()) {
        decision.verdict = {};
        decision.result = LimitDecision::Result::admitted;
    } else {
        decision.result = charge(decision.charge(), decision.verdict);
    }
}

LimitDecision::Result FailurePolicy::charge(const limit::Charge& charge,
                                            limit::Verdict& verdict) const {
    memory_.set_divisor(std::max(replicas(), 1));
    const LimitDecision::Result result = charge_in_process(memory_, charge, verdict, metrics_);
    if (result != LimitDecision::Result::unavailable) local_report_.took(charge, verdict);
    return result;
}

}  // namespace tidegate::store
