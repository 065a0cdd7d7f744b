// Why a request did not get the upstream's answer, and what the client gets instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "http/head.hpp"
#include "telemetry/access_log_fields.hpp"

namespace tidegate::ask {

enum class Fault : std::uint8_t {
    none,
    // the client's
    bad_head,
    bad_framing,
    bad_path,
    ambiguous_path,
    bad_version,
    unsupported_method,
    uri_too_long,
    head_too_large,
    too_many_fields,
    body_too_large,
    bad_body,
    head_timeout,
    body_timeout,
    body_made_room,         // its upstream connection went to a request that can use it
    no_identifier,          // the request has none of the keys of a policy
    no_user,                // the route or a policy needs a user, and the request has none
    ambiguous_name,         // what a policy counts by can be read in more than one way
    bad_credentials,        // the credential is not valid
    ambiguous_credentials,  // there are two where there can be one
    credentials_unchecked,  // the credential cannot be checked at the moment
    no_price,               // money is counted, and there is no price for the model
    coded_body,             // the body is compressed, and a policy has to read it
    bodies_full,            // no room is left for bodies that have to be read first
    bad_moment,             // a schedule applies, and the request names no moment for it
    denied,                 // a policy's `deny` lists the client
    peer_not_admitted,      // the listener's `from` does not list the peer
    bad_original,           // the gateway does not say which request it asks about
    bad_token,              // the call lacks the listener's `token`
    bad_call,               // a call of the check API that cannot be answered; its answer says why
    bad_upgrade,            // it asks for a WebSocket, and is no handshake for one
    upgrade_version,        // it asks for a version of WebSocket that is not supported
    client_left,            // the client has closed or reset the connection
    client_not_reading,     // the client does not take the answer
    answer_made_room,       // its upstream connection went to another request inside the answer
    // ours
    no_route,
    limited,
    store_unavailable,
    decision_late,  // it took longer than the caller waits
    stopped,        // the time to drain has passed
    // the upstream's
    upstream_unreachable,
    connect_timeout,
    upstream_tls,        // a side of TLS does not accept the other
    upstream_no_http2,   // its settings say HTTP/2, and it does not speak that
    upstream_no_grpc,    // a call of gRPC, and its settings say HTTP/1, which cannot carry that
    upstream_refused,    // it says, twice, that it takes no request at the moment
    upstream_exhausted,  // no connection to it came free in time
    upstream_down,       // none of its servers is healthy
    upstream_broken,     // its answer is malformed, or it closed without one
    upgrade_ignored,     // it took a handshake over HTTP/2 for a request, and admitted that
    upstream_timeout,
    answer_cut_off,  // it closed inside its answer: the client has part of it
    answer_stalled,  // it stopped sending inside its answer
};

// Not described: there are about as many as Boost.Describe takes.
inline constexpr Fault kLastFault = Fault::answer_stalled;
inline constexpr std::size_t kFaults = static_cast<std::size_t>(kLastFault) + 1;

struct FaultTraits {
    int status;  // 0: no answer can be given
    telemetry::Outcome outcome;
    bool close;               // the client's connection cannot go on
    std::string_view name;    // for log and metrics: `client: bad framing`
    std::string_view detail;  // for the client, unless the decision has a better one
};

const FaultTraits& traits(Fault fault);

// The fault of a request whose head cannot be read. Requires that there is one.
Fault fault_of(http::HeadFault fault);

}  // namespace tidegate::ask
