// The servers that a choice may fall on, each looked at once: other threads change what is known of
// a server at any moment, and a choice must not find in a second look that none is left.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
             const ServerState* other_than);
    // Valid until begin(). `other_than` alone, if no other server may be chosen; empty, if none
    // may.
    std::span<const Candidate> end();

    std::span<const Candidate> find(Servers servers, SteadyTime now,
                                    std::chrono::nanoseconds slow_start,
                                    const ServerState* other_than);

  private:
    std::vector<Candidate> best_;
    Rank rank_ = Rank::out;
    std::size_t count_ = 0;
    Candidate last_{};  // `other_than`; of weight 0: none
};

// Weighted round robin among any of the servers of a list: each choice adds its weight to what each
// candidate is due, and takes all of these weights from the one that is due most. Costs a look at
// each candidate.
class TurnsByDue {
  public:
    void reset(std::size_t servers) { due_.assign(servers, 0); }
    // Null: there are none.
    const Candidate* next(std::span<const Candidate> candidates);

  private:
    std::vector<std::int64_t> due_;
};

}  // namespace tidegate::balance
