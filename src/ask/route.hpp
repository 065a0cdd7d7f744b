// The first steps of a request: is its message sound, and which route takes it. Pure. Each step
// sets decision.fault when the request goes no further.
#pragma once

#include "ask/decision.hpp"
#include "ask/facts.hpp"
#include "http/framing.hpp"

namespace tidegate::ask {

// Finds the end of the message, its host, and whether it announces more body than allowed. Sets
// `framing` and facts.host.
void check_framing(const config::RequestBounds& bounds, Facts& facts, http::Framing& framing,
                   Decision& decision);

// Sets decision.route.
void match_route(const config::Config& config, const Facts& facts, Decision& decision);

}  // namespace tidegate::ask
