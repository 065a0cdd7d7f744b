// Sends decisions to Redis in as few commands as possible, and turns the replies into results. One
// a worker, on its thread.
//
// Decisions of one turn of the loop share commands. While the threads of the process together have
// several commands under way, they share those that follow, too (SharedCharges).
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "net/asio.hpp"
#include "net/wakeup.hpp"
#include "store/deny_cache.hpp"
#include "store/failure_policy.hpp"
#include "store/lease_renewal.hpp"
#include "store/limit_decision.hpp"
#include "store/redis_store.hpp"
#include "store/shared_charges.hpp"

namespace tidegate::store {

class BatchQueue {
  public:
    // How the threads of a process share commands.
    struct Sharing {
        SharedCharges* charges;             // of the process
        Executor executor;                  // of this thread's loop
        std::chrono::milliseconds timeout;  // of a decision
    };

    // Without `sharing` each command is of this thread's decisions alone.
    BatchQueue(const RedisStore& redis, DenyCache& denials, LeaseRenewal& leases,
               const FailurePolicy& failure_policy, const std::optional<Sharing>& sharing);
    ~BatchQueue();

    // Decides what lies in one slot of the store. The result is there when this returns (Redis took
    // no command), or later: then the sleeper of the decision is woken.
    void charge(LimitDecision& decision);

    // Sends what has waited too long for a command of another thread, and fails what another thread
    // has not answered in time. Call about every 50 ms.
    void tend(SteadyTime now);

    // Whether no command of this thread is under way, and no other thread has a charge of it.
    bool is_idle() const;

  private:
    class Command;
    struct Entry;

    bool may_lend(const LimitDecision& decision) const;
    void lend(LimitDecision& decision, std::size_t hash);
    void watch_lent();
    void send_due();
    void return_due();
    void read_inbox();
    void take_back(LentCharge& lent);

    bool join_open_command(const Entry& entry);
    std::optional<redis::Failure> send(const Entry& entry, bool stays_open);
    void send_alone(LimitDecision& decision);
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

    // With sharing.
    SharedCharges* shared_ = nullptr;
    Turn* turn_ = nullptr;
    std::chrono::milliseconds timeout_{0};
    std::unique_ptr<ChargeInbox> inbox_;
    std::optional<Timer> lent_timer_;
    bool is_watching_ = false;                       // the timer runs
    std::vector<std::unique_ptr<LentCharge>> lent_;  // all
    std::vector<LentCharge*> idle_lent_;             // of them
    std::vector<LentCharge*> due_;                   // of any thread, to be sent or returned now
    std::vector<LentCharge*> returned_;
};

}  // namespace tidegate::store
