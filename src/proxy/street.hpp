// The houses on the street of a request that need no waiting. Each sets exchange.fault when the
// request goes no further.
#pragma once

#include "proxy/exchange.hpp"
#include "proxy/http1_client.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

// Where the message ends, whose host it is for, and whether it is small enough.
void check_framing(WorkerContext& worker, Exchange& exchange);
// Sets exchange.route.
void match_route(WorkerContext& worker, Exchange& exchange);
// Sets exchange.client, .user and .request_id.
void identify(WorkerContext& worker, const Http1Client& client, Exchange& exchange);
// Makes the items of exchange.decision from the route's policies and who is asking.
void list_charges(WorkerContext& worker, Exchange& exchange);
// Turns the decision into what the client is told, and into a fault if it was no.
void judge(WorkerContext& worker, Exchange& exchange);
// Log and metrics. Runs on every way out.
void record(WorkerContext& worker, Exchange& exchange);

// Seconds for Retry-After: whole, rounded up, at least 1, never earlier than a denying limit's
// next unit. 0: it would never pass.
std::int64_t retry_after_seconds(const limit::Verdict& verdict);

}  // namespace tidegate::proxy
