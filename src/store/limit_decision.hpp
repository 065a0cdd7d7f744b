// One question to the limiter and its answer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "limit/charge.hpp"
#include "net/wakeup.hpp"
#include "store/metrics.hpp"
#include "store/redis_store.hpp"

namespace tidegate::config {
struct Config;
}

namespace tidegate::store {

class CrossSlotCharge;
struct LeasedPart;

// In a list while it holds slots of concurrency that SlotRenewal renews.
using SlotHoldHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

// Owned by the request; reused from request to request.
struct LimitDecision : SlotHoldHook {
    enum class Result : std::uint8_t {
        pending,
        admitted,
        limited,
        unavailable,  // the store did not answer and a policy says deny
    };

    LimitDecision();
    ~LimitDecision();
    LimitDecision(const LimitDecision&) = delete;
    LimitDecision& operator=(const LimitDecision&) = delete;

    // The question. It stays as it is until the result is there and, if that is `admitted`, until
    // settle().
    std::vector<limit::ChargeItem> items;
    std::int64_t cost = 1;
    limit::Micros moment{0};  // for limits of schedule
    // Whether an admission leaves something to do: units to give back by status, a place in a line,
    // a slot to release (may_be_given_back() of any limit).
    bool needs_settling = false;
    // Asked by itself and of the store itself: the receipt is its own, and neither other decisions
    // nor a remembered denial answer it.
    bool is_alone = false;
    // The store is not waited for any longer: then the failure policy decides. It is never waited
    // for longer than its own timeout.
    SteadyTime needed_by = SteadyTime::max();
    // Owns what the items point to, but for the identifiers. Null: only the thread of the request
    // may send the charge.
    const std::shared_ptr<const config::Config>* owner = nullptr;

    // The answer. `verdict` is about `decided()`: all items, or those that were decided where the
    // store failed or others denied first.
    Result result = Result::pending;
    limit::Verdict verdict;
    StoreKind decided_by = StoreKind::memory;
    bool store_failed = false;  // the failure policy decided
    bool remembered = false;    // the deny cache decided
    // Redis Cluster: items of the client alone denied, so that those it shares were not asked.
    bool is_partial = false;

    std::span<const limit::ChargeItem> decided() const {
        const bool some = store_failed || is_partial;
        return some ? std::span<const limit::ChargeItem>(store_state.decided) : items;
    }
    limit::Charge charge() const { return charge_of(decided()); }
    // The same charge of some of the items.
    limit::Charge charge_of(std::span<const limit::ChargeItem> some) const {
        return {some, cost, store_state.slot_hold, moment};
    }

    // The limiter keeps this state from decide() to settle(). Only the files of store/ use it.
    struct StoreState {
        Wakeup* sleeper = nullptr;
        SteadyTime asked;           // not later than anything was sent
        limit::SlotHold slot_hold;  // for limits of concurrency
        SteadyTime renewed;         // while it holds slots in Redis
        bool is_settled = true;
        bool has_status = false;                      // of the answer: units were given back by it
        bool crosses_slots = false;                   // of a cluster
        bool is_leased = false;                       // `leased` has admitted some items or all
        bool has_waited = false;                      // for a batch of leases in vain, once
        std::vector<limit::ChargeItem> decided;       // if not all items are
        std::unique_ptr<CrossSlotCharge> cross_slot;  // once it was needed; kept for the next time
        std::unique_ptr<LeasedPart> leased;           // likewise
    };
    StoreState store_state;
};

inline LimitDecision::Result result_of(const limit::Verdict& verdict) {
    return verdict.admitted ? LimitDecision::Result::admitted : LimitDecision::Result::limited;
}

}  // namespace tidegate::store
