// The client's side of a request in HTTP/1: its codec.
//
// The request and forwarding use heads and batches of body. This class turns them into bytes and
// owns the connection, so a stream of another protocol can offer the same. The session reads heads
// and decides what becomes of the connection. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "identity/client_ip.hpp"
#include "net/connection.hpp"
#include "net/sleeper.hpp"
#include "proxy/exchange.hpp"

namespace tidegate::proxy {

class Http1Client {
  public:
    Http1Client(ConnectionPtr connection, BufferPool& buffers, identity::Peer peer,
                std::uint16_t local_port);

    // For the request: what a client of any protocol offers.

    const identity::Peer& peer() const { return peer_; }
    std::uint16_t local_port() const { return local_port_; }

    // What of the body has arrived. The batch stays good until it is dropped.
    http::BodyBatch take_body(Exchange& exchange, const http::TrailerBounds& bounds);
    void drop_body(const http::BodyBatch& batch);
    enum class Body : std::uint8_t {
        more,      // take_body() has more to look at
        nothing,   // the sleeper is woken when there may be
        too_long,  // a line of its framing fits into no buffer
        left,      // the client has closed or reset, or the session was cut off
    };
    // Reads more of the body.
    Body read_body(Exchange& exchange, Wakeup& sleeper);

    // Whether the client cannot be answered any more; else the sleeper is woken by a sign of it. A
    // client that has only finished sending waits for its answer; one that has closed looks the
    // same until something is sent to it. Not while the body is being read, which finds out by
    // itself.
    bool has_left(Wakeup& sleeper);
    // Whether the client has finished sending and nothing follows this request. False while its
    // body is not read to the end.
    bool has_said_all(const Exchange& exchange) {
        return connection_->has_hung_up() && exchange.client.body.done() && is_read_to_end();
    }
    // The sleeper given to either goes.
    void wake_nobody() { connection_->watch_read(nullptr); }
    bool is_open() const { return connection_->is_open(); }
    // False: what was sent last is still waiting to be taken.
    bool is_taking() const { return connection_->writable(); }

    // These begin to send; would_block: send_rest() goes on. Nothing they are given, nor in the
    // exchange, may change before everything is sent.

    // An interim answer (1xx). Nothing in HTTP/1.0, which knows none (RFC 9110 section 15.2).
    IoStatus send_interim(Exchange& exchange);
    // A portion of the upstream's answer: with exchange.relay.status still 0, its head first.
    IoStatus send_answer(Exchange& exchange, const http::BodyBatch& batch);
    // An answer made here, for exchange.decision.fault.
    IoStatus send_fault(Exchange& exchange);
    // Each wait within `patience`; failed, too, when that was not enough.
    Task<IoStatus> send_rest(Exchange& exchange, Sleeper& sleeper,
                             std::chrono::milliseconds patience);

    // For who owns the connection.

    Connection& connection() { return *connection_; }

    enum class Head : std::uint8_t {
        complete,  // exchange.facts.head is filled in
        more,      // nothing to read now
        broken,    // exchange.decision.fault says how
        end,       // the client has closed, or reset
    };
    // Reads what has arrived and looks for a whole head in it.
    Head read_head(Exchange& exchange, const http::HeadBounds& bounds);
    // Whether a part of a head has been read, or of the one that follows.
    bool has_input() const { return !buffer_.empty(); }
    // Gives the buffer back; there is nothing in it.
    void release_buffer() { buffer_.release(); }
    // The request has ended: its bytes go. Its body has been read to the end.
    void finish_request();

    // How the client gets a body that the upstream framed as `kind`.
    static http::BodyKind outgoing(const Exchange& exchange, http::BodyKind kind);

  private:
    std::string_view body_input() const;
    bool make_body_room();
    // Bytes behind this request are here already.
    bool has_read_ahead() const {
        return buffer_.size() > head_bytes_ + body_bytes_ || !body_buffer_.empty();
    }
    void read_ahead();
    bool is_read_to_end();

    ConnectionPtr connection_;
    Buffer buffer_;       // head, and what came with it
    Buffer body_buffer_;  // a body that goes on: read apart, so that the head stays where it is
    identity::Peer peer_;
    std::uint16_t local_port_;
    bool passed_empty_line_ = false;  // before the head that is being read
    std::uint32_t head_bytes_ = 0;
    std::uint32_t body_bytes_ = 0;  // of buffer_, dropped
    http::HeadScanner scanner_;
};

}  // namespace tidegate::proxy
