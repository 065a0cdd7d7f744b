// Which server of an upstream a request goes to.
//
// Each worker thread has a choice of its own, over its own list of the servers that all threads
// share; so it takes no lock. The caller supplies the time, and counts the request
// (ServerState::begin_request). Common to round robin, least connections and the hash:
//
// - Servers of the lowest rank there is are chosen from (balance/health.hpp): those that are
//   usable, else those whose connections failed lately, else those that are ejected.
// - A server that the request has `tried` is chosen only if no other server may be.
// - None is returned if no server may be chosen: all are unhealthy or drain.
// - A server in slow start counts as its share of its weight.
// - What is returned is a place in the list. The servers must outlive the list.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <boost/container/static_vector.hpp>

#include "balance/health.hpp"

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

// Numbers that look random, for choices that every process makes alike.

// 2^64 over the golden ratio, odd: multiples of it are spread evenly.
inline constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15ULL;

// Every bit of the result depends on every bit of `value`.
inline std::uint64_t scrambled(std::uint64_t value) {
    value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdULL;
    value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return value ^ (value >> 33);
}

// The servers among which a choice is made. A choice reads the state of each server once: other
// threads change it at any moment, and a second look might find that no server is left.
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
    // choose_unusable() gathers the servers here.
    Candidates candidates_;
    TurnsByDue turns_by_due_;
};

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
