// The connection to a server that has become a tunnel, in HTTP/1 only: bytes both ways in place of
// an answer. Of the request whose handshake it was, it keeps what the pool counts: the seat, the
// place among the requests of its address, and being in flight at the server. One thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "net/buffer.hpp"
#include "net/connection.hpp"
#include "net/transfer.hpp"
#include "net/wakeup.hpp"
#include "upstream/fair_share.hpp"
#include "upstream/server.hpp"

namespace tidegate::upstream {

class Http1Stream;
class Pool;

class TunnelStream {
  public:
    // Pool::open_tunnel() makes it. `pool` and `buffers` outlive this. `stream` loses its
    // connection, and `request` its place.
    TunnelStream(Pool& pool, BufferPool& buffers, Http1Stream& stream, ActiveRequest& request);
    // Closes the connection: it never goes back to the pool.
    ~TunnelStream();
    TunnelStream(const TunnelStream&) = delete;
    TunnelStream& operator=(const TunnelStream&) = delete;

    // What has come and was not dropped; first what the server has sent behind the 101.
    std::string_view take_bytes() const { return input_.data(); }
    void drop_bytes(std::size_t bytes) { drop_tunnel(input_, bytes); }
    TunnelInput read_bytes(Wakeup& wakeup) { return read_tunnel(*connection_, input_, wakeup); }
    // See send_tunnel() and finish_tunnel().
    IoResult send_bytes(std::string_view bytes, Wakeup& wakeup) {
        return send_tunnel(*connection_, bytes, wakeup);
    }
    IoStatus finish_sending(Wakeup& wakeup) { return finish_tunnel(*connection_, wakeup); }

  private:
    Pool& pool_;
    ServerPtr server_;
    ConnectionPtr connection_;
    Buffer input_;
    ActiveRequest request_;
};

}  // namespace tidegate::upstream
