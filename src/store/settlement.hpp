// Settling a reservation in Redis: its true cost takes the place of what was reserved, in every
// slot in which something was taken, and in each of them once.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "config/config.hpp"
#include "net/task.hpp"
#include "net/wakeup.hpp"
#include "store/redis_store.hpp"
#include "store/reservation.hpp"

namespace tidegate::store {

struct Settlement {
    const Reservation& reservation;
    std::string_view id;  // of the reservation: no other has it
    std::int64_t cost = 0;
    // At least as long as it can be settled.
    std::chrono::milliseconds remembered_for{0};
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
