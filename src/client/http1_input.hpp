// What a client sends on an HTTP/1 connection: the bytes of heads and of bodies, one request after
// the other. Part of a connection; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "client/body_input.hpp"
#include "http/head.hpp"
#include "net/buffer.hpp"
#include "net/connection.hpp"
#include "net/transfer.hpp"
#include "net/wakeup.hpp"

namespace tidegate::client {

class Http1Input {
  public:
    Http1Input(ConnectionPtr connection, BufferPool& buffers);

    Connection& connection() { return *connection_; }
    const Connection& connection() const { return *connection_; }
    // The connection goes on without this.
    ConnectionPtr take_connection() { return std::move(connection_); }
    bool has_connection() const { return connection_ != nullptr; }

    enum class Head : std::uint8_t {
        complete,  // `into` is filled in; its views stay until finish_request()
        nothing,   // there is nothing to read now
        broken,    // `fault` says how
        end,       // the client has closed, or reset
    };
    // Reads what has arrived and looks for a whole head in it.
    Head read_head(const http::HeadBounds& bounds, http::RequestHead& into, http::HeadFault& fault);

    // Bytes have been read that belong to the next request, or to the head that is coming.
    bool has_bytes() const { return !buffer_.empty(); }
    // Those of a head that is not complete.
    std::string_view incomplete_head() const { return buffer_.data(); }
    // Gives the buffer back. Requires that has_bytes() is false.
    void release_buffer() { buffer_.release(); }

    // What has arrived behind the head. Stays until drop_body().
    std::string_view body() const;
    void drop_body(std::size_t bytes);
    // Reads at most `left` bytes more.
    BodyInput read_body(std::uint64_t left, Wakeup& wakeup);
    // The connection is in the clear, and nothing that was read of the body is left.
    bool can_splice() const { return connection_->tls() == nullptr && body().empty(); }
    // Reads at most `bytes_max` bytes more into `pipe`, which is empty. Requires can_splice().
    BodyInput read_body(std::uint64_t bytes_max, SplicePipe& pipe, Wakeup& wakeup);

    // Whether the client has left; else `wakeup` is woken by a sign of it. Its FIN says so, or the
    // close_notify of TLS (RFC 8446 section 6.1), even behind bytes that were not read. With
    // `half_close` only a reset does: the client may have finished sending and wait for its answer.
    // Reads ahead where something has come. Requires that the body was taken to its end.
    bool has_left(bool half_close, Wakeup& wakeup) {
        connection_->watch_read(&wakeup);
        const bool has_news = connection_->readable() || connection_->has_hung_up();
        return has_news && has_left_by_now(half_close);
    }
    // The same without reading, so that a close_notify without a FIN is not noticed: for as long as
    // some of the body may be unread.
    bool has_hung_up(bool half_close, Wakeup& wakeup);
    // The client has finished sending, and nothing is behind this request. Requires that its body
    // was taken to its end.
    bool is_at_end();

    // Drops the request's bytes. Requires that its body was taken to its end.
    void finish_request();

    // The same, and what comes from now on is no request: the bytes of a tunnel.
    void become_tunnel();
    Buffer& tunnel_input() { return buffer_; }

  private:
    std::size_t take_head(const http::HeadBounds& bounds, http::RequestHead& into,
                          http::HeadFault& fault);
    bool make_body_room();
    // Bytes behind this request are here already.
    bool has_read_ahead() const {
        return buffer_.size() > head_bytes_ + body_bytes_ || !body_buffer_.empty();
    }
    bool has_left_by_now(bool half_close);
    bool sees_hang_up(bool half_close) const;
    void read_ahead();

    ConnectionPtr connection_;
    Buffer buffer_;       // head, and what came with it
    Buffer body_buffer_;  // a body that goes on: read apart, so that the head stays where it is
    bool passed_empty_line_ = false;  // before the head that is coming
    std::uint32_t head_bytes_ = 0;
    std::uint32_t body_bytes_ = 0;  // of buffer_, dropped
    http::HeadScanner scanner_;
};

}  // namespace tidegate::client
