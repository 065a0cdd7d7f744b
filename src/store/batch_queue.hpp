// Sends decisions to Redis, those of one turn of the loop in as few commands as possible, and turns
// the replies into results. One a worker, on its thread.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "store/deny_cache.hpp"
#include "store/failure_policy.hpp"
#include "store/lease_renewal.hpp"
#include "store/limit_decision.hpp"
#include "store/redis_store.hpp"

namespace tidegate::store {

class BatchQueue {
  public:
    BatchQueue(const RedisStore& redis, DenyCache& denials, LeaseRenewal& leases,
               const FailurePolicy& failure_policy);
    ~BatchQueue();

    // Decides what lies in one slot of the store. The result is there when this returns (Redis took
    // no command), or later: then the sleeper of the decision is woken.
    void charge(LimitDecision& decision);

  private:
    class Command;

    bool join_open_command(LimitDecision& decision, std::size_t hash);
    Command* send(LimitDecision& decision, std::size_t hash);
    void admit_or_limit(LimitDecision& decision);
    void fail(LimitDecision& decision, StoreFailure failure);

    const RedisStore& redis_;
    DenyCache& denials_;
    LeaseRenewal& leases_;
    const FailurePolicy& failure_policy_;
    SteadyTime mixes_from_{};                         // earlier no different identifiers share one
    std::size_t waiting_ = 0;                         // different questions of this turn
    std::vector<Command*> open_;                      // have not left yet, oldest first
    std::vector<std::unique_ptr<Command>> commands_;  // all
    std::vector<Command*> idle_;                      // of them
};

}  // namespace tidegate::store
