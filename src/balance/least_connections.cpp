#include "balance/least_connections.hpp"

#include "balance/scrambled.hpp"

namespace tidegate::balance {

namespace {

// Whether the first has fewer requests in flight for its weight.
bool has_fewer(const Candidate& one, const Candidate& other) {
    return one.active * other.weight < other.active * one.weight;
}

}  // namespace

void LeastConnections::reset(Servers servers) {
    servers_.assign(servers.begin(), servers.end());
    ties_.reset(servers.size());
    turns_.reset(servers);
}

Chosen LeastConnections::choose(SteadyTime now, const Tried& tried) {
    return servers_.size() <= kAllSeen ? choose_of_all(now, tried) : choose_of_two(now, tried);
}

Chosen LeastConnections::choose_of_all(SteadyTime now, const Tried& tried) {
    fewest_.clear();
    for (const Candidate& candidate : candidates_.find(servers_, now, slow_start_, tried)) {
        if (!fewest_.empty() && has_fewer(fewest_.front(), candidate)) continue;
        if (!fewest_.empty() && has_fewer(candidate, fewest_.front())) fewest_.clear();
        fewest_.push_back(candidate);
    }
    const Candidate* const next = ties_.next(fewest_);
    return next != nullptr ? Chosen(next->index) : std::nullopt;
}

Chosen LeastConnections::choose_of_two(SteadyTime now, const Tried& tried) {
    const Chosen first = turns_.choose(now, tried);
    if (!first) return first;
    const std::size_t count = servers_.size();
    const std::size_t begin = random() % count;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t second = (begin + i) % count;
        if (second == *first || tried.has(*servers_[second])) continue;
        candidates_.begin();
        candidates_.add(*servers_[*first], now, slow_start_, {});
        candidates_.add(*servers_[second], now, slow_start_, {});
        const auto both = candidates_.end();
        if (both.size() < 2) continue;  // one is of a higher rank
        return has_fewer(both[1], both[0]) ? second : first;
    }
    return first;
}

std::uint64_t LeastConnections::random() {
    random_ += kGoldenRatio;
    return scrambled(random_);
}

}  // namespace tidegate::balance
