// Heads as Tidegate writes them: parsed, filtered, written anew; raw bytes are never relayed. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "proxy/exchange.hpp"
#include "proxy/http1_client.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

// The request as the upstream gets it. Its body goes in the framing it came in.
void append_request_head(const WorkerContext& worker, const Http1Client& client,
                         const Exchange& exchange, const std::string& authority, std::string& out);

// The upstream's answer as the client gets it, its body framed as `body`.
void append_answer_head(const WorkerContext& worker, const Exchange& exchange, http::BodyKind body,
                        std::string& out);

// An interim answer (1xx), passed on.
void append_interim_head(const http::ResponseHead& head, std::string& out);

// An answer made here for exchange.fault, with its body if the request may have one. Returns the
// size of the body.
std::size_t append_fault_answer(const WorkerContext& worker, const Exchange& exchange,
                                std::string& out);

// Strikes out of a request's trailers what must not reach an upstream.
void filter_request_trailers(const WorkerContext& worker, http::Fields& trailers);

}  // namespace tidegate::proxy
