// Puts the true cost of a reservation in the place of what was reserved, in the stores that counted
// it: in Redis, in the memory of this process, or in both after a failure of Redis.
#pragma once

#include <chrono>
#include <cstdint>

#include "faces/check.hpp"
#include "faces/sealed_id.hpp"
#include "net/task.hpp"
#include "proxy/exchange.hpp"

namespace tidegate::faces {

struct Settled {
    enum class State : std::uint8_t {
        settled,
        // The same settle may be sent again, and does what is left:
        no_redis,   // Redis did not answer
        uncounted,  // more was spent, and the memory of this process has no room for it
        settling,   // another call is settling it now
        full,       // too many reservations are remembered
        // Not here:
        elsewhere,  // counted in the memory of another process
        in_redis,   // counted in Redis, and this process counts in its memory
    };
    State state = State::settled;
    std::int64_t cost = 0;  // settled: its own, or that of the call that has settled it before
};

// Settles with `cost` what has not expired for `left`.
Task<Settled> settle_reservation(const Check& face, proxy::Exchange& exchange,
                                 const SealedReservation& reserved, std::int64_t cost,
                                 std::chrono::milliseconds left);

}  // namespace tidegate::faces
