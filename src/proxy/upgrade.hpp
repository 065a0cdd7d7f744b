// WebSocket handshakes: which requests are forwarded as such, which answers belong to them, and the
// answer to the client.
#pragma once

#include "ask/fault.hpp"
#include "net/task.hpp"
#include "proxy/exchange.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

// Has the request forwarded as a handshake (relay.is_upgrade) if it is one and its route takes
// WebSockets; a request that asks for no WebSocket stays as it is. An extended CONNECT gets a key
// (websocket_key), and is never anything but a handshake. Returns what is wrong with one. Requires
// a route.
ask::Fault check_upgrade(Exchange& x);

// Whether the upstream's 101 belongs to the handshake that was forwarded.
bool is_upgrade_accepted(const Exchange& x);

// Sends the client the upstream's 101, which is a 200 in HTTP/2, and settles limits that count by
// status. Not ok: the client did not take it. Requires is_upgrade_accepted().
Task<IoStatus> pass_on_switch(WorkerContext& worker, Exchange& x);

// Whether a client would take an answer of this status, which is no 101, for an open tunnel: an
// extended CONNECT has succeeded with any 2xx (RFC 9110 section 9.3.6).
bool passes_for_tunnel(const Exchange& x, int status);

}  // namespace tidegate::proxy
