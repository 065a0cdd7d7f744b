// What a connection in HTTP/2 may cost: with clients `http2` and the limits on requests of the
// configuration; with servers of upstreams, what suffices for any number of streams.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "h2/budget.hpp"
#include "http/head.hpp"

namespace tidegate::h2 {

struct Settings {
    // At a time, in service: until the coroutine that serves the request has ended.
    std::uint32_t streams = 100;
    std::uint32_t stream_window = 256 * 1'024;
    std::uint32_t connection_window = 1'024 * 1'024;
    // So many `cookie` fields may one head have; together they count as one field.
    std::size_t cookie_crumbs = 256;
    AbuseLimit abuse;
    http::HeadBounds head;                        // `header_bytes`, `headers`, `uri_bytes`
    std::chrono::milliseconds head_time{10'000};  // for a header block that has begun
    bool connect_protocol = false;                // RFC 8441: any route allows websockets
};

// Of connections to servers.
struct ClientSettings {
    // At a time, until the server has said how many it takes (RFC 9113 section 5.1.2).
    std::uint32_t streams = 100;
    // As many at most, whatever the server says: kClientResets has a reset for each.
    std::uint32_t streams_max = 100;
    // SETTINGS_MAX_HEADER_LIST_SIZE of an earlier connection, until the server has said it again;
    // UINT32_MAX: any.
    std::uint32_t list_bytes = UINT32_MAX;
    http::HeadBounds head;                        // of answers
    std::chrono::milliseconds head_time{10'000};  // for a header block that has begun
};

// Requests of a connection to a server that the proxy may reset, for clients that left or for the
// server's faults. Servers end a connection on which more are, with all its requests: of those
// whose bounds are known, Netty has the lowest, 200 in 30 s. So a connection has no more requests
// at a time than resets left, and one that has used them up gets no new requests.
inline constexpr AbuseLimit kClientResets{100, {3, std::chrono::seconds{1}}};

// No stream waits for what another one's receiver does not take: this is room for the windows of
// more streams than a connection may have. A stream has the 65,535 bytes that it begins with.
inline constexpr std::int32_t kClientConnectionWindow = 2'147'483'647;
// Interim answers to one request. Few are kept until they are looked at.
inline constexpr std::uint32_t kInterimMax = 100;
inline constexpr std::size_t kInterimKept = 8;
// Pushes, which no server may send: the first SETTINGS forbid them.
inline constexpr std::uint32_t kPushesMax = 16;

// An answer that comes before the request's end: the client has so long to end the request, within
// the windows that it has. Then the stream is reset.
inline constexpr std::chrono::milliseconds kRequestEnd{500};
// A connection that has had so many streams is drained.
inline constexpr std::uint32_t kStreamsOfConnection = 10'000;
// CONTINUATION frames of a header block.
inline constexpr std::uint32_t kContinuationsMax = 8;
// A header block of more than so many times `header_bytes` ends the connection.
inline constexpr std::size_t kHeadBytesFactor = 4;
inline constexpr std::chrono::seconds kSettingsTime{10};  // to acknowledge SETTINGS
// Between the two GOAWAY of a drain, unless the client has answered a PING sooner.
inline constexpr std::chrono::seconds kDrainStep{1};
// For the last GOAWAY of a connection that is closed for abuse, or for a server's fault.
inline constexpr std::chrono::seconds kLastWords{1};

}  // namespace tidegate::h2
