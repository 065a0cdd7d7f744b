#include "balance/hash.hpp"

#include <cmath>

#include "balance/scrambled.hpp"

namespace tidegate::balance {

namespace {

// What a server of that weight bids for a key; the highest bid wins. With `chance` evenly
// distributed, the bid of each server is the highest as often as its weight says. Of equal weights,
// the highest chance makes the highest bid.
double bid(std::uint64_t chance, std::uint64_t weight) {
    const double even = (static_cast<double>(chance >> 11) + 0.5) * 0x1p-53;  // 0 < even < 1
    return std::log(even) / static_cast<double>(weight);
}

}  // namespace

Chosen Hash::choose(SteadyTime now, std::uint64_t key, const Tried& tried) {
    const auto candidates = candidates_.find(servers_, now, slow_start_, tried);
    if (candidates.empty()) return std::nullopt;
    std::uint64_t requests = 1;  // this one
    std::uint64_t weights = 0;
    bool are_equal = true;
    for (const Candidate& candidate : candidates) {
        requests += candidate.active;
        weights += candidate.weight;
        are_equal = are_equal && candidate.weight == candidates.front().weight;
    }
    const Candidate* best = nullptr;
    std::uint64_t best_chance = 0;
    double best_bid = 0;
    for (const Candidate& candidate : candidates) {
        // With one more request, the server is within its part, rounded up. At least one candidate
        // is: together the parts are more than all requests. (The products stay below 2^64 with a
        // billion requests in flight.)
        const bool has_room =
            candidate.active * 100 * weights < kLoadPercent * requests * candidate.weight;
        if (!has_room) continue;
        const std::uint64_t chance = scrambled(key + candidate.id * kGoldenRatio);
        const double its = are_equal ? 0 : bid(chance, candidate.weight);
        if (best != nullptr && (are_equal ? chance <= best_chance : its <= best_bid)) continue;
        best = &candidate;
        best_chance = chance;
        best_bid = its;
    }
    return best->index;
}

}  // namespace tidegate::balance
