// A WebSocket through the proxy: from the 101, which the client has, to the end of both directions.
// One thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "ask/fault.hpp"
#include "net/task.hpp"
#include "proxy/exchange.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

// Relays what goes through `x.tunnel`, whose 101 the client has. Gives back what only forwarding
// needed. Ends when both ends know that the tunnel is over, or one is gone; `client_left`: the
// proxy has cut the client off.
Task<ask::Fault> run_tunnel(WorkerContext& worker, Exchange& x);

// When a tunnel ends in a drain: `number` counts the tunnels that end before it. However many
// follow, they are spread over the whole time.
std::chrono::milliseconds drain_delay(std::uint32_t number, std::chrono::milliseconds over);

}  // namespace tidegate::proxy
