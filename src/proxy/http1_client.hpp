// The client's side of a request in HTTP/1: its codec.
//
// Session and forwarding speak in heads and batches of body; how these become bytes, and whose
// connection it is, stays here, so that a stream of another protocol can take the same street.
// One thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/connection.hpp"
#include "identity/client_ip.hpp"
#include "proxy/exchange.hpp"

namespace tidegate::proxy {

class Http1Client {
  public:
    Http1Client(ConnectionPtr connection, BufferPool& buffers, identity::Peer peer,
                std::uint16_t local_port);

    const identity::Peer& peer() const { return peer_; }
    std::uint16_t local_port() const { return local_port_; }
    Connection& connection() { return *connection_; }

    enum class Head : std::uint8_t {
        complete,  // exchange.request is filled in
        more,      // nothing to read now
        broken,    // exchange.fault says how
        end,       // the client has closed, or reset
    };
    // Reads what has arrived and looks for a whole head in it.
    Head read_head(Exchange& exchange, const http::HeadBounds& bounds);
    // Whether a part of a head has been read, or of the one that follows.
    bool has_input() const { return !buffer_.empty(); }
    // Gives the buffer back; there is nothing in it.
    void release_buffer() { buffer_.release(); }

    // What of the body has arrived. The batch stays good until it is dropped.
    http::BodyBatch take_body(Exchange& exchange, const http::TrailerBounds& bounds);
    void drop_body(const http::BodyBatch& batch);
    // Reads more of the body.
    IoStatus read_body(Exchange& exchange);
    // A line of the body's framing does not fit into the largest buffer: no more can be read.
    bool body_is_stuck() const { return body_buffer_.size() >= BufferPool::kLarge; }
    // Bytes behind this request are here already.
    bool has_read_ahead() const {
        return buffer_.size() > head_bytes_ + body_bytes_ || !body_buffer_.empty();
    }
    // Reads what follows while the request is being answered, only to learn whether the client is
    // still there. Would_block: it is.
    IoStatus read_ahead();

    // The request has ended: its bytes go. Its body has been read to the end.
    void finish_request();

    // How the client gets a body that the upstream framed as `kind`.
    static http::BodyKind outgoing(const Exchange& exchange, http::BodyKind kind);

  private:
    std::string_view body_input() const;

    ConnectionPtr connection_;
    Buffer buffer_;       // head, and what came with it
    Buffer body_buffer_;  // a body that goes on: read apart, so that the head stays where it is
    identity::Peer peer_;
    std::uint16_t local_port_;
    std::uint32_t head_bytes_ = 0;
    std::uint32_t body_bytes_ = 0;  // of buffer_, dropped
    http::HeadScanner scanner_;
};

}  // namespace tidegate::proxy
