// Decides in place of Redis when it fails, as `on_store_failure` of each policy says.
#pragma once

#include <atomic>

#include "limit/charge.hpp"
#include "redis/client.hpp"
#include "store/limit_decision.hpp"
#include "store/local_report.hpp"
#include "store/memory_store.hpp"
#include "store/metrics.hpp"

namespace tidegate::store {

// A number of proxies that all threads read; see ReplicaFigures.
using Replicas = std::atomic<int>;

// How a failure of Redis is counted.
StoreFailure failure_of(redis::Failure failure);

// Charges in process. `unavailable`, which is counted, if the store has no room.
LimitDecision::Result charge_in_process(MemoryStore& memory, const limit::Charge& charge,
                                        limit::Verdict& verdict, Metrics& metrics);

// One a worker, on its thread.
class FailurePolicy {
  public:
    FailurePolicy(MemoryStore& memory, const Replicas* replicas, LocalReport& local_report,
                  Metrics& metrics)
        : memory_(memory), replicas_(replicas), local_report_(local_report), metrics_(metrics) {}

    // Decides without Redis. Policies that say deny come first: then nothing is taken anywhere.
    // Policies in shadow deny nothing.
    void decide(LimitDecision& decision, StoreFailure failure) const;

    // Decides a charge of policies that say local, by this process's share of each quota, and notes
    // what was taken for the report to Redis.
    LimitDecision::Result charge(const limit::Charge& charge, limit::Verdict& verdict) const;

    // Whether this process has a share: a number of proxies is known or assumed.
    bool knows_share() const { return replicas() > 0; }

  private:
    int replicas() const { return replicas_ != nullptr ? replicas_->load() : 0; }

    MemoryStore& memory_;
    const Replicas* replicas_;
    LocalReport& local_report_;
    Metrics& metrics_;
};

}  // namespace tidegate::store
