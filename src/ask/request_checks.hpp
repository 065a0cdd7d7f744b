// What the engine checks in each request before it looks for the client: the framing of the
// message, the method, the form of an extended CONNECT, and which route takes the request. Pure. A
// check sets decision.fault when the request goes no further.
#pragma once

#include <span>
#include <string>
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

// Sets decision.route and decision.is_preflight. Refuses a request that announces more body than
// the route takes; one whose fields override method or target, where nothing removes them
// (facts.keeps_fields, Config::removed_overrides); and a path of which the route's `strip_prefix`
// cannot be removed without a doubt about the rest.
void match_route(const config::Config& config, const Facts& facts, Decision& decision);

// Preflights: a browser asks whether a page of another origin may send a request (Fetch standard,
// section "CORS-preflight request").

// Whether the request is a preflight: OPTIONS with Origin and Access-Control-Request-Method. Each
// of these fields has a value, and Connection names neither, so that the upstream gets both. Not
// with a body, nor with one of `credential_fields` (lower case) or a field that overrides the
// method or the target, in any spelling that servers read as it: no browser sends these in a
// preflight, and an upstream may act upon them. Requires facts that check_framing() has accepted.
bool is_preflight(const Facts& facts, std::span<const std::string> credential_fields);

}  // namespace tidegate::ask
