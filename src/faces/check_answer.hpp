// What the check API answers, in JSON. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "ask/decision.hpp"
#include "ask/ruleset.hpp"

namespace tidegate::faces {

// The status of an answer to a decision: 200, 429, or that of its fault.
int status_of(const ask::Decision& decision);

// `{"admitted", "limits", "retry_after_ms"}`; of a fault other than a limit also `status` and
// `detail`. Limits of policies in shadow are left out: they refuse nobody.
nlohmann::ordered_json answer_json(const ask::Ruleset& rules, const ask::Decision& decision);

// What is wrong with a call, as problem details (RFC 9457).
std::string problem_text(int status, std::string_view detail, std::string_view request_id);

// The same for a reservation that was settled with another cost, which is the member `cost`.
std::string settled_problem_text(std::int64_t cost, std::string_view request_id);

}  // namespace tidegate::faces
