// Compares what two configurations do with the same requests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "simulate/simulation.hpp"

namespace tidegate::simulate {

// How often only one of the two limited an identifier.
struct SideChange {
    std::string identifier;
    std::uint64_t only_live = 0;
    std::uint64_t only_candidate = 0;
};

// Bounded: identifiers beyond `clients_max` that change sides are counted, and not told apart.
class Comparison {
  public:
    explicit Comparison(std::size_t clients_max) : clients_max_(clients_max) {}

    // Adds a request that both have decided.
    void add(const Simulation::Decided& live, const Simulation::Decided& candidate);

    std::uint64_t both() const { return both_; }
    std::uint64_t neither() const { return neither_; }
    std::uint64_t only_live() const { return only_live_; }
    std::uint64_t only_candidate() const { return only_candidate_; }
    std::size_t clients() const { return changes_.size(); }
    // Those that change most often first, at most `count`.
    std::vector<SideChange> most_changed(std::size_t count) const;

  private:
    struct Counts {
        std::uint64_t only_live = 0;
        std::uint64_t only_candidate = 0;
    };

    std::size_t clients_max_;
    std::uint64_t both_ = 0;
    std::uint64_t neither_ = 0;
    std::uint64_t only_live_ = 0;
    std::uint64_t only_candidate_ = 0;
    boost::unordered_flat_map<std::string, Counts> changes_;
};

}  // namespace tidegate::simulate
