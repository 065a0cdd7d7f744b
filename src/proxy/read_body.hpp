// The whole body of a request that goes no further than here.
#pragma once

#include <cstdint>
#include <string>

#include "ask/fault.hpp"
#include "net/task.hpp"
#include "proxy/exchange.hpp"

namespace tidegate::proxy {

// Takes the body of exchange.client to its end, into `out` unless that is null, and grants 100
// Continue to a client that waits for it. A fault: the body is longer than `bytes_max`, malformed,
// not there within timeouts.request_body, or the client has left. Where that ends while the client
// has no room to send, it begins again, until timeouts.request_body_total is over.
Task<ask::Fault> read_body(Exchange& exchange, std::uint64_t bytes_max, std::string* out);

}  // namespace tidegate::proxy
