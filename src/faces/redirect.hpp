// Listeners with `redirect: https`: a request in the clear is sent to the same place under https.
//
// No limit counts it and nothing of it is forwarded; it is logged. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client/stream.hpp"
#include "config/config.hpp"
#include "http/head.hpp"
#include "net/task.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::faces {

// The target URI of `head` (RFC 9110 section 7.1) with the scheme `https`, and with `port` in place
// of the one that `host` may end in; 443 is not written. `host` is the request's: a valid one, not
// empty.
std::string https_location(std::string_view host, std::uint16_t port,
                           const http::RequestHead& head);

// One listener of a worker. Both outlive its connections.
struct Redirect {
    proxy::WorkerContext& worker;
    const config::Listen& listen;
};

// Serves one request: the callback of client::ConnectionContext, with a Redirect.
Task<> serve_redirect(void* redirect, client::Stream& client);

}  // namespace tidegate::faces
