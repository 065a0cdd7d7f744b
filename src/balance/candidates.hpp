// The servers among which a choice is made. A choice reads the state of each server once: other
// threads change it at any moment, and a second look might find that no server is left.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balance/choice.hpp"
#include "balance/server_state.hpp"

namespace tidegate::balance {

using Servers = std::span<ServerState* const>;

struct Candidate {
    std::size_t index;     // in the list
    std::uint64_t weight;  // times share; at least 1
    std::uint64_t active;
    std::uint64_t id;
};

// Gathers the servers of the lowest rank there is. Kept from choice to choice for its memory.
class Candidates {
  public:
    void begin();
    // The next server of the list.
    void add(const ServerState& server, SteadyTime now, std::chrono::nanoseconds slow_start,
             const Tried& tried);
    // Valid until begin(). Only one of those that were tried if no other server may be chosen;
    // empty if none of these may be chosen either.
    std::span<const Candidate> end();

    std::span<const Candidate> find(Servers servers, SteadyTime now,
                                    std::chrono::nanoseconds slow_start, const Tried& tried);

  private:
    std::vector<Candidate> best_;
    Rank rank_ = Rank::out;
    std::size_t count_ = 0;
    Candidate last_{};  // of those that were tried; of weight 0: none
};

// Weighted round robin among some servers of a list, others in each choice: a choice adds to what
// each candidate is due its weight, chooses the candidate that is due most, and takes the sum of
// these weights from it. Costs a look at each candidate.
class TurnsByDue {
  public:
    void reset(std::size_t servers) { due_.assign(servers, 0); }
    // Null: there are none.
    const Candidate* next(std::span<const Candidate> candidates);

  private:
    std::vector<std::int64_t> due_;
};

}  // namespace tidegate::balance
