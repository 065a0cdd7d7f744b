// Heads as Tidegate writes them: parsed, filtered, written anew; raw bytes are never relayed. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "proxy/exchange.hpp"

namespace tidegate::proxy {

// Writes the request's head to exchange.upstream, as a server of this `authority` gets it. Its body
// goes in the framing it came in. Returns the text.
const std::string& write_request_head(Exchange& exchange, const std::string& authority);

// The upstream's answer as the client gets it, its body framed as `body`.
void append_answer_head(const Exchange& exchange, const http::ResponseHead& answer,
                        const http::Framing& framing, http::BodyKind body, std::string& out);

// An interim answer (1xx), passed on.
void append_interim_head(const http::ResponseHead& head, std::string& out);

// An answer made here for exchange.decision.fault, with its body if the request may have one.
// Returns the size of the body.
std::size_t append_fault_answer(const Exchange& exchange, std::string& out);

// Strikes out of a request's trailers what must not reach an upstream.
void filter_request_trailers(const Exchange& exchange, http::Fields& trailers);

// Strikes out of an answer's trailers what is told of limits in its head: a client that takes
// trailers for fields gets the proxy's word, and no other time to come back.
void filter_answer_trailers(const Exchange& exchange, http::Fields& trailers);

}  // namespace tidegate::proxy
