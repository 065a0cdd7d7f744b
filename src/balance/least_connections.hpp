// A choice of servers by their requests in flight: balance/choice.hpp has what is common to all
// choices.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "balance/candidates.hpp"
#include "balance/round_robin.hpp"

namespace tidegate::balance {

// The server with the fewest requests in flight for its weight. With up to kAllSeen servers the
// choice looks at all of them; servers with equally few have turns by weight. With more servers it
// looks at two, the one whose turn it is and one by chance; with equally few, the former is chosen.
class LeastConnections {
  public:
    static constexpr std::size_t kAllSeen = 16;

    explicit LeastConnections(std::uint64_t seed, std::chrono::nanoseconds slow_start = {})
        : slow_start_(slow_start), random_(seed), turns_(seed, slow_start) {}

    void reset(Servers servers);
    Chosen choose(SteadyTime now, const Tried& tried = {});

  private:
    Chosen choose_of_all(SteadyTime now, const Tried& tried);
    Chosen choose_of_two(SteadyTime now, const Tried& tried);
    std::uint64_t random();

    const std::chrono::nanoseconds slow_start_;
    std::uint64_t random_;
    std::vector<ServerState*> servers_;
    Candidates candidates_;
    std::vector<Candidate> fewest_;  // of one choice
    TurnsByDue ties_;
    RoundRobin turns_;
};

}  // namespace tidegate::balance
