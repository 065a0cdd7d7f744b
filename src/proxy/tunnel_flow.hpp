// One direction of a tunnel: which bytes may go on, and where it can end with a Close frame of the
// proxy's. Pure: the caller moves the bytes and supplies the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "config/config.hpp"
#include "http/websocket.hpp"
#include "limit/gcra.hpp"

namespace tidegate::proxy {

// Why the proxy lets nothing of a direction go on.
enum class FlowFault : std::uint8_t {
    none,
    too_many_messages,  // over `messages` of the route's `tunnel`
    message_too_large,  // over its `message_bytes`
    bad_frames,         // what came is no frame that this end may send
};

class TunnelFlow {
  public:
    // `bounds` outlive this; null: none.
    explicit TunnelFlow(http::FrameSource source, const config::TunnelBounds* bounds = nullptr)
        : follower_(source), bounds_(bounds) {}

    // How many of `bytes` may go on: whole heads of frames, and what there is of their payloads.
    // `bytes` begin where sent() has got to. A frame over the bounds does not go on, nor does
    // anything behind it.
    std::size_t admit(std::string_view bytes, limit::Micros now) {
        // Most steps of a direction find nothing new.
        return bytes.size() == admitted_ && !is_ending() ? admitted_ : follow(bytes, now);
    }
    // So many of the bytes that were admitted have gone on.
    void sent(std::size_t bytes) { admitted_ -= bytes; }

    // No frame goes on after the one that has begun.
    void stop() { is_stopping_ = true; }
    // Nothing more goes on, and the receiver is at a frame's end: what else comes is to be dropped.
    bool has_stopped() const { return is_stopped_ && admitted_ == 0; }
    FlowFault fault() const { return fault_; }
    // The sender's own Close frame was admitted: no other frame may follow it.
    bool has_closed() const { return follower_.has_closed(); }

  private:
    bool is_ending() const { return is_stopping_ || has_closed(); }
    std::size_t follow(std::string_view bytes, limit::Micros now);
    FlowFault fault_of_frame(limit::Micros now);

    http::FrameFollower follower_;
    const config::TunnelBounds* bounds_;
    limit::Bucket bucket_;
    std::size_t admitted_ = 0;  // and not sent
    FlowFault fault_ = FlowFault::none;
    bool is_stopping_ = false;
    bool is_stopped_ = false;  // at a frame's end
};

}  // namespace tidegate::proxy
