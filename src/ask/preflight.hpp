// Preflights: a browser asks whether a page of another origin may send a request (Fetch standard,
// section "CORS-preflight request"). Pure.
#pragma once

#include <span>
#include <string>

#include "ask/facts.hpp"

namespace tidegate::ask {

// Whether the request is a preflight: OPTIONS with Origin and Access-Control-Request-Method. Each
// of these fields has a value, and Connection names neither, so that the upstream gets both. Not
// with a body, nor with one of `credential_fields` (lower case) or a field that overrides the
// method or the target, in any spelling that servers read as it: no browser sends these in a
// preflight, and an upstream may act upon them. Requires facts that check_framing() has accepted.
bool is_preflight(const Facts& facts, std::span<const std::string> credential_fields);

}  // namespace tidegate::ask
