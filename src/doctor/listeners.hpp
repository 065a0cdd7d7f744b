// What clients of the listeners see, if Tidegate runs. Blocks.
#pragma once

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/time_limit.hpp"

namespace tidegate::doctor {

// Shakes hands with each listener with `tls` for each name of its certificates, asks each listener
// with `redirect` for one name, begins HTTP/2 with those in the clear that have it, and finds out
// whether the latter and the others speak TLS. Of a configuration with neither TLS nor HTTP/2, no
// listener is connected to.
Findings examine_listeners(const config::Config& config, const TimeLimit& time_limit);

}  // namespace tidegate::doctor
