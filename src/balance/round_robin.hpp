// A choice of servers by turns: balance/choice.hpp has what is common to all choices.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "balance/candidates.hpp"
#include "balance/choice.hpp"
#include "balance/server_state.hpp"

namespace tidegate::balance {

// Weighted round robin, with turns as evenly spread as they can be: weights 2, 1, 1 give A B A C.
//
// Servers have turns in virtual time: in one round of it, a server has as many turns as its weight,
// one after the other. Of the turns that have begun, the one that ends first is next (earliest
// eligible deadline first). A choice costs O(log n) while all servers are usable, and O(1) while
// these are of equal weights, too, and none is in slow start: then they take turns in one order. A
// server that is not usable loses its turns; the choice notices that it is back within n/2 choices.
class RoundRobin {
  public:
    // The turn numbered `seed` is the first, so that workers with seeds 0, 1, 2 … do not all begin
    // with the same server.
    explicit RoundRobin(std::uint64_t seed, std::chrono::nanoseconds slow_start = {})
        : seed_(seed), slow_start_(slow_start) {}

    // From now on these are the servers. Those that were there before keep their turns.
    void reset(Servers servers);
    Chosen choose(SteadyTime now, const Tried& tried = {});

  private:
    // Wraps around; all turns begin within a few rounds of each other.
    using Virtual = std::uint64_t;
    struct Turn {
        Virtual begin;
        Virtual length;
        std::uint32_t index;
    };
    struct Entry {
        ServerState* state;
        std::uint32_t weight = 0;  // of its turn
        int saved = 0;             // shares of turns that it did not use in slow start
    };
    struct BeginsLater;
    struct EndsLater;

    static bool is_even(const Entry& entry, SteadyTime now, std::chrono::nanoseconds slow_start);
    Chosen choose_in_order(SteadyTime now);
    void begin_order(SteadyTime now);
    void end_order();
    Chosen choose_by_heaps(SteadyTime now, const Tried& tried);
    void add(std::uint32_t index, Virtual begin);
    Turn take_turn();
    void pass_on(Turn turn);
    bool may_use_turn(Entry& entry, SteadyTime now) const;
    void park(const Turn& turn);
    void look_at_parked(SteadyTime now);
    void set_weight(Entry& entry, std::uint32_t weight);
    Chosen choose_unusable(SteadyTime now, const Tried& tried);

    const std::uint64_t seed_;
    const std::chrono::nanoseconds slow_start_;
    std::vector<Entry> entries_;
    std::vector<Turn> ahead_;            // heap: the first to begin on top
    std::vector<Turn> begun_;            // heap: the first to end on top
    std::vector<Turn> left_out_;         // in one choice: of servers that were tried
    std::vector<std::uint32_t> parked_;  // servers without turns: they were not usable
    // Not empty: all servers are equal and take turns in this order, and the heaps are empty.
    std::vector<std::uint32_t> order_;
    std::size_t next_in_order_ = 0;
    std::size_t choices_ = 0;    // since the last look whether all are equal
    std::size_t next_look_ = 0;  // at parked_
    std::uint64_t weights_ = 0;  // of all that have turns
    Virtual step_ = 0;           // by which a turn moves time on
    Virtual now_ = 0;
    // Where no server is usable.
    Candidates candidates_;
    TurnsByDue turns_by_due_;
};

}  // namespace tidegate::balance
