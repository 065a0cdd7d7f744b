// One request from its head to its line in the access log.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ask/engine.hpp"
#include "ask/fault.hpp"
#include "client/stream.hpp"
#include "http/field.hpp"
#include "net/task.hpp"
#include "proxy/exchange.hpp"
#include "proxy/fault_answer.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

// The steps that all faces share.

// Puts the head that `x.client` sent into the facts, or refuses what is no request.
void begin(WorkerContext& worker, Exchange& x);
// Refuses a malformed message. Requires a complete head.
void check_framing(Exchange& x);
// Takes the body of `x.client` to its end, into `out` unless that is null, and grants 100
// Continue to a client that waits for it. A fault: the body is longer than `bytes_max`, malformed
// or too slow to come, as BodyWait says, or the client has left.
Task<ask::Fault> read_body(Exchange& x, std::uint64_t bytes_max, std::string* out);
// The question to the engine. `x` outlives the answer.
ask::Question question_of(Exchange& x);
// Sends `answer`; the connection closes after it if the fault or a long body requires that. False:
// the client does not take it all at once, and finish_answer() goes on with the same answer.
bool begin_answer(const WorkerContext& worker, Exchange& x, const FaultAnswer& answer);
Task<> finish_answer(Exchange& x, const FaultAnswer& answer);
// Does both, and owns the answer meanwhile.
Task<> send_answer(const WorkerContext& worker, Exchange& x, FaultAnswer answer);
// Settles the charge, records the request, and keeps the exchange for the next one.
void finish(WorkerContext& worker, std::unique_ptr<Exchange> exchange);

// Takes a request whose decision awaits its body to the verdict: reads the body,
// up to the route's `inspect_body`, and has the engine go on. The upload sends what was read.
// Refuses a body that is compressed or of another charset than UTF-8, longer than the route or a
// key of a policy takes, malformed or late, and one for which there is no room.
Task<> decide_with_body(WorkerContext& worker, Exchange& x, const ask::Question& question);
// Says whether the fields of a request say that its body is a form.
bool is_form(const http::Fields& fields);
// Says whether the body of a request is UTF-8 for every server: the type is there once at most, and
// names no other charset. ASCII is a part of UTF-8.
bool is_in_utf8(const http::Fields& fields);
inline constexpr std::string_view kOtherCharset =
    "A limit of this route counts by the body, which must be UTF-8: name no other charset, and one "
    "Content-Type.";
// Says whether a field of a request or of an answer names a coding of its body other than
// `identity`.
bool is_coded(const http::Fields& fields);

// Serves one request: the callback of client::ConnectionContext, with a WorkerContext.
Task<> serve(void* worker, client::Stream& client);

}  // namespace tidegate::proxy
