// What a simulation found, as text, JSON and a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/doc.hpp"
#include "base/result.hpp"
#include "simulate/compare.hpp"
#include "simulate/replay.hpp"
#include "simulate/simulation.hpp"

namespace tidegate::simulate {

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
