#include "ask/fault.hpp"

#include <array>
#include <cstddef>

namespace tidegate::ask {

namespace {

using telemetry::Outcome;

constexpr auto kTraits = std::to_array<FaultTraits>({
    {0, Outcome::forwarded, false, "", ""},
    {400, Outcome::rejected, true, "client: bad head", "The request head is malformed."},
    {400, Outcome::rejected, true, "client: bad framing", "The request framing is malformed."},
    {400, Outcome::rejected, true, "client: bad path",
     "The path holds a malformed percent-encoding."},
    {400, Outcome::rejected, true, "client: ambiguous path",
     "The path can be read in more than one way."},
    {505, Outcome::rejected, true, "client: bad version",
     "The listener does not take this version of HTTP."},
    {501, Outcome::rejected, true, "client: unsupported method",
     "CONNECT and TRACE are not supported."},
    {414, Outcome::rejected, true, "client: target too long",
     "The request target is longer than allowed."},
    {431, Outcome::rejected, true, "client: head too large",
     "The header section is larger than allowed."},
    {431, Outcome::rejected, true, "client: too many fields",
     "The request has more fields than allowed."},
    {413, Outcome::rejected, true, "client: body too large", "The body is larger than allowed."},
    {400, Outcome::rejected, true, "client: bad body", "The chunked body is malformed."},
    {408, Outcome::rejected, true, "client: slow head", "The request head did not arrive in time."},
    {408, Outcome::rejected, true, "client: slow body", "The request body did not arrive in time."},
    {408, Outcome::rejected, true, "client: slow body, made room",
     "The request body came too slowly, and all connections to the upstream are in use."},
    {400, Outcome::rejected, false, "client: nobody",
     "The request lacks a value that a limit of this route counts by."},
    {401, Outcome::rejected, false, "client: no user",
     "This route needs a user, and the request names none."},
    {400, Outcome::rejected, false, "client: ambiguous name",
     "A value that a limit of this route counts by can be read in more than one way."},
    {401, Outcome::rejected, false, "client: bad credentials", "The credentials are not valid."},
    {400, Outcome::rejected, false, "client: ambiguous credentials",
     "The request names its user twice."},
    {503, Outcome::unavailable, false, "identity: unavailable",
     "The credentials cannot be checked at the moment."},
    {400, Outcome::rejected, false, "client: bad moment",
     "The moment the request is meant for cannot be read."},
    {403, Outcome::rejected, false, "client: denied", "Access is denied."},
    {403, Outcome::rejected, true, "client: not admitted",
     "This address may not ask here: the listener's `from` does not list it."},
    {400, Outcome::rejected, false, "client: bad original request",
     "The request does not say which request it asks about."},
    {401, Outcome::rejected, false, "client: bad token",
     "The listener wants its `token`: `Authorization: Bearer TOKEN`."},
    {400, Outcome::rejected, false, "client: bad call", "The call cannot be answered."},
    {400, Outcome::rejected, false, "client: bad WebSocket handshake",
     "The request asks for a WebSocket, but it is not a valid handshake."},
    {426, Outcome::rejected, false, "client: WebSocket version",
     "The only supported version of WebSocket is 13."},
    {0, Outcome::aborted, true, "client: left", ""},
    {0, Outcome::aborted, true, "client: not reading", ""},
    {0, Outcome::aborted, true, "client: slow, made room", ""},
    {404, Outcome::rejected, false, "no route", "No route matches this request."},
    {429, Outcome::limited, false, "", "The request is over a limit."},
    {503, Outcome::unavailable, false, "store: unavailable",
     "The limits cannot be checked at the moment."},
    {504, Outcome::unavailable, false, "decision: late",
     "The decision took longer than the caller waits."},
    {0, Outcome::aborted, true, "stopped", ""},
    {502, Outcome::failed, false, "upstream: unreachable", "The upstream cannot be reached."},
    {504, Outcome::failed, false, "upstream: slow to connect",
     "The upstream did not accept a connection in time."},
    {502, Outcome::failed, false, "upstream: TLS failed",
     "No encrypted connection to the upstream can be made."},
    {502, Outcome::failed, false, "upstream: no HTTP/2", "The upstream does not speak HTTP/2."},
    {501, Outcome::failed, false, "upstream: no gRPC",
     "The upstream speaks HTTP/1, which cannot carry gRPC. Tidegate speaks HTTP/2 with a server "
     "whose URL begins with `h2c://`, or, over TLS, with `http: h2` beside `https://`."},
    {503, Outcome::failed, false, "upstream: refused",
     "The upstream takes no more requests at the moment."},
    {503, Outcome::failed, false, "upstream: exhausted", "No upstream connection is free."},
    {503, Outcome::failed, false, "upstream: down", "No server of the upstream is healthy."},
    {502, Outcome::failed, false, "upstream: broken answer",
     "The upstream did not give a valid answer."},
    {502, Outcome::failed, false, "upstream: no WebSocket",
     "The upstream answered the WebSocket handshake without opening a WebSocket."},
    {504, Outcome::failed, false, "upstream: slow", "The upstream did not answer in time."},
    {0, Outcome::failed, true, "upstream: answer cut off", ""},
    {0, Outcome::failed, true, "upstream: answer stalled", ""},
});

static_assert(kTraits.size() == kFaults);

}  // namespace

const FaultTraits& traits(Fault fault) {
    return kTraits[static_cast<std::size_t>(fault)];
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
