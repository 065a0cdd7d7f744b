// What answers say to pages of other origins (Fetch standard, section "HTTP responses"). Pure.
#pragma once

#include <string>

#include "http/field.hpp"
#include "proxy/exchange.hpp"

namespace tidegate::proxy {

// Appends the fields of an answer made here. The answer names the request's origin only if the
// configuration allows it. Nothing where cors is off.
void append_cors_fields(const Exchange& exchange, std::string& out);

// Whether append_forwarded_cors_fields() takes the place of this field of the upstream's answer.
// Requires a route with cors.
bool is_merged_for_cors(const Exchange& exchange, const http::Field& field);

// Appends what the proxy adds to the upstream's answer, which keeps its own word about origins: the
// fields that scripts may read, behind those that the upstream lists; to a preflight, how long a
// browser may remember it, if the upstream does not say. `fields` are the upstream's. Requires a
// route with cors.
void append_forwarded_cors_fields(const Exchange& exchange, const http::Fields& fields,
                                  std::string& out);

}  // namespace tidegate::proxy
