// Whether the collector takes what `tracing` sends to it. Blocks.
#pragma once

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/time_limit.hpp"

namespace tidegate::doctor {

// Sends it a request without spans, which a collector answers as any other. Nothing is a fault:
// requests are served without a collector, too.
Findings examine_collector(const config::Config& config, const TimeLimit& time_limit);

}  // namespace tidegate::doctor
