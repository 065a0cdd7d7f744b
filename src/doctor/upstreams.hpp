// Whether upstreams can be connected to, and whether their servers pass their health checks.
// Blocks.
#pragma once

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/time_limit.hpp"

namespace tidegate::doctor {

// Each server of each upstream, at each of its addresses. No request is sent but that of the
// upstream's `health_check`, once.
Findings examine_upstreams(const config::Config& config, const TimeLimit& time_limit);

}  // namespace tidegate::doctor
