// Slots of a concurrency limit: how many requests of one identifier are in flight.
//
// Both stores decide by the same rules:
// - A request holds one slot, whatever it costs; of cost 0 it holds none.
// - A request that holds a slot passes and takes no second one.
// - The time when a slot comes free is unknown. Answers name one second where only concurrency
//   denies; where other limits deny, too, the latest time holds.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <boost/unordered/unordered_flat_set.hpp>

#include "limit/charge.hpp"
#include "limit/limit.hpp"
#include "limit/verbs.hpp"

namespace tidegate::limit {

inline constexpr Micros kRetryOfSlot = std::chrono::seconds{1};

// How the slots stand for one request.
struct SlotStanding {
    std::int64_t held = 0;
    bool mine = false;  // one of them is this request's
};

constexpr bool passes(SlotStanding slots, std::int64_t share, std::int64_t cost) {
    if (cost == 0) return slots.held <= share;
    return slots.mine || slots.held < share;
}

// Requires that it does not pass now.
constexpr Micros retry_of_slot(std::int64_t share, std::int64_t cost) {
    return share == 0 && cost > 0 ? kNever : kRetryOfSlot;
}

// The verdict of this limit, after the request took its slot or was denied.
constexpr LimitVerdict verdict_of(SlotStanding slots, std::int64_t share, bool taken) {
    const std::int64_t held = slots.held + (taken && !slots.mine ? 1 : 0);
    LimitVerdict verdict;
    verdict.remaining = held < share ? share - held : 0;
    verdict.next_unit = held > 0 ? kRetryOfSlot : Micros{0};
    return verdict;
}

class SlotCount : public CommonVerbs {
  public:
    using Standing = SlotStanding;
    static constexpr bool kStays = true;

    SlotStanding look(const Limit& limit, const Asked& asked) const;
    static bool passes(const Limit& limit, const Asked& asked, const SlotStanding& slots) {
        return limit::passes(slots, asked.share(limit), asked.cost);
    }
    static Micros retry(const Limit& limit, const Asked& asked, const SlotStanding&) {
        return retry_of_slot(asked.share(limit), asked.cost);
    }
    static LimitVerdict verdict_of(const Limit& limit, const Asked& asked,
                                   const SlotStanding& slots, std::int64_t taken) {
        return limit::verdict_of(slots, asked.share(limit), taken > 0);
    }
    void reserve(const Limit& limit, const Asked& asked, const SlotStanding& slots);
    void take(const Limit& limit, const Asked& asked, const SlotStanding& slots);
    void give_back(const Limit& limit, const Asked& asked, Micros at);
    LimitCount count(const Limit& limit, const Asked& asked) const;
    // When those in flight end is unknown: see is_held().
    std::int64_t ends_us(const Now&) const {
        return kept_until_us_.empty() ? 0 : kept_until_us_.back();
    }
    void save(CountsWriter& out) const;
    void load(CountsReader& in);
    // Slots stand for requests that an upstream may still be at work on: more than any units.
    double weight(const Limit&, const Asked&) const {
        return kept_until_us_.empty() ? 0 : std::numeric_limits<float>::infinity();
    }

    bool is_held() const { return !held_.empty(); }
    void release(const SlotHold& hold, Micros until);

    static void pack_terms(const Limit& limit, Micros wall, Packer& out);
    static void append_request(const Limit& limit, const Charge& charge, std::string& out);
    // Slots are released, which is another command.
    static void append_refund(const Limit&, const Refund&, std::string&) {}
    static bool are_possible(const Limit&, const StateNumbers& numbers) {
        return numbers.first <= kQuotaMax;
    }
    static ScriptAnswer answer(const ScriptQuestion& question, const StateNumbers& numbers);
    static bool is_possible(const Limit&, const InspectedNumbers& numbers) {
        return numbers[0] <= kQuotaMax;
    }
    static LimitCount count_of(const Limit& limit, const InspectedNumbers& numbers, Micros now);

  private:
    // They are made by proxies, not by clients: mixing is enough.
    struct Hash {
        std::size_t operator()(const SlotHold& id) const {
            return (id.holder * 0x9e3779b97f4a7c15ULL) ^ id.request;
        }
    };

    std::int64_t held_at(std::int64_t now_us) const;

    boost::unordered_flat_set<SlotHold, Hash> held_;  // by requests in flight
    std::vector<std::int64_t> kept_until_us_;         // after their requests have ended; in order
};

}  // namespace tidegate::limit
