// Whether upstreams can be connected to. Blocks.
#pragma once

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/patience.hpp"

namespace tidegate::doctor {

// Each server of each upstream, at each of its addresses. No request is sent.
Findings examine_upstreams(const config::Config& config, const Patience& patience);

}  // namespace tidegate::doctor
