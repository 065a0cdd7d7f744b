#include "balance/choice.hpp"

#include <algorithm>
#include <cmath>

namespace tidegate::balance {

namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;

// Every bit of the result depends on every bit of `value`.
std::uint64_t scrambled(std::uint64_t value) {
    value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdULL;
    value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return value ^ (value >> 33);
}

// Whether the first has fewer requests in flight for its weight.
bool has_fewer(const Candidate& one, const Candidate& other) {
    return one.active * other.weight < other.active * one.weight;
}

// What a server of that weight bids for a key; the highest bid wins. With `chance` evenly
// distributed, the bid of each server is the highest as often as its weight says. Of equal weights,
// the highest chance makes the highest bid.
double bid(std::uint64_t chance, std::uint64_t weight) {
    const double even = (static_cast<double>(chance >> 11) + 0.5) * 0x1p-53;  // 0 < even < 1
    return std::log(even) / static_cast<double>(weight);
}

}  // namespace

void LeastConnections::reset(Servers servers) {
    servers_.assign(servers.begin(), servers.end());
    ties_.reset(servers.size());
    turns_.reset(servers);
}

Chosen LeastConnections::choose(SteadyTime now, const ServerState* other_than) {
    return servers_.size() <= kAllSeen ? choose_of_all(now, other_than)
                                       : choose_of_two(now, other_than);
}

Chosen LeastConnections::choose_of_all(SteadyTime now, const ServerState* other_than) {
    fewest_.clear();
    for (const Candidate& candidate : candidates_.find(servers_, now, slow_start_, other_than)) {
        if (!fewest_.empty() && has_fewer(fewest_.front(), candidate)) continue;
        if (!fewest_.empty() && has_fewer(candidate, fewest_.front())) fewest_.clear();
        fewest_.push_back(candidate);
    }
    const Candidate* const next = ties_.next(fewest_);
    return next != nullptr ? Chosen(next->index) : std::nullopt;
}

Chosen LeastConnections::choose_of_two(SteadyTime now, const ServerState* other_than) {
    const Chosen first = turns_.choose(now, other_than);
    if (!first) return first;
    const std::size_t count = servers_.size();
    const std::size_t begin = random() % count;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t second = (begin + i) % count;
        if (second == *first || servers_[second] == other_than) continue;
        candidates_.begin();
        candidates_.add(*servers_[*first], now, slow_start_, nullptr);
        candidates_.add(*servers_[second], now, slow_start_, nullptr);
        const auto both = candidates_.end();
        if (both.size() < 2) continue;  // one is of a higher rank
        return has_fewer(both[1], both[0]) ? second : first;
    }
    return first;
}

std::uint64_t LeastConnections::random() {
    random_ += kOdd;
    return scrambled(random_);
}

Chosen Hash::choose(SteadyTime now, std::uint64_t key, const ServerState* other_than) {
    const auto candidates = candidates_.find(servers_, now, slow_start_, other_than);
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
        const std::uint64_t chance = scrambled(key + candidate.id * kOdd);
        const double its = are_equal ? 0 : bid(chance, candidate.weight);
        if (best != nullptr && (are_equal ? chance <= best_chance : its <= best_bid)) continue;
        best = &candidate;
        best_chance = chance;
        best_bid = its;
    }
    return best->index;
}

}  // namespace tidegate::balance
