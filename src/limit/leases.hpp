// Slots of a concurrency limit: how many requests of one identifier are in flight.
//
// Both stores decide by the same rules:
// - A request holds one slot, whatever it costs; of cost 0 it holds none.
// - Who holds a slot already passes and takes no second one.
// - Nobody knows when a slot comes free: one second stands for it, where only concurrency denies,
//   and in what a client is told. With other limits that deny, the latest time holds.
//
// Pure: the slots themselves are kept by the store.
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

// What a client is told, once it has taken its slot or was denied.
constexpr LimitVerdict told(Slots slots, std::int64_t share, bool taken) {
    const std::int64_t held = slots.held + (taken && !slots.mine ? 1 : 0);
    LimitVerdict verdict;
    verdict.remaining = held < share ? share - held : 0;
    verdict.next_unit = held > 0 ? kRetryOfSlot : Micros{0};
    return verdict;
}

}  // namespace tidegate::limit
