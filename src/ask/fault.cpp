#include "ask/fault.hpp"

#include "base/described_enum.hpp"

namespace tidegate::ask {

namespace {

using telemetry::Outcome;

constexpr EnumTable<Fault, FaultTraits, kFaults> kTraits(
    {{Fault::none, {0, Outcome::forwarded, false, "", ""}},
     {Fault::bad_head,
      {400, Outcome::rejected, true, "client: bad head", "The request head is malformed."}},
     {Fault::bad_framing,
      {400, Outcome::rejected, true, "client: bad framing", "The request framing is malformed."}},
     {Fault::bad_path,
      {400, Outcome::rejected, true, "client: bad path",
       "The path holds a malformed percent-encoding."}},
     {Fault::ambiguous_path,
      {400, Outcome::rejected, true, "client: ambiguous path",
       "The path can be read in more than one way."}},
     {Fault::bad_version,
      {505, Outcome::rejected, true, "client: bad version",
       "The listener does not take this version of HTTP."}},
     {Fault::unsupported_method,
      {501, Outcome::rejected, true, "client: unsupported method",
       "CONNECT and TRACE are not supported."}},
     {Fault::uri_too_long,
      {414, Outcome::rejected, true, "client: target too long",
       "The request target is longer than allowed."}},
     {Fault::head_too_large,
      {431, Outcome::rejected, true, "client: head too large",
       "The header section is larger than allowed."}},
     {Fault::too_many_fields,
      {431, Outcome::rejected, true, "client: too many fields",
       "The request has more fields than allowed."}},
     {Fault::body_too_large,
      {413, Outcome::rejected, true, "client: body too large", "The body is larger than allowed."}},
     {Fault::bad_body,
      {400, Outcome::rejected, true, "client: bad body", "The body is malformed."}},
     {Fault::head_timeout,
      {408, Outcome::rejected, true, "client: slow head",
       "The request head did not arrive in time."}},
     {Fault::body_timeout,
      {408, Outcome::rejected, true, "client: slow body",
       "The request body did not arrive in time."}},
     {Fault::body_made_room,
      {408, Outcome::rejected, true, "client: slow body, made room",
       "The request body came too slowly, and all connections to the upstream are in use."}},
     {Fault::no_identifier,
      {400, Outcome::rejected, false, "client: nobody",
       "The request lacks a value that a limit of this route counts by."}},
     {Fault::no_user,
      {401, Outcome::rejected, false, "client: no user",
       "This route needs a user, and the request names none."}},
     {Fault::ambiguous_name,
      {400, Outcome::rejected, false, "client: ambiguous name",
       "A value that a limit of this route counts by can be read in more than one way."}},
     {Fault::bad_credentials,
      {401, Outcome::rejected, false, "client: bad credentials", "The credentials are not valid."}},
     {Fault::ambiguous_credentials,
      {400, Outcome::rejected, false, "client: ambiguous credentials",
       "The request names its user twice."}},
     {Fault::credentials_unchecked,
      {503, Outcome::unavailable, false, "identity: unavailable",
       "The credentials cannot be checked at the moment."}},
     {Fault::no_price,
      {400, Outcome::rejected, false, "client: no price",
       "There is no price for the model of the request, and its cost is counted in money."}},
     {Fault::coded_body,
      {415, Outcome::rejected, false, "client: coded body",
       "A limit of this route counts by the body, which must not be compressed."}},
     {Fault::bodies_full,
      {503, Outcome::unavailable, false, "bodies: full",
       "There is no room for the body at the moment."}},
     {Fault::bad_moment,
      {400, Outcome::rejected, false, "client: bad moment",
       "The moment the request is meant for cannot be read."}},
     {Fault::denied, {403, Outcome::rejected, false, "client: denied", "Access is denied."}},
     {Fault::peer_not_admitted,
      {403, Outcome::rejected, true, "client: not admitted",
       "This address may not ask here: the listener's `from` does not list it."}},
     {Fault::bad_original,
      {400, Outcome::rejected, false, "client: bad original request",
       "The request does not say which request it asks about."}},
     {Fault::bad_token,
      {401, Outcome::rejected, false, "client: bad token",
       "The listener wants its `token`: `Authorization: Bearer TOKEN`."}},
     {Fault::bad_call,
      {400, Outcome::rejected, false, "client: bad call", "The call cannot be answered."}},
     {Fault::bad_upgrade,
      {400, Outcome::rejected, false, "client: bad WebSocket handshake",
       "The request asks for a WebSocket, but it is not a valid handshake."}},
     {Fault::upgrade_version,
      {426, Outcome::rejected, false, "client: WebSocket version",
       "The only supported version of WebSocket is 13."}},
     {Fault::client_left, {0, Outcome::aborted, true, "client: left", ""}},
     {Fault::client_not_reading, {0, Outcome::aborted, true, "client: not reading", ""}},
     {Fault::answer_made_room, {0, Outcome::aborted, true, "client: slow, made room", ""}},
     {Fault::no_route,
      {404, Outcome::rejected, false, "no route", "No route matches this request."}},
     {Fault::limited, {429, Outcome::limited, false, "", "The request is over a limit."}},
     {Fault::store_unavailable,
      {503, Outcome::unavailable, false, "store: unavailable",
       "The limits cannot be checked at the moment."}},
     {Fault::decision_late,
      {504, Outcome::unavailable, false, "decision: late",
       "The decision took longer than the caller waits."}},
     {Fault::stopped, {0, Outcome::aborted, true, "stopped", ""}},
     {Fault::upstream_unreachable,
      {502, Outcome::failed, false, "upstream: unreachable", "The upstream cannot be reached."}},
     {Fault::connect_timeout,
      {504, Outcome::failed, false, "upstream: slow to connect",
       "The upstream did not accept a connection in time."}},
     {Fault::upstream_tls,
      {502, Outcome::failed, false, "upstream: TLS failed",
       "No encrypted connection to the upstream can be made."}},
     {Fault::upstream_no_http2,
      {502, Outcome::failed, false, "upstream: no HTTP/2", "The upstream does not speak HTTP/2."}},
     {Fault::upstream_no_grpc,
      {501, Outcome::failed, false, "upstream: no gRPC",
       "The upstream speaks HTTP/1, which cannot carry gRPC. Tidegate speaks HTTP/2 with a server "
       "whose URL begins with `h2c://`, or, over TLS, with `http: h2` beside `https://`."}},
     {Fault::upstream_refused,
      {503, Outcome::failed, false, "upstream: refused",
       "The upstream takes no more requests at the moment."}},
     {Fault::upstream_exhausted,
      {503, Outcome::failed, false, "upstream: exhausted", "No upstream connection is free."}},
     {Fault::upstream_down,
      {503, Outcome::failed, false, "upstream: down", "No server of the upstream is healthy."}},
     {Fault::upstream_broken,
      {502, Outcome::failed, false, "upstream: broken answer",
       "The upstream did not give a valid answer."}},
     {Fault::upgrade_ignored,
      {502, Outcome::failed, false, "upstream: no WebSocket",
       "The upstream answered the WebSocket handshake without opening a WebSocket."}},
     {Fault::upstream_timeout,
      {504, Outcome::failed, false, "upstream: slow", "The upstream did not answer in time."}},
     {Fault::answer_cut_off, {0, Outcome::failed, true, "upstream: answer cut off", ""}},
     {Fault::answer_stalled, {0, Outcome::failed, true, "upstream: answer stalled", ""}}});

}  // namespace

const FaultTraits& traits(Fault fault) {
    return kTraits[fault];
}

Fault fault_of(http::HeadFault fault) {
    using http::HeadFault;
    switch (fault) {
        case HeadFault::uri_too_long:
            return Fault::uri_too_long;
        case HeadFault::too_large:
            return Fault::head_too_large;
        case HeadFault::too_many_fields:
            return Fault::too_many_fields;
        case HeadFault::bad_version:
            return Fault::bad_version;
        default:
            return Fault::bad_head;
    }
}

}  // namespace tidegate::ask
