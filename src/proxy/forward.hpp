// A request's way to its upstream and the answer's way back.
#pragma once

#include "proxy/exchange.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

// Sends the request on and relays the answer, bodies streamed both ways at once. If that accepts a
// WebSocket, sets exchange.tunnel, which run_tunnel() has to serve. Sets exchange.decision.fault
// when that failed: with exchange.relay.status still 0 the client has seen nothing and can be
// answered; else it has part of an answer and the connection must be broken off.
Task<> forward(WorkerContext& worker, Exchange& exchange);

}  // namespace tidegate::proxy
