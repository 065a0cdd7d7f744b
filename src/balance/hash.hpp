// A choice of servers by a key of the request: balance/choice.hpp has what is common to all
// choices.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "balance/candidates.hpp"
#include "balance/choice.hpp"
#include "balance/server_state.hpp"

namespace tidegate::balance {

// The same server for the same key, in all workers and processes (rendezvous hashing). A server has
// as many keys as its weight says; when a server goes or comes, only its own keys move. A request
// that would lift a server above kLoadPercent of its part of all requests in flight (rounded up)
// goes to the next server of the key. Threads that choose at the same moment do not see each other.
class Hash {
  public:
    static constexpr std::uint64_t kLoadPercent = 125;

    explicit Hash(std::chrono::nanoseconds slow_start = {}) : slow_start_(slow_start) {}

    void reset(Servers servers) { servers_.assign(servers.begin(), servers.end()); }
    // `key`: a hash of what the server is chosen by.
    Chosen choose(SteadyTime now, std::uint64_t key, const Tried& tried = {});

  private:
    const std::chrono::nanoseconds slow_start_;
    std::vector<ServerState*> servers_;
    Candidates candidates_;
};

}  // namespace tidegate::balance
