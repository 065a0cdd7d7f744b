// Redis as it is configured: one server, a master that sentinels name, or a cluster. Blocks.
#pragma once

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/time_limit.hpp"

namespace tidegate::doctor {

Findings examine_redis(const config::Config& config, const config::RedisSettings& settings,
                       const TimeLimit& time_limit);

}  // namespace tidegate::doctor
