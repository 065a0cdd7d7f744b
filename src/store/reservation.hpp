// A Reservation holds units that were taken before their true cost was known: which limits gave
// them and when, in a form that outlives the decision, the connection and the process. Any proxy
// that shares the Redis can settle it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/config.hpp"
#include "limit/charge.hpp"
#include "net/task.hpp"
#include "net/wakeup.hpp"
#include "store/limit_decision.hpp"
#include "store/redis_store.hpp"

namespace tidegate::store {

struct Reservation {
    // A limit that units were taken from.
    struct Taken {
        std::uint32_t limit = 0;  // Limit::id
        std::uint32_t quota = 0;  // of then: what a bucket took is so many parts of its duration
    };
    struct Item {
        std::string policy;
        std::string tier;  // empty: the policy's own limits
        std::string identifier;
        std::uint64_t generation = 0;
        std::vector<Taken> limits;
        std::int64_t own_cost = limit::ChargeItem::kOfCharge;  // in place of the reservation's
        std::uint32_t position = 0;                            // among the items of the decision
    };
    // Holds what was taken at one moment in one store, in Redis from one slot.
    struct Part {
        bool in_redis = false;
        limit::Micros at{0};
        std::vector<Item> items;
    };
    std::vector<Part> parts;
    std::int64_t cost = 0;
    limit::Micros moment{0};  // for limits of schedule
};

// Returns what an admitted decision has taken. Requires decision.is_alone.
Reservation reservation_of(const LimitDecision& decision);

// Items with policies of their own, which hold the limits that a correction is about and no other.
struct ReservedItems {
    std::vector<std::unique_ptr<const limit::Policy>> policies;
    std::vector<limit::ChargeItem> items;  // their identifiers are those of the part
    limit::Receipt receipt;
};

// These return what `part` took from, as far as the configuration of today still has it. They leave
// out limits that came since, which took nothing, and limits that are gone, which count nothing any
// more. A quota that has changed names the same limit.
//
// To give units back: a bucket gets as much time back as it took under the quota of then. The
// reservation is of `cost` units.
ReservedItems items_to_give_back(const Reservation::Part& part, std::int64_t cost,
                                 const config::Config& config);
// To take more: each limit counts whatever is asked, also above its quota.
ReservedItems items_to_take(const Reservation::Part& part, const config::Config& config);

// Where each item of the decision has a true cost of its own: what comes back, and what is taken
// in addition, with the differences as the items' own costs.
struct PartCorrection {
    ReservedItems less;
    ReservedItems more;
};
// `costs` is by Reservation::Item::position; -1: what was reserved stays.
PartCorrection correction_of(const Reservation& reservation, const Reservation::Part& part,
                             std::span<const std::int64_t> costs, const config::Config& config);

// Which reservations that this process counts by itself have been settled, and with which cost, so
// that each is corrected once. Redis remembers those that it counts (settle_in_redis()).

// The workers of the process share it. Any thread.
class SettledIds {
  public:
    using Time = std::chrono::steady_clock::time_point;
    struct Claim {
        enum class State : std::uint8_t {
            first,     // the caller corrects the counts, then calls settled() or forget()
            settling,  // another caller is about to
            settled,
            full,  // kIdsMax are remembered
        };
        State state = State::first;
        std::int64_t cost = 0;  // settling, settled: that of the first
    };
    static constexpr std::size_t kIdsMax = 1'000'000;

    // Claims `id`, and remembers it until `until`.
    Claim claim(const std::string& id, std::int64_t cost, Time now, Time until);
    // The counts are right now.
    void settled(const std::string& id);
    // They could not be corrected: the next claim is the first again.
    void forget(const std::string& id);

  private:
    struct Entry {
        std::int64_t cost = 0;
        Time until;
        bool is_settled = false;
    };

    std::mutex mutex_;
    std::unordered_map<std::string, Entry> ids_;
    Time swept_{};
};

// Settling what a reservation took in one slot, in the words of lua/claim.lua, lua/settle_less.lua
// and lua/settle_more.lua: one command corrects the counts and remembers that it did. Pure.

// That a reservation is settled, and with which cost. There is one in each slot.
struct Claim {
    std::string_view reservation;  // its name among all
    std::string_view identifier;   // of the slot: the hash tag
    std::int64_t cost = 0;
    std::chrono::milliseconds kept_for{0};
};

// Each appends the whole command, to which Redis answers the cost with which the reservation is
// settled, as a decimal number. Safe to send again. `clock` as in append_charge_command().

// Gives back what `refund` is about; that may be nothing. Runs settle_less_script().
void append_settle_less_command(const Claim& claim, const limit::Refund& refund,
                                std::string_view prefix, std::optional<limit::Micros> clock,
                                std::string& out);
// Takes what `charge` is about: items of which each limit counts whatever is asked
// (items_to_take()). Runs settle_more_script().
void append_settle_more_command(const Claim& claim, const limit::Charge& charge,
                                std::string_view prefix, std::optional<limit::Micros> clock,
                                std::string& out);

// Settling a reservation in Redis: its true cost takes the place of what was reserved, in every
// slot in which something was taken, and in each of them once.

struct Settlement {
    const Reservation& reservation;
    std::string_view id;  // of the reservation: no other has it
    std::int64_t cost = 0;
    // At least as long as it can be settled.
    std::chrono::milliseconds remembered_for{0};
    // What each item truly cost, as in correction_of(); none: each cost `cost`. With them `cost`
    // only tells one settlement from another.
    std::span<const std::int64_t> costs{};
};

// The cost with which the reservation is settled now, in all slots: `settlement.cost`, or another
// if it was settled before. Nothing: Redis did not answer for all of them. Then some may be settled
// and others not; the same call, from here or another process, does what is left and nothing twice.
//
// The first slot decides the cost, the others follow it: so two callers with different costs do not
// settle one reservation with both. Requires a part in Redis.
Task<std::optional<std::int64_t>> settle_in_redis(const RedisStore& redis,
                                                  const Settlement& settlement,
                                                  const config::Config& config, Wakeup& wakeup);

}  // namespace tidegate::store
