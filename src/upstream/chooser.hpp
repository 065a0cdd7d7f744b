// The choice of a server, as the upstream's `balance` says. Part of a pool; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "balance/choice.hpp"
#include "config/config.hpp"
#include "upstream/server.hpp"

namespace tidegate::upstream {

class Chooser {
  public:
    // `worker`, a number of its own, makes the workers begin with different servers.
    Chooser(const config::Upstream& settings, std::size_t worker);

    void reset(const std::vector<ServerPtr>& servers);
    // A place in the list; none: no server may be chosen. `key` is a hash of the request's key, and
    // none if the request has no value of it: then round robin chooses. The request has `tried`
    // servers already.
    balance::Chosen choose(std::optional<std::uint64_t> key, SteadyTime now,
                           const balance::Tried& tried);

  private:
    balance::RoundRobin round_robin_;
    std::optional<balance::LeastConnections> least_connections_;
    std::optional<balance::Hash> hash_;
    std::vector<balance::ServerState*> states_;
};

}  // namespace tidegate::upstream
