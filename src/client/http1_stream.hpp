// One request of a client and its answer, in HTTP/1, and what came in on its connection. Stream
// says what each function means. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/stream_base.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"
#include "net/connection.hpp"
#include "net/transfer.hpp"
#include "net/wakeup.hpp"

namespace tidegate::client {

// Reads what a client sends on an HTTP/1 connection: the bytes of heads and of bodies, one request
// after the other. Part of a connection; one thread.
class Http1Input {
  public:
    Http1Input(ConnectionPtr connection, BufferPool& buffers);

    Connection& connection() { return *connection_; }
    const Connection& connection() const { return *connection_; }
    // Hands the connection over: it goes on without this.
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

    // Whether bytes have been read that belong to the next request, or to the head that is coming.
    bool has_bytes() const { return !buffer_.empty(); }
    // The bytes of a head that is not complete.
    std::string_view incomplete_head() const { return buffer_.data(); }
    // Gives the buffer back. Requires that has_bytes() is false.
    void release_buffer() { buffer_.release(); }

    // Returns the bytes that have arrived behind the head. They stay until drop_body().
    std::string_view body() const;
    void drop_body(std::size_t bytes);
    // Reads at most `left` bytes more.
    BodyInput read_body(std::uint64_t left, Wakeup& wakeup);
    // Whether the connection is in the clear, and nothing that was read of the body is left.
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
    // Whether the client has finished sending, and nothing is behind this request. Requires that
    // its body was taken to its end.
    bool is_at_end();

    // Drops the request's bytes. Requires that its body was taken to its end.
    void finish_request();

    // Drops the request's bytes, too. What comes from now on are the bytes of a tunnel.
    void become_tunnel();
    Buffer& tunnel_input() { return buffer_; }

  private:
    std::size_t take_head(const http::HeadBounds& bounds, http::RequestHead& into,
                          http::HeadFault& fault);
    bool make_body_room();
    // Whether bytes behind this request are here already.
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

// One request of a client and its answer, in HTTP/1. Stream says what each function means.
//
// A connection lends it for one request, and it is reused: a request allocates nothing that the one
// before it had room for. One thread.

// Holds the state that all streams of a connection share. The connection owns it.
struct Http1Link {
    Http1Input input;
    Sleeper sleeper;
    Arrival arrival;
    const bool& is_draining;  // the worker is
    bool is_cut_off = false;  // the proxy has reset the connection
    bool is_tunnel = false;   // the connection speaks HTTP no more
};

class Http1Stream : public StreamBase {
  public:
    // The body.

    void begin_body();
    http::BodyBatch take_body(const http::TrailerBounds& bounds) {
        return body_.take(link_->input.body(), bounds);
    }
    void drop_body(const http::BodyBatch& batch) { link_->input.drop_body(batch.consumed); }
    bool is_body_done() const { return body_.done(); }
    std::uint64_t body_announced() const { return body_.announced(); }
    std::uint64_t body_left() const { return body_.left(); }
    bool has_whole_body() const { return body_.left() <= link_->input.body().size(); }
    http::Fields& trailers() { return body_.trailers(); }
    BodyInput read_body(Wakeup& wakeup) { return link_->input.read_body(body_.left(), wakeup); }
    std::uint64_t spliceable() const { return link_->input.can_splice() ? body_.spliceable() : 0; }
    BodyInput read_body(SplicePipe& pipe, Wakeup& wakeup);

    // The client.

    bool has_left(Wakeup& wakeup) {
        return link_->is_cut_off || link_->input.has_left(link_->arrival.half_close, wakeup);
    }
    bool has_hung_up(Wakeup& wakeup) {
        return link_->is_cut_off || link_->input.has_hung_up(link_->arrival.half_close, wakeup);
    }
    void forget_wakeup() { link_->input.connection().watch_read(nullptr); }
    bool is_open() const { return link_->input.connection().is_open(); }
    bool is_cut_off() const { return link_->is_cut_off; }
    bool is_taking() const { return link_->input.connection().writable(); }

    // The answer.

    void keep_alive_if(bool may_go_on);
    void close_after_answer() { keep_alive_ = false; }
    bool keeps_alive() const { return keep_alive_; }
    bool takes_interim() const { return minor_version_ > 0; }
    std::string& begin_head(int status, std::string_view reason);
    IoStatus send_interim();
    void end_head(http::BodyKind body, std::optional<std::uint64_t> length);
    IoStatus send(const http::BodyBatch& batch, const http::Fields& trailers);
    bool can_send_spliced() const {
        return out_body_ == http::BodyKind::length && link_->input.connection().tls() == nullptr;
    }
    IoStatus send(SplicePipe& pipe);
    IoStatus send_all(std::string_view content);
    // Goes on with what would have blocked. The connection wakes its sleeper when there is room.
    IoStatus try_rest();
    // Drops what waits to be sent.
    void give_up() { outbox_.clear(); }
    std::size_t unsent() const { return outbox_.bytes(); }
    std::size_t untaken() const { return unsent() + link_->input.connection().queued_bytes(); }
    void break_off() { is_broken_off_ = true; }
    void reset() { link_->input.connection().reset(); }

    // A tunnel.

    IoStatus send_switch();
    void become_tunnel();
    std::string_view take_bytes() const { return link_->input.tunnel_input().data(); }
    void drop_bytes(std::size_t bytes) { drop_tunnel(link_->input.tunnel_input(), bytes); }
    TunnelInput read_bytes(Wakeup& wakeup) {
        return read_tunnel(link_->input.connection(), link_->input.tunnel_input(), wakeup);
    }
    IoResult send_bytes(std::string_view bytes, Wakeup& wakeup) {
        return send_tunnel(link_->input.connection(), bytes, wakeup);
    }
    IoStatus finish_sending(Wakeup& wakeup) {
        return finish_tunnel(link_->input.connection(), wakeup);
    }

    // For the connection.

    void begin(Http1Link& link);
    Http1Input::Head read_head(const http::HeadBounds& bounds) {
        return link_->input.read_head(bounds, head_, head_fault_);
    }
    void set_head_state(Head state);
    // The listener does not speak HTTP/1.
    void refuse_version() { head_fault_ = http::HeadFault::bad_version; }
    bool is_broken_off() const { return is_broken_off_; }
    // Forgets the request.
    void end();

  private:
    Http1Link* link_ = nullptr;
    http::BodyReader body_;
    std::string out_head_;  // and content of a size that is copied
    std::string out_tail_;
    Outbox outbox_;
    http::BodyKind out_body_ = http::BodyKind::none;
    bool head_sent_ = false;
    bool keep_alive_ = false;
    bool is_broken_off_ = false;
    int minor_version_ = 1;
};

// Keeps streams for the next requests, so that idle connections hold none. Each worker has one.
// One thread.
class Http1StreamPool {
  public:
    std::unique_ptr<Http1Stream> take(Http1Link& link) {
        std::unique_ptr<Http1Stream> stream;
        if (free_.empty()) {
            stream = std::make_unique<Http1Stream>();
        } else {
            stream = std::move(free_.back());
            free_.pop_back();
        }
        stream->begin(link);
        return stream;
    }
    void give_back(std::unique_ptr<Http1Stream> stream) {
        stream->end();
        if (free_.size() < kKept) free_.push_back(std::move(stream));
    }

  private:
    static constexpr std::size_t kKept = 256;

    std::vector<std::unique_ptr<Http1Stream>> free_;
};

}  // namespace tidegate::client
