// WebSockets (RFC 6455): what a handshake has to be, where frames end, and Close frames. Pure:
// bytes in, values out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/framing.hpp"
#include "http/head.hpp"

namespace tidegate::http {

// Says which upgrade a request asks for on a route that takes WebSockets.
enum class WebSocketRequest : std::uint8_t {
    none,           // no upgrade to a WebSocket: an ordinary request
    handshake,      // section 4.2.1
    malformed,      // not GET, a body, no key or one that is no key
    other_version,  // not 13, the only one: section 4.4
};

// Reads a head whose framing has been read. HTTP/1.0 has no upgrades, and an `Upgrade` that
// Connection does not name is none (RFC 9110 section 7.8).
WebSocketRequest websocket_request(const RequestHead& head, const Framing& framing);

// Reads an extended CONNECT (RFC 8441) likewise, whose `:protocol` says what is asked for. It has
// no key (section 5), and no body: `other_version`, else `handshake`. `none`: another protocol.
WebSocketRequest websocket_connect(const RequestHead& head, std::string_view protocol);

inline constexpr std::string_view kWebSocketVersion = "13";
// The lines of a request that asks for the change, and of the 101 that makes it.
inline constexpr std::string_view kSwitchLines = "Connection: Upgrade\r\nUpgrade: websocket\r\n";

// Sec-WebSocket-Key of a handshake.
std::string_view websocket_key(const RequestHead& head);

// Whether a field is the key of a handshake, or could pass for it where fields become variables.
bool is_websocket_key(const Field& field);
// Whether a field is the Sec-WebSocket-Accept of an answer.
bool is_websocket_accept(const Field& field);

// Whether a 101 changes to WebSocket as section 4.1 demands: Upgrade, Connection and the value of
// Sec-WebSocket-Accept that belongs to the key.
bool accepts_websocket(const ResponseHead& head, std::string_view accept_value);

// Which end frames come from: those of clients are masked, those of servers are not.
enum class FrameSource : std::uint8_t { client, server };

struct WebSocketFrameHead {
    enum class Opcode : std::uint8_t {
        continuation = 0,
        text = 1,
        binary = 2,
        close = 8,
        ping = 9,
        pong = 10,
    };

    std::uint8_t opcode = 0;  // may be none of Opcode: extensions define more
    bool is_final = true;
    std::uint8_t head_bytes = 0;  // with the mask
    std::uint64_t payload_bytes = 0;

    bool is(Opcode one) const { return opcode == static_cast<std::uint8_t>(one); }
    // Control frames come between the frames of a message, too.
    bool is_control() const { return (opcode & 0x8) != 0; }
};

inline constexpr std::size_t kFrameHeadBytesMax = 14;

// Goes over the frames of one direction of a WebSocket. Payloads stay as they are.
class FrameFollower {
  public:
    explicit FrameFollower(FrameSource source) : source_(source) {}

    enum class Step : std::uint8_t {
        head,        // of the next frame: head()
        payload,     // some of the frame's, or all that is left of it
        incomplete,  // the bytes end inside a head: again with more of it
        malformed,   // not a frame that this end may send here
    };
    struct Followed {
        Step step;
        std::size_t bytes;  // that were gone over; none of what is incomplete or malformed
    };
    // Goes over the next head, or what is there of the payload. `bytes` follow those that were gone
    // over before. Requires that they are not empty.
    Followed follow(std::string_view bytes);

    // The last frame whose head was gone over.
    const WebSocketFrameHead& head() const { return head_; }
    // The sum of the payloads of its message so far; saturates.
    std::uint64_t message_bytes() const { return message_bytes_; }

    // Whether the bytes so far end where a frame ends.
    bool is_at_frame_end() const { return payload_left_ == 0; }
    // A Close frame has been gone over: no frame may follow it.
    bool has_closed() const { return has_closed_; }

  private:
    bool may_follow(const WebSocketFrameHead& next) const;

    FrameSource source_;
    WebSocketFrameHead head_;
    std::uint64_t payload_left_ = 0;
    std::uint64_t message_bytes_ = 0;
    bool is_in_message_ = false;
    bool has_closed_ = false;
};

// The codes with which Tidegate closes (RFC 6455 section 7.4.1).
enum class CloseCode : std::uint16_t {
    going_away = 1001,
    protocol_error = 1002,
    policy_violation = 1008,
    message_too_big = 1009,
};

// A Close frame. `reason` is UTF-8, of at most 123 bytes. With a `mask` it is a client's.
std::string close_frame(CloseCode code, std::string_view reason,
                        const std::optional<std::array<unsigned char, 4>>& mask = {});

}  // namespace tidegate::http
