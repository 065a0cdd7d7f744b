#include "simulate/compare.hpp"

#include <algorithm>

namespace tidegate::simulate {

void Comparison::add(const Simulation::Decided& live, const Simulation::Decided& candidate) {
    using Verdict = Simulation::Verdict;
    if (live.verdict == Verdict::none || live.verdict == Verdict::elsewhere) return;
    const bool by_live = live.verdict == Verdict::limited;
    const bool by_candidate = candidate.verdict == Verdict::limited;
    if (by_live == by_candidate) {
        ++(by_live ? both_ : neither_);
        return;
    }
    ++(by_live ? only_live_ : only_candidate_);
    const std::string name((by_live ? live : candidate).limited_identifier);
    auto found = changes_.find(name);
    if (found == changes_.end()) {
        if (changes_.size() >= clients_max_) return;
        found = changes_.emplace(name, Counts{}).first;
    }
    ++(by_live ? found->second.only_live : found->second.only_candidate);
}

std::vector<SideChange> Comparison::most_changed(std::size_t count) const {
    std::vector<SideChange> all;
    for (const auto& [name, counts] : changes_) {
        all.push_back({name, counts.only_live, counts.only_candidate});
    }
    const auto before = [](const SideChange& a, const SideChange& b) {
        const std::uint64_t of_a = a.only_live + a.only_candidate;
        const std::uint64_t of_b = b.only_live + b.only_candidate;
        return of_a != of_b ? of_a > of_b : a.identifier < b.identifier;
    };
    const std::size_t kept = std::min(count, all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                      before);
    all.resize(kept);
    return all;
}

}  // namespace tidegate::simulate
