// One request from its head to its line in the access log.
#pragma once

#include "client/http1_stream.hpp"
#include "net/task.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

// Serves one request: the callback of client::ConnectionContext, with a WorkerContext.
Task<> serve(void* worker, client::Http1Stream& client);

}  // namespace tidegate::proxy
