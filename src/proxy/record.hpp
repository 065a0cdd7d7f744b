// What remains of a request that has ended: counters and a line in the access log.
#pragma once

#include "proxy/exchange.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

// Runs once for every request that had a head, whatever became of it.
void record(WorkerContext& worker, const Exchange& exchange);

}  // namespace tidegate::proxy
