// The check API: a program asks whether it may go on, takes units before it knows what a piece of
// work will cost, and settles them when it does. HTTP and JSON; one thread.
#pragma once

#include <string>

#include "client/stream.hpp"
#include "config/config.hpp"
#include "faces/sealed_id.hpp"
#include "net/task.hpp"
#include "proxy/worker_context.hpp"
#include "store/settled_ids.hpp"

namespace tidegate::faces {

// What reservations share in a process. Outlives the workers.
struct Reservations {
    IdSeal seal;
    std::string process;  // this one's name among those that share a store
    store::SettledIds settled{};
};

// One listener of a worker. Outlives its connections.
struct Check {
    proxy::WorkerContext& worker;
    const config::Listen& listen;
    Reservations& reservations;
};

// Serves one call: the callback of client::ConnectionContext, with a Check.
Task<> serve_check(void* face, client::Stream& client);

}  // namespace tidegate::faces
