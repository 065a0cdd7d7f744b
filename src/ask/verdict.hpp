// What the store's verdict means for a request and its client.
#pragma once

#include <cstdint>

#include "ask/decision.hpp"
#include "ask/ruleset.hpp"

namespace tidegate::ask {

// Reads decision.charge, which is answered: sets decision.ratelimit and, unless the store admits
// the request, a fault. Counts what each limit decided.
void apply_verdict(const Ruleset& rules, Metrics& metrics, Decision& decision);

// The units that decision.charge took were given back: corrects what the verdict and
// decision.ratelimit say is left.
void note_given_back(const Ruleset& rules, Decision& decision);

// Seconds for Retry-After of a denial: whole, rounded up, at least 1, never earlier than a denying
// limit's next unit. 0: the request would never pass, or the store knows no time.
std::int64_t retry_after_seconds(const store::LimitDecision& charge);

}  // namespace tidegate::ask
