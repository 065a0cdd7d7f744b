#include "balance/candidates.hpp"

namespace tidegate::balance {

void Candidates::begin() {
    best_.clear();
    rank_ = Rank::out;
    count_ = 0;
    last_ = {};
}

void Candidates::add(const ServerState& server, SteadyTime now, std::chrono::nanoseconds slow_start,
                     const Tried& tried) {
    const std::size_t index = count_++;
    const Rank rank = server.rank(now);
    if (rank == Rank::out) return;
    const bool is_last = tried.has(server);
    if (!is_last && rank > rank_) return;
    const auto share = static_cast<std::uint64_t>(server.share_in_slow_start(now, slow_start));
    const Candidate candidate{index, server.weight() * share, server.active(), server.id()};
    if (is_last) {
        last_ = candidate;
        return;
    }
    if (rank < rank_) best_.clear();
    rank_ = rank;
    best_.push_back(candidate);
}

std::span<const Candidate> Candidates::end() {
    if (best_.empty() && last_.weight > 0) best_.push_back(last_);
    return best_;
}

std::span<const Candidate> Candidates::find(Servers servers, SteadyTime now,
                                            std::chrono::nanoseconds slow_start,
                                            const Tried& tried) {
    begin();
    for (const ServerState* server : servers) add(*server, now, slow_start, tried);
    return end();
}

const Candidate* TurnsByDue::next(std::span<const Candidate> candidates) {
    const Candidate* next = nullptr;
    std::int64_t weights = 0;
    for (const Candidate& candidate : candidates) {
        const auto weight = static_cast<std::int64_t>(candidate.weight);
        due_[candidate.index] += weight;
        weights += weight;
        if (next == nullptr || due_[candidate.index] > due_[next->index]) next = &candidate;
    }
    if (next != nullptr) due_[next->index] -= weights;
    return next;
}

}  // namespace tidegate::balance
