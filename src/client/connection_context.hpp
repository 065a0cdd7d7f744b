// What the connections of a worker's clients share, whatever they speak. Outlives them; one thread.
#pragma once

#include <chrono>
#include <exception>
#include <functional>

#include "client/http2_resources.hpp"
#include "client/metrics.hpp"
#include "client/served_connection.hpp"
#include "client/stream.hpp"
#include "client/stream_pool.hpp"
#include "config/config.hpp"
#include "net/buffer.hpp"
#include "net/deadline.hpp"
#include "net/task.hpp"

namespace tidegate::client {

struct ConnectionContext {
    // Serves one request: answers it through the stream, or breaks it off. A head that is not
    // complete comes here too, to be answered and logged; then the connection closes, or the
    // stream.
    using Serve = Task<> (*)(void* server, Stream& stream);

    Executor executor;
    DeadlineWheel& deadlines;
    BufferPool& buffers;
    Metrics& metrics;
    ServedConnectionList& connections;  // each adds itself
    Http2Resources& http2;
    Serve serve;
    void* server;
    // An exception has ended a request of a connection that goes on.
    std::function<void(const std::exception_ptr&)> tell_failure{};
    const config::Config* config = nullptr;  // in force; a reload replaces it
    bool is_draining = false;                // answers say `Connection: close`
    // While draining: for how long an idle connection may still bring a request, which its client
    // may have sent already.
    std::chrono::milliseconds idle_patience{0};
    Http1StreamPool streams{};
};

}  // namespace tidegate::client
