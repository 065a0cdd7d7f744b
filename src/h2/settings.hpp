// What a connection in HTTP/2 may cost: `http2` and the limits on requests of the configuration.
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

// A connection that has had so many streams is drained.
inline constexpr std::uint32_t kStreamsOfConnection = 10'000;
// CONTINUATION frames of a header block.
inline constexpr std::uint32_t kContinuationsMax = 8;
// A header block of more than so many times `header_bytes` ends the connection.
inline constexpr std::size_t kHeadBytesFactor = 4;
inline constexpr std::chrono::seconds kSettingsTime{10};  // to acknowledge SETTINGS
// Between the two GOAWAY of a drain, unless the client has answered a PING sooner.
inline constexpr std::chrono::seconds kDrainStep{1};
// For the last GOAWAY of a connection that is closed for abuse.
inline constexpr std::chrono::seconds kLastWords{1};

}  // namespace tidegate::h2
