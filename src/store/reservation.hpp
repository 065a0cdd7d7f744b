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
        std::int64_t quota = 0;   // of then: what a bucket took is so many parts of its duration
    };
    struct Item {
        std::string policy;
        std::string tier;  // empty: the policy's own limits
        std::string identifier;
        std::uint64_t generation = 0;
        std::vector<Taken> limits;
        std::uint32_t cost = 0;  // position in `costs`
    };
    // Holds what was taken at one moment in one store, in Redis from one slot.
    struct Part {
        bool in_redis = false;
        limit::Micros at{0};
        std::vector<Item> items;
    };
    // What was reserved of one thing that has a true cost of its own.
    struct Cost {
        std::int64_t units = 0;
        bool in_money = false;  // of a policy that counts millionths of a dollar

        bool operator==(const Cost&) const = default;
    };
    std::vector<Part> parts;
    std::vector<Cost> costs;   // in the order in which a settlement states them
    bool has_one_cost = true;  // one number may settle all of them
    limit::Micros moment{0};   // for limits of schedule
};

// True costs, in the order of Reservation::costs.
using Costs = std::vector<std::int64_t>;

// Returns what an admitted decision has taken. The item i of the decision has the cost at
// `cost_of_item[i]` of `costs`. Requires decision.is_alone.
Reservation reservation_of(const LimitDecision& decision, std::vector<Reservation::Cost> costs,
                           std::span<const std::uint32_t> cost_of_item);

// Items with policies of their own, which hold the limits that a correction is about and no other.
struct ReservedItems {
    std::vector<std::unique_ptr<const limit::Policy>> policies;
    // Their identifiers are those of the part, and their own costs the differences.
    std::vector<limit::ChargeItem> items;
    limit::Receipt receipt;
};

// These return what `part` took from, as far as the configuration of today still has it. They leave
// out limits that came since, which took nothing, and limits that are gone, which count nothing any
// more. A quota that has changed names the same limit.
//
// What has cost less than was reserved: a bucket gets as much time back as it took under the quota
// of then.
ReservedItems items_to_give_back(const Reservation& reservation, const Reservation::Part& part,
                                 const Costs& costs, const config::Config& config);
// What has cost more: each limit counts whatever is asked, also above its quota.
ReservedItems items_to_take(const Reservation& reservation, const Reservation::Part& part,
                            const Costs& costs, const config::Config& config);

// Costs as a claim has them: one number if all are the same, else all with commas between them.
std::string claim_text(const Costs& costs);
// The same as `count` costs. Nothing: it is no such text.
std::optional<Costs> read_claim_text(std::string_view text, std::size_t count);

// Which reservations that this process counts by itself have been settled, and with which costs, so
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
        Costs costs{};  // settling, settled: those of the first
    };
    static constexpr std::size_t kIdsMax = 1'000'000;

    // Claims `id`, and remembers it until `until`.
    Claim claim(const std::string& id, const Costs& costs, Time now, Time until);
    // The counts are right now.
    void settled(const std::string& id);
    // They could not be corrected: the next claim is the first again.
    void forget(const std::string& id);

  private:
    struct Entry {
        Costs costs;
        Time until;
        bool is_settled = false;
    };

    std::mutex mutex_;
    std::unordered_map<std::string, Entry> ids_;
    Time swept_{};
};

// Settling what a reservation took in one slot, in the words of lua/claim.lua, lua/settle_less.lua
// and lua/settle_more.lua: one command corrects the counts and remembers that it did. Pure.

// That a reservation is settled, and with which costs. There is one in each slot, and a second one
// where some items have cost less and others more.
struct Claim {
    std::string_view reservation;  // its name among all
    std::string_view identifier;   // of the slot: the hash tag
    std::string_view costs;        // see claim_text()
    std::chrono::milliseconds kept_for{0};
};

// Each appends the whole command, to which Redis answers the costs of the claim with which the
// reservation is settled, behind a `+` if the command has settled it. Safe to send again. `clock`
// as in append_charge_command().

// Gives back what `refund` is about; that may be nothing. Runs settle_less_script().
void append_settle_less_command(const Claim& claim, const limit::Refund& refund,
                                std::string_view prefix, std::optional<limit::Micros> clock,
                                std::string& out);
// Takes what `charge` is about: items of which each limit counts whatever is asked
// (items_to_take()). Runs settle_more_script().
void append_settle_more_command(const Claim& claim, const limit::Charge& charge,
                                std::string_view prefix, std::optional<limit::Micros> clock,
                                std::string& out);

// Settling a reservation in Redis: its true costs take the place of what was reserved, in every
// slot in which something was taken, and in each of them once.

struct Settlement {
    const Reservation& reservation;
    std::string_view id;  // of the reservation: no other has it
    const Costs& costs;
    // At least as long as it can be settled.
    std::chrono::milliseconds remembered_for{0};
};

struct SettledCosts {
    Costs costs;
    bool is_first = false;  // this call has claimed them; false also where that answer was lost
};

// The costs with which the reservation is settled now, in all slots: `settlement.costs`, or others
// if it was settled before. Nothing: Redis did not answer for all of them. Then some may be settled
// and others not; the same call, from here or another process, does what is left and nothing twice.
//
// The first slot decides the costs, the others follow it: so two callers with different costs do
// not settle one reservation with both. Where items of one slot have cost less and others more, a
// first command gives back and a second one takes, each with a claim of its own; the first one's
// claim says which costs count. Requires a part in Redis.
Task<std::optional<SettledCosts>> settle_in_redis(const RedisStore& redis,
                                                  const Settlement& settlement,
                                                  const config::Config& config, Wakeup& wakeup);

}  // namespace tidegate::store
