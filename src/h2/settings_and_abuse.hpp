// A connection in HTTP/2 is bounded by its settings, by fixed bounds, and by AbuseBudget
// (`http2.abuse`), the budget for what its client does that costs the proxy work and serves no
// request.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "http/head.hpp"

namespace tidegate::h2 {

using Time = std::chrono::steady_clock::time_point;

struct AbuseLimit {
    std::uint32_t burst = 1'000;
    Rate per{100, std::chrono::seconds{1}};
};

// Bounds what a client may do on one HTTP/2 connection that costs the proxy work and serves no
// request: resets, SETTINGS, PING, PRIORITY, empty frames and the like, from one bucket. Pure: time
// is an argument.
//
// The bucket fills up at a fixed rate, and by one for each answer that ended well: a fixed rate
// alone would disconnect a busy gateway for the few of its many requests that it cancels.
class AbuseBudget {
  public:
    // Full at first. Requires a quota of at least 1.
    explicit AbuseBudget(const AbuseLimit& limit)
        : interval_(std::chrono::nanoseconds(limit.per.per) / limit.per.quota),
          depth_(interval_ * limit.burst) {}

    // Takes one, and returns false if none is left.
    bool take(Time now) {
        const Time full_at = std::max(full_at_, now) + interval_;
        if (full_at - now > depth_) return false;
        full_at_ = full_at;
        return true;
    }
    // How many are left to take.
    std::uint32_t left(Time now) const {
        const auto used = std::max(full_at_, now) - now;
        return used < depth_ ? static_cast<std::uint32_t>((depth_ - used) / interval_) : 0;
    }
    // Gives one back, for an answer that ended well.
    void give_one() { full_at_ -= interval_; }

  private:
    std::chrono::nanoseconds interval_;  // in which one comes back
    std::chrono::nanoseconds depth_;     // the burst, as time
    Time full_at_{};
};

// How many WINDOW_UPDATE frames are worth their bytes: an honest client sends them for DATA that it
// has been sent, at most one a frame or, where it reads in small portions, one for every 4 KiB.
class UpdateAllowance {
  public:
    // `is_cut_small`: the client's window left room for a few bytes only, though there was more to
    // send. Such frames earn nothing, or a client could have an answer sent byte by byte.
    void data_was_sent(std::uint32_t bytes, bool is_cut_small) {
        if (!is_cut_small) frames_ = std::min(frames_ + 1 + bytes / kSmallestRead, kMost);
    }
    // Takes the frame from the allowance. False if that is used up: then the frame costs something.
    bool take() {
        if (frames_ == 0) return false;
        --frames_;
        return true;
    }
    // Adds what a closed stream had left: its client does not know of the end yet.
    void add(const UpdateAllowance& other) { frames_ = std::min(frames_ + other.frames_, kMost); }

  private:
    static constexpr std::uint32_t kMost = 1'000'000;
    static constexpr std::uint32_t kSmallestRead = 4'096;

    std::uint32_t frames_ = 1;  // many clients enlarge a window before anything is sent
};

struct ServerSettings {
    // How many the server serves at a time. A stream counts until the coroutine that serves its
    // request has ended.
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

// The settings of the connections that the proxy opens to servers.
struct ClientSettings {
    // Streams at a time, until the server has said how many it takes (RFC 9113 section 5.1.2).
    std::uint32_t streams = 100;
    // The session never opens more, whatever the server says: kClientResets has a reset for each.
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
// A request fails after so many interim answers. Few are kept until they are looked at.
inline constexpr std::uint32_t kInterimMax = 100;
inline constexpr std::size_t kInterimKept = 8;
// The session ends after so many pushes, which no server may send: the first SETTINGS forbid them.
inline constexpr std::uint32_t kPushesMax = 16;

// The least room that a session takes to put frames into.
inline constexpr std::size_t kGatherRoomMin = 2'048;
// An answer that comes before the request's end: the client has so long to end the request, within
// the windows that it has. Then the stream is reset.
inline constexpr std::chrono::milliseconds kRequestEnd{500};
// A connection that has had so many streams is drained.
inline constexpr std::uint32_t kStreamsOfConnection = 10'000;
// A header block with more CONTINUATION frames ends the connection.
inline constexpr std::uint32_t kContinuationsMax = 8;
// A header block of more than so many times `header_bytes` ends the connection.
inline constexpr std::size_t kHeadBytesFactor = 4;
inline constexpr std::chrono::seconds kSettingsTime{10};  // to acknowledge SETTINGS
// The pause between the two GOAWAY of a drain, unless the client has answered a PING sooner.
inline constexpr std::chrono::seconds kDrainStep{1};
// How long a connection that is closed for abuse or a server's fault has for its last GOAWAY.
inline constexpr std::chrono::seconds kLastWords{1};

}  // namespace tidegate::h2
