#include "proxy/tunnel_flow.hpp"

#include <cassert>

namespace tidegate::proxy {

using http::FrameFollower;

std::size_t TunnelFlow::follow(std::string_view bytes, limit::Micros now) {
    assert(admitted_ <= bytes.size());
    while (!is_stopped_) {
        if (follower_.is_at_frame_end() && is_ending()) {
            is_stopped_ = true;
            break;
        }
        if (admitted_ == bytes.size()) break;
        const auto [step, size] = follower_.follow(bytes.substr(admitted_));
        if (step == FrameFollower::Step::incomplete) break;
        if (step == FrameFollower::Step::malformed) fault_ = FlowFault::bad_frames;
        if (step == FrameFollower::Step::head) fault_ = fault_of_frame(now);
        if (fault_ != FlowFault::none) {
            is_stopped_ = true;
            break;
        }
        admitted_ += size;
    }
    return admitted_;
}

// Every frame counts but a Close: of a message in pieces each has to be forwarded, too.
FlowFault TunnelFlow::fault_of_frame(limit::Micros now) {
    using Opcode = http::WebSocketFrameHead::Opcode;
    const http::WebSocketFrameHead& head = follower_.head();
    if (bounds_ == nullptr || head.is(Opcode::close)) return FlowFault::none;
    if (!head.is_control() && follower_.message_bytes() > bounds_->message_bytes) {
        return FlowFault::message_too_large;
    }
    if (!bounds_->messages) return FlowFault::none;
    const limit::Flow flow(*bounds_->messages);
    if (!limit::passes(flow, limit::backlog_at(bucket_, flow, now), 1)) {
        return FlowFault::too_many_messages;
    }
    limit::take(bucket_, flow, now, 1);
    return FlowFault::none;
}

}  // namespace tidegate::proxy
