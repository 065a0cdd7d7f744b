// Preflights: a browser asks whether a page of another origin may send a request (Fetch standard,
// section "CORS-preflight request"). Pure.
#pragma once

#include "http/head.hpp"

namespace tidegate::ask {

// Whether `head` is a preflight: OPTIONS with Origin and Access-Control-Request-Method, whatever
// they say. Not with a body, which no browser sends: an upstream may act upon it. Not where
// Connection names one of the fields, as the upstream does not get it. Requires a head whose
// framing has been checked.
bool is_preflight(const http::RequestHead& head);

}  // namespace tidegate::ask
