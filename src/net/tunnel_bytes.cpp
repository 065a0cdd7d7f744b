#include "net/tunnel_bytes.hpp"

#include <array>
#include <cassert>

namespace tidegate {

TunnelInput read_tunnel(Connection& connection, Buffer& input, Wakeup& wakeup) {
    if (!connection.readable()) {
        connection.watch_read(&wakeup);
        return TunnelInput::nothing;
    }
    if (input.space().empty()) input.make_room(input.capacity());
    assert(!input.space().empty());
    const IoResult read = connection.read_some(input.space());
    if (read.status == IoStatus::ok) {
        input.commit(read.bytes);
        return TunnelInput::more;
    }
    if (input.empty()) input.release();
    if (read.status == IoStatus::end) return TunnelInput::end;
    if (read.status == IoStatus::failed) return TunnelInput::failed;
    connection.watch_read(&wakeup);
    return TunnelInput::nothing;
}

IoResult send_tunnel(Connection& connection, std::string_view bytes, Wakeup& wakeup) {
    IoResult sent{IoStatus::would_block};
    if (connection.writable()) {
        const std::array<iovec, 1> part{{{const_cast<char*>(bytes.data()), bytes.size()}}};
        sent = connection.write_some(part);
    }
    if (sent.status == IoStatus::would_block) connection.watch_write(&wakeup);
    return sent;
}

IoStatus finish_tunnel(Connection& connection, Wakeup& wakeup) {
    const IoStatus status = connection.shutdown_send();
    if (status == IoStatus::would_block) connection.watch_write(&wakeup);
    return status;
}

}  // namespace tidegate
