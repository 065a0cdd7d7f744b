// Whom the requests of a worker were counted for, and which of them a limit has refused.
#pragma once

#include <chrono>
#include <string_view>

#include "ask/decision.hpp"
#include "ask/ruleset.hpp"
#include "telemetry/activity.hpp"

namespace tidegate::proxy {

// Adds a decision that was charged, once. `request_id` is of the request that asked for it.
void note_activity(telemetry::Activity::Names& names, const ask::Ruleset& rules,
                   const ask::Decision& decision, std::string_view request_id,
                   std::chrono::steady_clock::time_point now);

}  // namespace tidegate::proxy
