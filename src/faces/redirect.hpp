// Listeners with `redirect: https`: a request in the clear is sent to the same place under https.
//
// No limit counts it and nothing of it is forwarded; it is logged. One thread.
#pragma once

#include "client/stream.hpp"
#include "config/config.hpp"
#include "net/task.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::faces {

// One listener of a worker. Both outlive its connections.
struct Redirect {
    proxy::WorkerContext& worker;
    const config::Listen& listen;
};

// Serves one request: the callback of client::ConnectionContext, with a Redirect.
Task<> serve_redirect(void* redirect, client::Stream& client);

}  // namespace tidegate::faces
