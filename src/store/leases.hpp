// Admits requests from batches of units that this thread has taken from Redis in advance, and asks
// for new batches; lease_table.hpp has the rules. Only policies with `lease` have batches.
//
// One for each worker, on its thread. The servers are stopped before it is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "limit/charge.hpp"
#include "store/deny_cache.hpp"
#include "store/failure_policy.hpp"
#include "store/lease_table.hpp"
#include "store/limit_decision.hpp"
#include "store/metrics.hpp"
#include "store/redis_store.hpp"
#include "store/refund.hpp"

namespace tidegate::store {

// A decision of which batches have admitted some items or all. Reused with its decision; allocates
// only to grow.
struct LeasedPart {
    // What was spent of a batch.
    struct Spent {
        Lease* lease;
        Lease::Number batch;
        std::size_t position;  // among the items of the decision
        limit::Micros at;      // with the generation: the receipt of the batch
        std::uint64_t generation;
    };
    std::vector<Spent> spent;
    std::vector<limit::LimitVerdict> limits;  // of what was spent, in its order
    LimitDecision rest;  // the store decides it; without items, nothing is left to ask
};

class Leases {
  public:
    struct Parts {
        const RedisStore& redis;
        const Refunds& refunds;
        FreedIdentifiers* freed;   // may be null
        const Replicas* replicas;  // likewise: then there are no batches
        const FailurePolicy& failure_policy;
        Metrics& metrics;
    };
    enum class Served : std::uint8_t { none, some, all };

    // Sends the charge of a decision that has waited in vain, and whose result is not there yet.
    using Send = std::function<void(LimitDecision&)>;

    Leases(const Parts& parts, Send send);
    ~Leases();

    // Whether any policy has leases, and how many threads this process has. Ends all batches.
    void use(bool is_used, int threads);
    bool is_used() const { return is_used_; }

    // Spends of batches for the items that have them. `some`: part_of(decision).rest has the items
    // that the store is to be asked about. `all`: the decision has its verdict.
    Served serve(LimitDecision& decision, SteadyTime now);
    // Whether the decision, of which the last serve() has admitted nothing, waits for a batch that
    // is, or now gets, under way. Then its sleeper is woken when the result is there. Requires that
    // no denial of it is remembered.
    bool wait(LimitDecision& decision, SteadyTime now);
    // Asks for batches of the items that the last serve() had none for. After the request's own
    // command, which goes first.
    void refill(const LimitDecision& decision, SteadyTime now);
    // The rest is decided: makes the verdict of the whole. What was spent returns to its batches
    // unless the rest is admitted.
    void join(LimitDecision& decision, SteadyTime now);

    // Gives back what is left of batches that have ended. Call about every 50 ms.
    void tend(SteadyTime now);
    // Ends all batches, and gives back what is left.
    void end_all();
    // The same of an identifier whose counts are reset.
    void end_of(std::string_view identifier);
    // Whether nothing is under way to Redis, and what was given back has left.
    bool is_idle() const { return idle_.size() == commands_.size() && !has_unsent_; }

    // Units in batches of this thread that items with the identifier and a policy of that name
    // have.
    std::int64_t units_of(const limit::ChargeItem& item) const { return table_.units_of(item); }

    static LeasedPart& part_of(LimitDecision& decision);

  private:
    class Command;

    static void join_verdicts(LimitDecision& decision);
    bool ask(Lease& lease, std::int64_t units, const LimitDecision& decision, SteadyTime now);
    template <class Decide>
    void end_waiting(const Lease& lease, Decide decide);
    void decide_waiting(LimitDecision& decision);
    void give_back(const limit::ChargeItem& item, std::int64_t units,
                   const limit::Receipt& receipt);
    void append_rest(const LimitDecision& decision, LeasedPart& part) const;
    std::int64_t threads() const;

    Parts parts_;
    bool is_used_ = false;
    int threads_ = 1;  // of this process
    LeaseTable table_;
    Send send_;
    struct Unserved {
        Lease* lease;
        std::int64_t cost;
    };
    std::vector<Unserved> unserved_;           // by the last serve()
    const LimitDecision* may_wait_ = nullptr;  // it, of the last serve()
    struct Waiting {
        const Lease* lease;
        LimitDecision* decision;
    };
    std::vector<Waiting> waiting_;  // for batches that are under way
    std::vector<Waiting> ready_;    // scratch
    std::vector<std::unique_ptr<Command>> commands_;
    std::vector<Command*> idle_;  // of them
    bool has_unsent_ = false;     // what was given back may not have left yet
};

}  // namespace tidegate::store
