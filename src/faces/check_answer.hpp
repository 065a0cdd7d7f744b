// What the check API answers, in JSON. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ask/decision.hpp"
#include "ask/ruleset.hpp"

namespace tidegate::faces {

// The status of an answer to a decision: 200, 429, or that of its fault.
int status_of(const ask::Decision& decision);

// Appends `"admitted":...,"limits":[...]`, and of a refusal `"retry_after_ms"`, or of a fault other
// than a limit `"status"` and `"detail"`: members without braces, so that more can follow. Limits
// of policies in shadow are left out: they refuse no request.
void append_answer(const ask::Ruleset& rules, const ask::Decision& decision, std::string& out);

// Appends an object of an answer to `each`: the same members, and in any case `"status"`.
void append_each_answer(const ask::Ruleset& rules, const ask::Decision& decision, std::string& out);

// Likewise, of an item that makes no sense.
void append_each_fault(std::string_view detail, std::string& out);

// What is wrong with a call, as problem details (RFC 9457).
std::string problem_text(int status, std::string_view detail, std::string_view request_id);

// The same for a reservation that was settled with another cost, which is the member `cost`.
std::string settled_problem_text(std::int64_t cost, std::string_view request_id);

}  // namespace tidegate::faces
