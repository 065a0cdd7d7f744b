// What the engine checks in each request before it looks for a route: the framing of the message,
// the method, and the form of an extended CONNECT. Pure. A check sets decision.fault when the
// request goes no further.
#pragma once

#include <string_view>

#include "ask/decision.hpp"
#include "http/framing.hpp"

namespace tidegate::ask {

// Finds the end of the message, its host, and how much body it announces. Sets `framing`,
// facts.host, facts.body_bytes and facts.has_body, and checks the method. An extended CONNECT has
// no body, and asks for a WebSocket.
void check_framing(Facts& facts, http::Framing& framing, Decision& decision);

// Refuses methods that go to no upstream: CONNECT and, in any case, TRACE. For a request that
// another server has read and names: the method of its own message meets check_framing().
void check_method(std::string_view method, Decision& decision);

}  // namespace tidegate::ask
