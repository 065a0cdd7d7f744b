// One connection to the echo upstream.
#pragma once

#include <memory>

#include "net/timed_socket.hpp"

namespace tidegate::cli {

// Answers requests until either side is done. Memory is bounded whatever the peer sends: a head of
// at most 64 KiB, one piece of a body.
Task<> serve_echo(std::shared_ptr<TimedSocket> socket);

}  // namespace tidegate::cli
