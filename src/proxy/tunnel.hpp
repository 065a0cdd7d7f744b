// A WebSocket through the proxy: which requests are forwarded as handshakes, which answers belong
// to them, and the tunnel from the 101, which the client has, to the end of both directions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ask/fault.hpp"
#include "config/config.hpp"
#include "http/websocket.hpp"
#include "limit/gcra.hpp"
#include "net/task.hpp"
#include "proxy/exchange.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

// The Sec-WebSocket-Accept that belongs to a Sec-WebSocket-Key (RFC 6455 section 4.2.2). Empty if
// the system's OpenSSL has no SHA-1, so that nothing is accepted.
std::string websocket_accept(std::string_view key);

// The key of a handshake that the proxy begins, where its client speaks HTTP/2, which has no such
// key: 16 random bytes in base64 (RFC 6455 section 4.1).
std::string random_websocket_key();

// Marks the request as a handshake (relay.is_upgrade) if it is one and its route takes WebSockets;
// a request that asks for no WebSocket stays as it is. An extended CONNECT gets a key
// (websocket_key), and is never forwarded as anything but a handshake. Returns what is wrong with a
// handshake. Requires a route.
ask::Fault check_upgrade(Exchange& x);

// Whether the upstream's 101 belongs to the handshake that was forwarded.
bool is_upgrade_accepted(const Exchange& x);

// Sends the client the upstream's 101, which is a 200 in HTTP/2, and settles limits that count by
// status. Not ok: the client did not take it. Requires is_upgrade_accepted().
Task<IoStatus> pass_on_switch(WorkerContext& worker, Exchange& x);

// Whether a client would take an answer of this status, which is no 101, for an open tunnel: an
// extended CONNECT has succeeded with any 2xx (RFC 9110 section 9.3.6).
bool passes_for_tunnel(const Exchange& x, int status);

// Why the proxy stops a direction of a tunnel.
enum class FlowFault : std::uint8_t {
    none,
    too_many_messages,  // over `messages` of the route's `tunnel`
    message_too_large,  // over its `message_bytes`
    bad_frames,         // what came is no frame that this end may send
};

// One direction of a tunnel: which bytes may go on, and where it can end with a Close frame of the
// proxy's. Pure: the caller moves the bytes and supplies the time.
class TunnelFlow {
  public:
    // `bounds` outlive this; null: none.
    explicit TunnelFlow(http::FrameSource source, const config::TunnelBounds* bounds = nullptr)
        : follower_(source), bounds_(bounds) {}

    // How many of `bytes` may go on: whole heads of frames, and what there is of their payloads.
    // `bytes` begin behind those that sent() was called for. A frame over the bounds does not go
    // on, nor does anything behind it.
    std::size_t admit(std::string_view bytes, limit::Micros now) {
        // Most steps of a direction find nothing new.
        return bytes.size() == admitted_ && !is_ending() ? admitted_ : follow(bytes, now);
    }
    // The caller has sent so many of the admitted bytes.
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
    std::size_t admitted_ = 0;  // admitted, and not sent yet
    FlowFault fault_ = FlowFault::none;
    bool is_stopping_ = false;
    bool is_stopped_ = false;  // at a frame's end
};

// Relays the bytes of `x.tunnel`, whose 101 the client has. Frees what only forwarding needed. Ends
// when both ends know that the tunnel is over, or one is gone; `client_left`: the proxy has cut the
// client off.
Task<ask::Fault> run_tunnel(WorkerContext& worker, Exchange& x);

// When a tunnel ends in a drain: `number` counts the tunnels that end before it. The ends are
// spread over the whole time, however many there are.
std::chrono::milliseconds drain_delay(std::uint32_t number, std::chrono::milliseconds over);

}  // namespace tidegate::proxy
