// Slots of a concurrency limit: how many requests of one identifier are in flight.
//
// Both stores decide by the same rules:
// - A request holds one slot, whatever it costs; of cost 0 it holds none.
// - A request that holds a slot passes and takes no second one.
// - The time when a slot comes free is unknown. Answers name one second where only concurrency
//   denies; where other limits deny, too, the latest time holds.
//
// Pure: the store keeps the slots.
#pragma once

#include <cstdint>

#include "limit/charge.hpp"
#include "limit/limit.hpp"

namespace tidegate::limit {

inline constexpr Micros kRetryOfSlot = std::chrono::seconds{1};

// How the slots stand for one request.
struct Slots {
    std::int64_t held = 0;
    bool mine = false;  // one of them is this request's
};

constexpr bool passes(Slots slots, std::int64_t share, std::int64_t cost) {
    if (cost == 0) return slots.held <= share;
    return slots.mine || slots.held < share;
}

// Requires that it does not pass now.
constexpr Micros retry_of_slot(std::int64_t share, std::int64_t cost) {
    return share == 0 && cost > 0 ? kNever : kRetryOfSlot;
}

// The verdict of this limit, after the request took its slot or was denied.
constexpr LimitVerdict verdict_of(Slots slots, std::int64_t share, bool taken) {
    const std::int64_t held = slots.held + (taken && !slots.mine ? 1 : 0);
    LimitVerdict verdict;
    verdict.remaining = held < share ? share - held : 0;
    verdict.next_unit = held > 0 ? kRetryOfSlot : Micros{0};
    return verdict;
}

}  // namespace tidegate::limit
