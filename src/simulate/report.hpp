// What a simulation found, as text, JSON and a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "base/doc.hpp"
#include "base/result.hpp"
#include "simulate/replay.hpp"
#include "simulate/simulation.hpp"

namespace tidegate::simulate {

// How often only one of the two limited an identifier.
struct SideChange {
    std::string identifier;
    std::uint64_t only_live = 0;
    std::uint64_t only_candidate = 0;
};

// Compares what two configurations do with the same requests. Bounded: identifiers beyond
// `clients_max` that change sides are counted, and not told apart.
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

// How many of the identifiers that a limit refused most are listed, and of those that a candidate
// treats in another way.
inline constexpr std::size_t kMostLimited = 20;

// `0.1%` as parts of a million, 1'000. The error says what would be right.
Result<std::int64_t, std::string> parse_share(std::string_view text);

// The smallest quota by which at most `share` (parts of a million) of the clients would be limited,
// and how many those are. `peaks` in ascending order; none: no suggestion.
struct Suggestion {
    std::int64_t quota = 0;
    std::uint64_t clients = 0;
};
std::optional<Suggestion> suggest(const std::vector<std::int64_t>& peaks, std::int64_t share);

struct ReportOptions {
    std::optional<std::int64_t> suggest_share;  // parts of a million
};

// The exit code is 1 if more than 1% of the lines could not be read, or were late. `candidate`,
// `comparison`: null without --candidate.
Doc report(const Replay& replay, const Simulation& simulation, const Simulation* candidate,
           const Comparison* comparison, const ReportOptions& options);

// The requests and those that were limited in the course of time, and how many clients reached how
// much of each limit. The same simulation gives the same bytes.
std::string picture(const Simulation& simulation);

}  // namespace tidegate::simulate
