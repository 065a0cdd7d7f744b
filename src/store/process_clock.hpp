// The two clocks of the process. Any thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "limit/limit.hpp"

namespace tidegate::store {

// Returns what the two clocks of the process say. `steady` never steps: it is the wall clock at the
// start of the process, or of the first one of a chain of hand-overs, advanced by the monotonic
// clock. `wall` steps as the wall clock does, when follow_wall_clock() is next called.
limit::Now process_now();
// The wall clock says `wall`. Call several times a second.
void follow_wall_clock(std::chrono::system_clock::time_point wall);
// How often follow_wall_clock() has seen the wall clock step by more than a second.
std::uint64_t wall_clock_steps();
// The difference of the steady clock and the monotonic one, which is the machine's.
limit::Micros process_clock_offset();
// From now on the steady clock is that of the process whose offset this is, so that counts of that
// process keep their times.
void set_process_clock_offset(limit::Micros offset);

}  // namespace tidegate::store
