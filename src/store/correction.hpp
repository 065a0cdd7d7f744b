// What requests truly cost, once their answers say so, in place of what they were charged.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/charge.hpp"
#include "store/limit_decision.hpp"
#include "store/local_report.hpp"
#include "store/memory_store.hpp"
#include "store/redis_store.hpp"
#include "store/refund.hpp"

namespace tidegate::store {

// What a correction changes in one place. The items are those of an Admission that it changes, with
// the difference as their own cost.
struct Difference {
    std::vector<limit::ChargeItem> less;  // cost less than was taken
    limit::Receipt receipt;               // of `less`
    std::vector<limit::ChargeItem> more;
};

// `used` is as Limiter::correct() has it. Items of which nothing is known to be taken are left out.
Difference difference_of(const Admission& admission, const LimitDecision& decision,
                         std::span<const std::int64_t> used);

// Corrects the counts. Nothing waits for it.
//
// Units are given back at most once: a command that Redis may have got is not sent again, and its
// units stay taken until they expire. While Redis is known not to have them, they wait here. Units
// that a request cost more are counted also above the quota; LocalReport tells Redis of them.
//
// One a worker, on its thread. The servers are stopped before it is destroyed.
class Corrections {
  public:
    Corrections(const RedisStore& redis, MemoryStore& memory, const Refunds& refunds,
                LocalReport& local_report)
        : redis_(redis), memory_(memory), refunds_(refunds), local_report_(local_report) {}

    // Returns whether something is given back in Redis.
    bool correct(const Admission& admission, const LimitDecision& decision,
                 std::span<const std::int64_t> used);

    // Sends what Redis could not be sent before. Call about every 50 ms.
    void send(SteadyTime now);

    // Refunds that wait for Redis.
    std::size_t waiting() const { return waiting_.size(); }

  private:
    class Command;
    static constexpr std::size_t kWaitingMax = 10'000;
    static constexpr std::size_t kStatesMax = 128;  // of a command

    void give_back(const limit::Refund& refund);
    void send_one(StateRefund refund);
    void keep(StateRefund refund);

    const RedisStore& redis_;
    MemoryStore& memory_;
    const Refunds& refunds_;
    LocalReport& local_report_;
    std::vector<Command*> open_;       // have not left yet
    std::deque<StateRefund> waiting_;  // for Redis, oldest first
    bool failed_ = false;              // something since the last send()
    SteadyTime quiet_until_{};
};

}  // namespace tidegate::store
