// Bodies that are read before their requests are decided.
#pragma once

#include "ask/engine.hpp"
#include "http/field.hpp"
#include "net/task.hpp"
#include "proxy/exchange.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

// Takes a request whose decision awaits its body to the verdict: reads the body, up to the route's
// `inspect_body`, and has the engine go on. What was read is held for the upload. Refuses a body
// that is compressed, longer than the route or a key of a policy takes, malformed or late, and one
// for which there is no room.
Task<> decide_with_body(WorkerContext& worker, Exchange& x, const ask::Question& question);

// Whether the fields of a request say that its body is a form.
bool is_form(const http::Fields& fields);
// Whether a field of a request or of an answer names a coding of its body other than `identity`.
bool is_coded(const http::Fields& fields);

}  // namespace tidegate::proxy
