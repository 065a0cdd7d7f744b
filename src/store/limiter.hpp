// A worker's way to a verdict: the in-process store, or Redis with the deny cache before it and the
// failure policy behind it. limiter.cpp is the map of that way.
//
// One a worker, on its thread; the in-process store and the number of replicas, which workers
// share, outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "limit/charge.hpp"
#include "net/wakeup.hpp"
#include "store/batch_queue.hpp"
#include "store/correction.hpp"
#include "store/cross_slot_charge.hpp"
#include "store/deny_cache.hpp"
#include "store/failure_policy.hpp"
#include "store/inspector.hpp"
#include "store/leases.hpp"
#include "store/limit_decision.hpp"
#include "store/local_report.hpp"
#include "store/memory_store.hpp"
#include "store/metrics.hpp"
#include "store/redis_store.hpp"
#include "store/refund.hpp"

namespace tidegate::store {

class Limiter {
  public:
    struct RedisParts {
        RedisStore store;
        const Replicas* replicas = nullptr;        // for the local share
        const Replicas* known_replicas = nullptr;  // for leases
        DenyCache::Options deny_cache{};
        LocalReport::Options local_report{};
        FreedIdentifiers* freed = nullptr;  // that the workers of the process share
        std::optional<BatchQueue::Sharing> sharing{};
    };

    // Counts in `memory` alone.
    Limiter(MemoryStore& memory, Metrics& metrics);
    // Counts in Redis; `memory` is what `local` falls back to.
    Limiter(MemoryStore& memory, RedisParts redis, Metrics& metrics);

    // Decides, or begins to: then decision.result is `pending`, and `sleeper` is woken when it is
    // no longer, at the latest when Redis's deadline, counted from `now`, has passed. Both must
    // live until then. Decisions of one turn of the loop about the same items become one command
    // to Redis, and so do some about different ones under the same policies.
    void decide(LimitDecision& decision, Wakeup& sleeper,
                SteadyTime now = std::chrono::steady_clock::now());

    // Whether decide() is still waiting for the store. Call it each time the sleeper was woken.
    bool is_pending(LimitDecision& decision);

    // Whether a charge of decision.items would be denied now, as far as the store knows; takes
    // nothing. The result is `limited` with its verdict, else `admitted` without one: also when the
    // store fails, as a caller only wants to save effort. Redis is asked about one unit: decide()
    // may deny a request of a higher cost that this lets pass, and retry_after may be too short.
    // Requires items without schedules, not in shadow. `sleeper` as for decide(). There is nothing
    // to settle.
    void look(LimitDecision& decision, Wakeup& sleeper,
              SteadyTime now = std::chrono::steady_clock::now());

    // The request has ended with an answer of `status`: gives back what does not count
    // with that status, and gives up the slots of concurrency once `hold` has passed. Does not
    // wait.
    void settle(LimitDecision& decision, limit::AnswerStatus status,
                std::chrono::milliseconds hold = std::chrono::milliseconds{0});

    // The request was answered with `status` and goes on for long: gives back what does not count
    // with that status. The rest settle() does, which no longer asks for the status.
    void note_status(LimitDecision& decision, limit::AnswerStatus status);

    // What the request has truly cost, by item of decision.items, in place of what it was charged;
    // -1: that stays. Less is given back, more is taken, above the quota as well. Once, before
    // settle(). Does not wait. Requires items with costs of their own, of limits that count
    // admitted requests and that time alone frees.
    void correct(LimitDecision& decision, std::span<const std::int64_t> used);

    // What was admitted is not to hold after all: gives back all that it took. Does not wait.
    // Requires decision.is_alone.
    void give_back(LimitDecision& decision);

    // The client left while leaky_bucket had the request held: gives up its place if it is the last
    // in line. Before settle().
    void leave_line(LimitDecision& decision);

    // Gives back, of what was taken in process, what the charge and its receipt say.
    void give_back_in_process(const limit::Charge& charge, const limit::Receipt& receipt) const {
        refunds_.give_back({charge, receipt, false}, limit::Refund::Of::all);
    }
    // The identifier was given units back in Redis: no worker of the process repeats a denial from
    // before.
    void note_freed(std::string_view identifier) {
        if (freed_ != nullptr) freed_->add(identifier, std::chrono::steady_clock::now());
    }

    // Forgets all denials if the wall clock was set since the last call: those of days and months
    // hold by it. Call several times a second.
    void follow_wall_clock(SteadyTime now);

    // Renews the slots that requests hold in Redis. Call about once a second.
    void renew_slots(SteadyTime now) { slot_renewal_.renew(now); }

    // Tells Redis, if it is back, what was admitted and what was corrected without it. Call about
    // every 50 ms.
    void report_local(SteadyTime now) {
        local_report_.send(now);
        corrections_.send(now);
    }

    // Looks after charges that other threads have. Call about every 50 ms.
    void tend_lent(SteadyTime now) { batches_.tend(now); }
    // Gives back what is left of leases that have ended. Call about every 50 ms.
    void tend_leases(SteadyTime now) { batches_of_leases_.tend(now); }
    // Whether nothing is under way to Redis whose answer matters, for this thread or for others.
    bool is_idle() const {
        return batches_.is_idle() && batches_of_leases_.is_idle() && corrections_.is_idle() &&
               local_report_.is_idle();
    }
    // Of what requests cost in the end: for how many identifiers Redis is still to count more than
    // was taken,
    std::size_t owed() const { return local_report_.owed(); }
    // and whether it is still to get back units, and is there.
    bool has_unsent_refunds() const { return corrections_.has_unsent(); }

    // Counts of these items were reset: forgets all denials, and what was admitted of the items
    // without Redis.
    void forget(std::span<const limit::ChargeItem> items);
    // The limits have changed: forgets all denials.
    void forget_denials(const DenyCache::Options& bounds) {
        denials_.restart(bounds, std::chrono::steady_clock::now());
    }

    // Whether policies have leases, and how many threads of this process share them. Those that
    // there are end, and what is left is given back.
    void use_leases(bool are_used, int threads) { batches_of_leases_.use(are_used, threads); }

    // How many units of each item are in leases of this thread.
    std::vector<std::int64_t> leased(std::span<const limit::ChargeItem> items) const;

    // Null: counts in process alone.
    const RedisStore* redis() const { return redis_.servers ? &redis_ : nullptr; }
    // Requires Redis.
    const Inspector& inspector() const { return *inspector_; }

  private:
    void decide_with_leases(LimitDecision& decision, Wakeup& sleeper, SteadyTime now);
    void ask(LimitDecision& decision, Wakeup& sleeper, SteadyTime now);
    void send(LimitDecision& decision);
    CrossSlotCharge& cross_slot_of(LimitDecision& decision);
    bool is_denied_already(LimitDecision& decision);
    void read_look(LimitDecision& decision, const Counts& counts);

    MemoryStore& memory_;
    Metrics& metrics_;
    RedisStore redis_;  // no servers: counts in process
    FreedIdentifiers* freed_;
    DenyCache denials_;
    LocalReport local_report_;
    FailurePolicy failure_policy_;
    Refunds refunds_;
    Corrections corrections_;
    SlotRenewal slot_renewal_;
    BatchQueue batches_;
    Leases batches_of_leases_;
    CrossSlotCharge::Services cross_slot_services_;
    std::optional<Inspector> inspector_;  // with Redis
    std::uint64_t slot_holder_;
    std::uint64_t last_slot_hold_ = 0;
    std::uint64_t clock_steps_ = 0;  // that were noticed
};

}  // namespace tidegate::store
