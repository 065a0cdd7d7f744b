// forward_auth: a gateway asks whether it may forward a request, and hands the answer's fields on.
//
// The answer is the decision of the engine, in the dialect of the gateway. The gateway never says
// how the request ended, so nothing is given back. One thread.
#pragma once

#include "client/stream.hpp"
#include "config/config.hpp"
#include "faces/metrics.hpp"
#include "net/task.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::faces {

// One listener of a worker. All three outlive its connections.
struct ForwardAuth {
    proxy::WorkerContext& worker;
    const config::Listen& listen;
    Metrics& metrics;
};

// Serves one question: the callback of client::ConnectionContext, with a ForwardAuth.
Task<> serve_forward_auth(void* face, client::Stream& client);

}  // namespace tidegate::faces
