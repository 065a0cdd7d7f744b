// Findings as people and programs read them. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "doctor/finding.hpp"

namespace tidegate::doctor {

// A line a finding, what to do under it, and how many of each there are at the end.
std::string report_text(std::span<const Finding> findings);

// One object: `findings`, and how many of each severity.
std::string report_json(std::span<const Finding> findings);

inline constexpr int kExitFaults = 3;
// 0: all well, notes aside; 1: warnings; 3: faults. 2 is for a wrong command line.
int exit_code(std::span<const Finding> findings);

}  // namespace tidegate::doctor
