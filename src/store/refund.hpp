// Giving back what a charge took, and keeping what it holds, in the words of lua/give_back.lua,
// lua/renew.lua, lua/hold.lua and ZREM. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "limit/charge.hpp"
#include "store/deny_cache.hpp"
#include "store/limit_decision.hpp"
#include "store/local_report.hpp"
#include "store/memory_store.hpp"
#include "store/redis_store.hpp"

namespace tidegate::store {

// Appends the whole command that gives back what `refund` is about. False, with nothing appended,
// if that is nothing. `clock` as in append_charge_command().
bool append_refund_command(const limit::Refund& refund, std::string_view prefix,
                           std::optional<limit::Micros> clock, std::string& out);

// Its parts, for a command that does more. The number of its keys, 0 if nothing is given back; the
// keys; and ARGV[1] of lua/give_back.lua.
std::size_t refund_keys(const limit::Refund& refund);
void append_refund_keys(const limit::Refund& refund, std::string_view prefix, std::string& out);
void append_refund_argument(const limit::Refund& refund, std::string& out);

// The part of such a command that is about one state.
struct StateRefund {
    std::string key;   // of the state; RESP
    std::string sets;  // of its sorted sets; likewise
    std::size_t set_count = 0;
    std::string packed;
    int refusals = 0;  // by Redis
};

// The refunds of several states in one slot, for one command; some may be of one state. Reused for
// command after command; allocates only to grow.
class StateRefunds {
  public:
    static constexpr std::size_t kMost = 128;

    // Whether something of items[item] is given back.
    static bool concerns(const limit::Refund& refund, std::size_t item);

    // Adds items[item] of the refund, which it concerns. Both require size() < kMost.
    void add(const limit::Refund& refund, std::size_t item, std::string_view prefix);
    void add(const StateRefund& refund);

    std::size_t size() const { return ends_.size(); }
    void clear();
    // A copy of one of them.
    StateRefund at(std::size_t position) const;
    // Appends the whole command that gives all of them back. Requires at least one.
    void append_command(std::optional<limit::Micros> clock, std::string& out) const;

  private:
    // Where the parts of a state end.
    struct Ends {
        std::size_t key = 0;
        std::size_t sets = 0;
        std::size_t packed = 0;
        std::size_t set_count = 0;  // of this state
        int refusals = 0;
    };

    void end_state(std::size_t set_count, int refusals);

    std::string keys_;
    std::string sets_;
    std::string packed_;
    std::size_t set_count_ = 0;
    std::vector<Ends> ends_;
};

// A command for each slot that `charge` may hold. Idempotent, so they may be sent again.
std::vector<std::string> release_commands(const limit::Charge& charge, std::string_view prefix);

// Appends the whole command that renews the slots of `charge`. False if it has none. Idempotent.
bool append_renew_command(const limit::Charge& charge, std::string_view prefix,
                          std::optional<limit::Micros> clock, std::string& out);

// Appends the whole command that keeps the slots of `charge`, whose request has ended, for `hold`
// from now on. False if it has none. Idempotent.
bool append_hold_command(const limit::Charge& charge, std::string_view prefix, limit::Micros hold,
                         std::optional<limit::Micros> clock, std::string& out);

// Gives back what requests took: units of their limits and slots of concurrency, in Redis or in
// process. Nothing waits for it; each command is sent once, and what Redis does not get stays taken
// until it expires.

// Where an admitted charge was taken.
struct Admission {
    limit::Charge charge;  // of items in one slot, if it was in Redis
    const limit::Receipt& receipt;
    bool in_redis = false;
};

// One a worker, on its thread.
class Refunds {
  public:
    // `freed`, which may be null, gets the identifiers that give_back_all() is about.
    Refunds(const RedisStore& redis, MemoryStore& memory, LocalReport& local_report,
            FreedIdentifiers* freed)
        : redis_(redis), memory_(memory), local_report_(local_report), freed_(freed) {}

    // Gives back the units that `of` and `status` choose (limit::Refund). True: a command has left
    // for Redis, and `on_end`, if there is one, is called on this thread when its reply has come,
    // or none comes any more.
    bool give_back(const Admission& from, limit::Refund::Of of, limit::AnswerStatus status = {},
                   std::function<void()> on_end = nullptr) const;
    // Gives back all that was taken. No worker repeats a denial of these identifiers that Redis may
    // have made before it had the units back. Likewise.
    bool give_back_all(const Admission& from, std::function<void()> on_end = nullptr) const;
    // Gives up the slots that charge.slot_hold holds, once `hold` has passed. The store remembers
    // that, not this process.
    void release(const limit::Charge& charge, bool in_redis,
                 limit::Micros hold = limit::Micros{0}) const;

  private:
    void release_in_redis(const limit::Charge& charge, limit::Micros hold) const;

    const RedisStore& redis_;
    MemoryStore& memory_;
    LocalReport& local_report_;
    FreedIdentifiers* freed_;
};

// Keeps slots of concurrency in Redis while requests hold them: each slot ends by itself
// unless its hold is renewed. One a worker, on its thread.
class SlotRenewal {
  public:
    explicit SlotRenewal(const RedisStore& redis) : redis_(redis) {}

    // Redis has admitted the decision: renews its slots, if it holds any, until settle() unlinks
    // it or it is destroyed.
    void add(LimitDecision& decision);

    // Redis may have taken slots for this charge, but the answer came too late or not at all: gives
    // them up with the next renew(), when the charge has been carried out or never will be.
    void release_later(const LimitDecision& decision, const limit::Charge& charge);

    // Sends what is due. Call about once a second.
    void renew(SteadyTime now);

  private:
    using Holders =
        boost::intrusive::list<LimitDecision, boost::intrusive::constant_time_size<false>>;
    struct Release {
        std::string command;
        std::uint16_t slot;
    };

    const RedisStore& redis_;
    Holders holders_;
    std::vector<Release> releases_;
};

}  // namespace tidegate::store
