// Which server of an upstream a request goes to.
//
// Each worker thread has a choice of its own, over its own list of the servers that all threads
// share; so it takes no lock. The caller supplies the time, and counts the request
// (ServerState::begin_request). Common to round_robin.hpp, least_connections.hpp and hash.hpp:
//
// - Servers of the lowest rank there is are chosen from (balance/server_state.hpp): those that are
//   usable, else those whose connections failed lately, else those that are ejected.
// - `other_than`, a server that just failed this request, is chosen only if no other server may be.
// - None is returned if no server may be chosen: all are unhealthy or drain.
// - A server in slow start counts as its share of its weight.
// - What is returned is a place in the list. The servers must outlive the list.
#pragma once

#include <cstddef>
#include <optional>

namespace tidegate::balance {

// A place in the list.
using Chosen = std::optional<std::size_t>;

}  // namespace tidegate::balance
