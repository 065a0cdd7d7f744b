// What remains of a request that has ended: counters, its client among the most frequent ones and
// the last denials, and a line in the access log.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "ask/decision.hpp"
#include "ask/ruleset.hpp"
#include "proxy/exchange.hpp"
#include "proxy/simulate_recording.hpp"
#include "proxy/worker_context.hpp"
#include "telemetry/top_and_denials.hpp"

namespace tidegate::proxy {

// Records a request that has ended. Runs once for every request that had a head.
void record(WorkerContext& worker, const Exchange& exchange);

// Adds a decision to a recording, or ends the recording if the admin listener has not asked for
// its lines for long. Requires that there is one.
void add_to_recording(std::unique_ptr<Recording>& recording, const Recording::Request& request,
                      std::chrono::steady_clock::time_point now);

// Adds a charged decision to the activity of the worker's clients. The caller calls it once for
// each decision. `request_id` names the request that asked for it.
void note_activity(telemetry::Activity::Names& names, const ask::Ruleset& rules,
                   const ask::Decision& decision, std::string_view request_id,
                   std::chrono::steady_clock::time_point now);

}  // namespace tidegate::proxy
