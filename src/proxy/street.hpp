// The houses on the street of a request that need no waiting. Each sets exchange.fault when the
// request goes no further.
#pragma once

#include "proxy/exchange.hpp"
#include "proxy/http1_client.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

struct ChargeNotes;

// Where the message ends, whose host it is for, and whether it is small enough.
void check_framing(Exchange& exchange);
// Sets exchange.route.
void match_route(Exchange& exchange);
// Sets exchange.client, .who and .request_id; and .user and .tier, unless is_unproved().
void identify(const Http1Client& client, Exchange& exchange);
// Counts that exchange.chain_fault kept the client's address from us, and logs it once an hour.
// Requires a fault.
void report_chain_fault(WorkerContext& worker, const identity::Peer& peer,
                        const Exchange& exchange);
// Whether there is a credential that was not found valid at sight: it counts as a guess until it is
// proved, and one that is refused already was one.
bool is_unproved(const Exchange& exchange);
// Whether a policy's `deny` names the client by what is known of it so far: then exchange.fault
// says so.
bool is_turned_away(Exchange& exchange);
// Makes exchange.decision the question whether the address is over limits of the route that hold
// for it whoever its user turns out to be: to be looked at, not to be charged. False when there are
// none. Policies with tiers or with `exempt` users are left out: they hang on who the user is.
bool list_limits_of_address(Exchange& exchange);
// Makes exchange.decision the question whether the client may guess once more
// (`identity.failed_credentials`). False when nobody counts.
bool list_guess(Exchange& exchange);
// The decision about the address or the guess is settled: the exchange is ready for the next one.
void forget_question(Exchange& exchange);
// What became of the credential: sets exchange.user and .tier, or a fault.
void conclude_identity(Exchange& exchange);
// Makes the question to the store from the route's policies and who is asking: items, cost and
// moment of exchange.decision. Without an item there is nothing to ask: the request is admitted.
// A fault: the client is on a list of those denied, cannot be named, or does not say what it must.
// With `notes` it tells how it came to that; they are empty before.
void list_charges(WorkerContext& worker, Exchange& exchange, ChargeNotes* notes = nullptr);
// Turns the decision into what the client is told, and into a fault if it was no.
void judge(WorkerContext& worker, Exchange& exchange);
// Log and metrics. Runs on every way out.
void record(WorkerContext& worker, Exchange& exchange);

// Seconds for Retry-After of a denial: whole, rounded up, at least 1, never earlier than a denying
// limit's next unit. 0: it would never pass, or nobody can tell when.
std::int64_t retry_after_seconds(const store::Decision& decision);

}  // namespace tidegate::proxy
