// Waits for events without sleeping: to be woken takes tens of microseconds where the CPU has gone
// to sleep meanwhile, more than all that Tidegate does for a request.
#pragma once

#include <chrono>

#include "net/asio.hpp"

namespace tidegate {

// Runs the handlers that are ready. Where none is, polls for events until one is, for `patience` at
// most; other threads that want this CPU get it meanwhile. Returns whether a handler ran; at once
// when the loop has no work left. Call on the loop's thread only.
bool poll_for(asio::io_context& io, std::chrono::microseconds patience);

}  // namespace tidegate
