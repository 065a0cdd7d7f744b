// Bytes that come and go on a connection that speaks HTTP no more: what the streams of both sides
// do alike. Holds a buffer only while bytes are there. Single-threaded.
#pragma once

#include <cstdint>
#include <string_view>

#include "net/buffer.hpp"
#include "net/connection.hpp"
#include "net/wakeup.hpp"

namespace tidegate {

enum class TunnelInput : std::uint8_t {
    more,     // `input` has more than before
    nothing,  // `wakeup` is woken when there is something
    end,      // the peer has finished sending
    failed,   // reset, or cut off
};

// Reads once. `input` has no room left when it holds BufferPool::kSmall bytes or more: not then.
TunnelInput read_tunnel(Connection& connection, Buffer& input, Wakeup& wakeup);

// Drops the front of `input`; an empty buffer gives its block back.
inline void drop_tunnel(Buffer& input, std::size_t bytes) {
    input.consume(bytes);
    if (input.empty()) input.release();
}

// Sends what the connection takes now. would_block: `wakeup` is woken when it takes more, and the
// same bytes come again first.
IoResult send_tunnel(Connection& connection, std::string_view bytes, Wakeup& wakeup);

// Sends the end. would_block: again when `wakeup` is woken.
IoStatus finish_tunnel(Connection& connection, Wakeup& wakeup);

}  // namespace tidegate
