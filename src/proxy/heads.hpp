// Heads as Tidegate writes them: parsed, filtered, written anew; raw bytes are never relayed. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/exchange.hpp"

namespace tidegate::proxy {

// Writes the request's head to exchange.upstream, for a server of this `authority`. The body keeps
// the framing in which it came. If `whole_body` says how many bytes the whole body has, and so that
// no trailers follow, the head has that length instead. Returns the text.
const std::string& write_request_head(Exchange& exchange, const std::string& authority,
                                      std::optional<std::uint64_t> whole_body = std::nullopt);

// Writes the head of the upstream's answer to exchange.client; with `date_line` if the upstream
// gave no date. Returns the text.
const std::string& write_answer_head(Exchange& exchange, const http::ResponseHead& answer,
                                     const http::Framing& framing, std::string_view date_line);

// Writes the head of a 101, the change to WebSocket, to exchange.client; in HTTP/2 it is a 200.
// Returns the text.
const std::string& write_switch_head(Exchange& exchange, const http::ResponseHead& answer);

// Writes the head of an interim answer (1xx) to `client`. Returns the text.
const std::string& write_interim_head(client::Stream& client, const http::ResponseHead& head);

// Appends the fields about the limits of the client.
void append_limit_fields(const Exchange& exchange, std::string& out);

// Appends the fields that an answer made here says to pages of other origins (Fetch standard,
// section "HTTP responses"). The answer names the request's origin only if the configuration allows
// it. Nothing where cors is off.
void append_cors_fields(const Exchange& exchange, std::string& out);

// Removes from a request's trailers what must not reach an upstream.
void filter_request_trailers(const Exchange& exchange, http::Fields& trailers);

// Removes from an answer's trailers what its head says about limits, and the name of the request,
// so that a client that takes trailers for fields reads the proxy's figures only.
void filter_answer_trailers(const Exchange& exchange, http::Fields& trailers);

}  // namespace tidegate::proxy
