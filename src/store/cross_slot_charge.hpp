// A decision about items in several slots of Redis Cluster: sends a command for each slot, joins
// the answers, gives back what some slots took where others denied, and has the denials remembered
// of what is the client's alone.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "limit/charge.hpp"
#include "redis/client.hpp"
#include "store/cross_slot_verdict.hpp"
#include "store/deny_cache.hpp"
#include "store/failure_policy.hpp"
#include "store/freed_identifiers.hpp"
#include "store/lease_renewal.hpp"
#include "store/limit_decision.hpp"
#include "store/metrics.hpp"
#include "store/redis_store.hpp"
#include "store/refund.hpp"

namespace tidegate::store {

// Owned by its decision, which lives until every slot has answered.
class CrossSlotCharge {
  public:
    // What it works with; they outlive it.
    struct Services {
        const RedisStore& redis;
        const FailurePolicy& failure_policy;
        const Refunds& refunds;
        LeaseRenewal& leases;
        DenyCache& denials;
        FreedIdentifiers* freed;  // may be null
        Metrics& metrics;
    };

    CrossSlotCharge(const Services& services, LimitDecision& decision);
    ~CrossSlotCharge();

    // Decides anew. Wakes the sleeper of the decision when the result is there.
    void begin();

    // Whether items of the client alone were denied, and that still holds: then the decision has
    // the denial, which is about these items.
    bool recall();

    // Once there is a result.
    const CrossSlotVerdict& verdict() const { return verdict_; }

  private:
    class Command;
    using Part = CrossSlotVerdict::Part;

    limit::Charge charge_of(const Part& part) const { return decision_.charge_of(part.items); }
    static bool is_of_client(const Part& part);
    Command& command_for(std::size_t part);
    void send();
    void fail(Part& part, StoreFailure failure);
    void go_on();
    void charge_in_process(Part& part) const;
    void end();
    bool counts_denied() const;
    void remember_denials() const;
    void give_back_parts();
    void give_back(Part& part, CrossSlotVerdict::GiveBack what);

    const Services& services_;
    LimitDecision& decision_;
    CrossSlotVerdict verdict_;
    StoreFailure failure_{};   // of the part that failed first
    bool is_sending_ = false;  // not all commands were sent: the end has to wait
    std::vector<std::unique_ptr<Command>> commands_;
};

// Calls `visit(Admission)` for each place where an admitted decision took something.
template <class Visit>
void for_each_admission(const LimitDecision& decision, Visit visit) {
    if (!decision.store_state.crosses_slots) {
        visit(Admission{decision.charge(), decision.verdict.receipt,
                        decision.decided_by == StoreKind::redis});
        return;
    }
    const auto visit_part = [&](const CrossSlotVerdict::Part& part, bool in_redis) {
        if (part.answer != CrossSlotVerdict::Answer::admitted) return;
        visit(Admission{decision.charge_of(part.items), part.verdict.receipt, in_redis});
    };
    const CrossSlotVerdict& verdict = decision.store_state.cross_slot->verdict();
    for (const auto& part : verdict.parts()) visit_part(part, true);
    for (const auto& local : verdict.locals()) visit_part(local, false);
}

}  // namespace tidegate::store
