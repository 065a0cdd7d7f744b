// One request to a server and its answer, in HTTP/1: heads, batches of body, an end. The
// code that forwards a request sees neither bytes nor a connection.
//
// A pool opens the stream with a connection, and takes the connection back. Sending and receiving
// may each be the work of a coroutine of its own. Reused from request to request: a request
// allocates nothing that the one before it had room for. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "http/framing.hpp"
#include "http/head.hpp"
#include "net/connection.hpp"
#include "net/transfer.hpp"
#include "net/wakeup.hpp"
#include "upstream/fair_share.hpp"
#include "upstream/server.hpp"

namespace tidegate::upstream {

class Http1Stream {
  public:
    explicit Http1Stream(BufferPool& buffers) : input_(buffers), ahead_(buffers) {}

    // Whether it has a connection, which may be closed already.
    explicit operator bool() const { return connection_ != nullptr; }
    Server& server() const { return *server_; }
    // The connection has carried a request before this one: the server may have closed it.
    bool is_reused() const { return is_reused_; }
    // The pool closed the connection in favour of another request.
    bool is_evicted() const { return is_evicted_; }

    // Sending. What is given here may not change before all is sent.

    // Begins the request. The caller appends lines of fields, but none that frames the body.
    std::string& begin_head(std::string_view method, std::string_view path, std::string_view query);
    // The body will come framed as `body`. The server gets `length` if there is one.
    void end_head(http::BodyKind body, std::optional<std::uint64_t> length);
    // Begins to send `batch`, the first time behind the head; would_block: send_rest() goes on.
    IoStatus send(const http::BodyBatch& batch, const http::Fields& trailers);
    // The body is sent as plain bytes: its length is known, and there is no TLS.
    bool can_send_spliced() const {
        return out_body_ == http::BodyKind::length && connection_->tls() == nullptr;
    }
    // Begins to send what `pipe` holds of the body. Requires can_send_spliced(), and that the head
    // was sent.
    IoStatus send(SplicePipe& pipe);
    // Sends what would have blocked. It fails, too, when a wait takes longer than `patience`.
    Task<IoStatus> send_rest(Sleeper& sleeper, std::chrono::milliseconds patience);

    // Receiving.

    enum class Head : std::uint8_t {
        complete,  // head() and framing() are filled in
        nothing,   // `wakeup` is woken when there is more
        broken,    // no head of an answer, or the server has closed
    };
    Head read_head(const http::HeadBounds& bounds, Wakeup& wakeup);
    const http::ResponseHead& head() const { return head_; }
    const http::Framing& framing() const { return framing_; }
    // head() is an interim answer, and no longer needed: another head follows.
    void drop_interim();

    // head() is the final one. Its views stay until drop_body().
    void begin_body();
    // Takes the part of the body that has arrived. The batch stays good until it is dropped.
    // Strikes out of the trailers the fields that Connection names.
    http::BodyBatch take_body(const http::TrailerBounds& bounds);
    http::Fields& trailers() { return body_.trailers(); }
    void drop_body(const http::BodyBatch& batch);
    enum class Body : std::uint8_t {
        more,     // take_body() has more to look at
        nothing,  // `wakeup` is woken when there is
        end,      // the server has closed, which is how this body ends
        cut_off,  // the server has closed or reset inside the body
    };
    Body read_body(Wakeup& wakeup);
    // While a batch is out: reads the rest of the body beside it, if that is short and its length
    // known. Whether it has come; else `wakeup` is woken when there is more of it.
    bool read_ahead(Wakeup& wakeup);
    // How much more of the body may go through a pipe, without take_body(): none of a body in
    // chunks or over TLS, or while bytes of it are here; and never its end.
    std::uint64_t spliceable() const;
    // As read_body() above, into `pipe`, which is empty. `more` with an empty pipe: splicing was
    // refused. Requires spliceable().
    Body read_body(SplicePipe& pipe, Wakeup& wakeup);

    // Whether a byte of an answer has come.
    bool has_answered() const { return has_answered_; }
    // The answer is complete and nothing is behind it: the connection can take another request.
    bool is_clean() const { return framing_.keep_alive && input_.empty() && !may_hold_more_; }

    // The same once `batch`, and what read_ahead() has read, will have been dropped. Requires that
    // this is all.
    bool is_clean_behind(const http::BodyBatch& batch) const {
        return framing_.keep_alive && input_.size() == head_bytes_ + batch.consumed &&
               ahead_.size() == (body_.done() ? 0 : body_.left()) && !may_hold_more_;
    }
    // How much memory the bytes of the body that are here take up.
    std::size_t room() const { return input_.capacity() + ahead_.capacity(); }

    // The request asks for a tunnel: a 101 is no fault.
    void allow_switch() { may_switch_ = true; }

    // Ends both directions: what waits to send or receive is woken, and fails.
    void cancel() { connection_->close(); }
    // Forgets the request. Requires that the pool has the connection back.
    void reset();

    // For the pool.

    void open(Server& server, ConnectionPtr connection, bool is_reused);
    const ConnectionPtr& connection() const { return connection_; }
    // The connection leaves the stream, and where it belongs. What a batch looks at stays.
    std::pair<ServerPtr, ConnectionPtr> release();
    // The same after a 101. `behind` gets what the server sent behind the head, and no block if
    // that is nothing. Views into the head go stale.
    std::pair<ServerPtr, ConnectionPtr> release_tunnel(Buffer& behind);
    // Returns true the first time.
    bool evict() { return !std::exchange(is_evicted_, true); }

  private:
    enum class Input : std::uint8_t { more, nothing, end, broken };
    Input read(Wakeup& wakeup);
    bool parse_head(const http::HeadBounds& bounds);

    ServerPtr server_;
    ConnectionPtr connection_;
    bool is_reused_ = false;
    bool is_evicted_ = false;

    std::string out_head_;  // and content of a size that is copied
    std::string out_tail_;
    Outbox outbox_;
    http::BodyKind out_body_ = http::BodyKind::none;
    bool is_to_head_ = false;  // the request is a HEAD
    bool head_sent_ = false;

    Buffer input_;
    Buffer ahead_;  // of the body, behind input_
    http::HeadScanner scanner_;
    http::ResponseHead head_;
    http::Framing framing_;
    http::BodyReader body_;
    std::string connection_options_;  // what Connection names, while trailers are to come
    std::size_t head_bytes_ = 0;      // of the head, at the front of input_
    bool has_answered_ = false;
    bool may_hold_more_ = false;  // the last read took all there was room for
    bool may_switch_ = false;
    bool has_ahead_ = false;  // input_ is what was read ahead
};

class Http1Stream;
class Pool;

// The connection to a server that has become a tunnel, in HTTP/1 only: bytes both ways in place of
// an answer. Of the request whose handshake it was, it keeps what the pool counts: the seat, the
// place among the requests of its address, and being in flight at the server. One thread.
class TunnelStream {
  public:
    // Pool::open_tunnel() makes it. `pool` and `buffers` outlive this. `stream` loses its
    // connection, and `request` its place.
    TunnelStream(Pool& pool, BufferPool& buffers, Http1Stream& stream, ActiveRequest& request);
    // Closes the connection: it never goes back to the pool.
    ~TunnelStream();
    TunnelStream(const TunnelStream&) = delete;
    TunnelStream& operator=(const TunnelStream&) = delete;

    // Returns the bytes that have come and were not dropped; first those that the server has sent
    // behind the 101.
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
