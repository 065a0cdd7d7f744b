// Gives back what requests took: units of their limits and slots of concurrency, in Redis or in
// process. Nothing waits for it; each command is sent once, and what Redis does not get stays taken
// until it expires.
#pragma once

#include "limit/charge.hpp"
#include "store/local_report.hpp"
#include "store/memory_store.hpp"
#include "store/redis_store.hpp"

namespace tidegate::store {

// Where an admitted charge was taken.
struct Admission {
    limit::Charge charge;  // of items in one slot, if it was in Redis
    const limit::Receipt& receipt;
    bool in_redis = false;
};

// One a worker, on its thread.
class Refunds {
  public:
    Refunds(const RedisStore& redis, MemoryStore& memory, LocalReport& local_report)
        : redis_(redis), memory_(memory), local_report_(local_report) {}

    // Gives back the units that `of` and `status` choose (limit::Refund).
    void give_back(const Admission& from, limit::Refund::Of of,
                   limit::AnswerStatus status = {}) const;
    // Gives up the slots that charge.lease holds, once `hold` has passed. The store remembers that,
    // not this process.
    void release(const limit::Charge& charge, bool in_redis,
                 limit::Micros hold = limit::Micros{0}) const;

  private:
    void release_in_redis(const limit::Charge& charge, limit::Micros hold) const;

    const RedisStore& redis_;
    MemoryStore& memory_;
    LocalReport& local_report_;
};

}  // namespace tidegate::store
