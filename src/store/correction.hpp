// What requests truly cost, once their answers say so, in place of what they were charged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "limit/charge.hpp"
#include "store/deny_cache.hpp"
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

// Corrects the counts. Nothing waits for it: a command to Redis leaves with the worker's next one,
// or 10 ms later.
//
// Units are given back at most once: a command that Redis may have carried out is not sent again,
// and its units stay taken until they expire. While Redis is known not to have them, as it is away
// or says that it is not ready, they wait here: 10,000 refunds, each for a day at most. Units that
// a request cost more are counted also above the quota; LocalReport tells Redis of them.
//
// One a worker, on its thread. The servers are stopped before it is destroyed.
class Corrections {
  public:
    // `freed`, which may be null, gets the identifiers that Redis gives units back to: before the
    // command leaves and when it was carried out, as others may be denied in between.
    Corrections(const RedisStore& redis, MemoryStore& memory, const Refunds& refunds,
                LocalReport& local_report, FreedIdentifiers* freed);
    ~Corrections();
    Corrections(const Corrections&) = delete;
    Corrections& operator=(const Corrections&) = delete;

    // `used` is as Limiter::correct() has it. Items of which nothing is known to be taken stay as
    // they are.
    void correct(const Admission& admission, const LimitDecision& decision,
                 std::span<const std::int64_t> used);

    // Sends what Redis could not be sent before. Call about every 50 ms.
    void send(SteadyTime now);

    // Whether no command is under way to Redis.
    bool is_idle() const { return under_way_ == 0; }
    // Whether refunds wait for a Redis that is there: send() sends them.
    bool has_unsent() const;

  private:
    class Command;
    struct Origin {
        FreedIdentifiers::Place freed = 0;
        SteadyTime since;  // when the units were to be given back
    };
    struct Waiting {
        StateRefund refund;
        std::uint16_t slot = 0;
        Origin origin;
    };
    static constexpr std::size_t kWaitingMax = 10'000;
    static constexpr std::size_t kIdleMax = 4;

    void give_back(const limit::Refund& refund);
    Command* command_for(std::uint16_t slot);
    void send_again(Waiting refund);
    void keep(Waiting refund);
    void note_freed(FreedIdentifiers::Place place, SteadyTime now) const {
        if (freed_ != nullptr) freed_->add_at(place, now);
    }

    const RedisStore& redis_;
    MemoryStore& memory_;
    const Refunds& refunds_;
    LocalReport& local_report_;
    FreedIdentifiers* freed_;
    Difference difference_;                       // of the last call; reused
    std::vector<Command*> open_;                  // have not left yet
    std::vector<std::unique_ptr<Command>> idle_;  // kept for later
    std::size_t under_way_ = 0;                   // commands without an answer
    std::deque<Waiting> waiting_;                 // for Redis, oldest first
    bool failed_ = false;                         // something since the last send()
    SteadyTime quiet_until_{};
};

}  // namespace tidegate::store
