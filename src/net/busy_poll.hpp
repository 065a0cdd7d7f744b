// Waiting for the next event without sleeping. To be woken takes 10 to 50 us where a CPU has gone
// to sleep meanwhile, more than all that Tidegate does for a request.
#pragma once

#include <chrono>

#include "net/asio.hpp"

namespace tidegate {

// Runs what is ready in the loop; where nothing is, asks for events until there is something, for
// `patience` at most. Whether anything ran. Ends at once when the loop has no work left. Other
// threads that want this CPU get it meanwhile.
bool poll_for(asio::io_context& io, std::chrono::microseconds patience);

}  // namespace tidegate
