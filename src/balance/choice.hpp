// Which server of an upstream a request goes to.
//
// Each worker thread has a choice of its own, over its own list of the servers that all threads
// share; so it takes no lock. The caller supplies the time, and counts the request
// (ServerState::begin_request). Common to round_robin.hpp, least_connections.hpp and hash.hpp:
//
// - Servers of the lowest rank there is are chosen from (balance/server_state.hpp): those that are
//   usable, else those whose connections failed lately, else those that are ejected.
// - A server that the request has `tried` is chosen only if no other server may be.
// - None is returned if no server may be chosen: all are unhealthy or drain.
// - A server in slow start counts as its share of its weight.
// - What is returned is a place in the list. The servers must outlive the list.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include <boost/container/static_vector.hpp>

#include "balance/server_state.hpp"

namespace tidegate::balance {

// A place in the list.
using Chosen = std::optional<std::size_t>;

// The servers that one request has tried already. It compares pointers and never follows them.
class Tried {
  public:
    // The first attempt, and as many more as `retries` may be.
    static constexpr std::size_t kMax = 11;

    Tried() = default;
    // One; null: none.
    Tried(const ServerState* server) {  // NOLINT(google-explicit-constructor)
        if (server != nullptr) add(*server);
    }

    // Ignored once there are kMax.
    void add(const ServerState& server) {
        if (servers_.size() < kMax) servers_.push_back(&server);
    }
    bool empty() const { return servers_.empty(); }
    bool has(const ServerState& server) const {
        return std::find(servers_.begin(), servers_.end(), &server) != servers_.end();
    }

  private:
    boost::container::static_vector<const ServerState*, kMax> servers_;
};

}  // namespace tidegate::balance
