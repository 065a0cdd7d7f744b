// One request to a server and its answer: heads, batches of body, an end. The code that forwards a
// request sees neither bytes nor a connection, and need not ask which version of HTTP the server
// speaks.
//
// A pool opens the stream, and takes it back. Sending and receiving may each be the work of a
// coroutine of its own. Reused from request to request: a request allocates nothing that the one
// before it had room for. One thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "upstream/http1_stream.hpp"
#include "upstream/http2_stream.hpp"

namespace tidegate::upstream {

class Stream {
  public:
    explicit Stream(BufferPool& buffers) : buffers_(buffers), http1_(buffers) {}

    // Has a connection, which may be closed already.
    explicit operator bool() const {
        return is_http2_ ? static_cast<bool>(*http2_) : static_cast<bool>(http1_);
    }
    bool is_http2() const { return is_http2_; }
    Server& server() const { return is_http2_ ? http2_->server() : http1_.server(); }
    // The server has answered on the connection before this request: it may have closed it by now.
    // A server that breaks the requests of a new connection, however many, is at fault.
    bool is_reused() const { return is_http2_ ? http2_->is_reused() : http1_.is_reused(); }
    // The pool ended the request in favour of another one.
    bool is_evicted() const { return is_http2_ ? http2_->is_evicted() : http1_.is_evicted(); }

    // Sending. What is given here may not change before all is sent.

    // Begins the request. The caller appends lines of fields, but none that frames the body.
    std::string& begin_head(std::string_view method, std::string_view path,
                            std::string_view query) {
        return is_http2_ ? http2_->begin_head(method, path, query)
                         : http1_.begin_head(method, path, query);
    }
    // The body will come as `body`, which the stream frames. The server gets `length` if
    // there is one.
    void end_head(http::BodyKind body, std::optional<std::uint64_t> length) {
        return is_http2_ ? http2_->end_head(body, length) : http1_.end_head(body, length);
    }
    // Begins to send `batch`, the first time behind the head; would_block: send_rest() goes on.
    IoStatus send(const http::BodyBatch& batch, const http::Fields& trailers) {
        return is_http2_ ? http2_->send(batch, trailers) : http1_.send(batch, trailers);
    }
    // The body is sent as plain bytes: its length is known, and there is no TLS. Once the head was
    // sent, send() takes a pipe, too.
    bool can_send_spliced() const { return !is_http2_ && http1_.can_send_spliced(); }
    IoStatus send(SplicePipe& pipe) { return http1_.send(pipe); }
    // Each wait within `patience`; failed, too, when that was not enough.
    Task<IoStatus> send_rest(Sleeper& sleeper, std::chrono::milliseconds patience) {
        return is_http2_ ? http2_->send_rest(sleeper, patience)
                         : http1_.send_rest(sleeper, patience);
    }

    // Receiving.

    using Head = Http1Stream::Head;
    using Body = Http1Stream::Body;
    // In HTTP/2, Pool::set_answer_bounds() has set the bounds, of trailers, too.
    Head read_head(const http::HeadBounds& bounds, Wakeup& wakeup) {
        return is_http2_ ? http2_->read_head(wakeup) : http1_.read_head(bounds, wakeup);
    }
    const http::ResponseHead& head() const { return is_http2_ ? http2_->head() : http1_.head(); }
    const http::Framing& framing() const {
        return is_http2_ ? http2_->framing() : http1_.framing();
    }
    // head() is an interim answer, and no longer needed: another head follows.
    void drop_interim() { return is_http2_ ? http2_->drop_interim() : http1_.drop_interim(); }
    // head() is the final one. Its views stay until drop_body().
    void begin_body() {
        if (!is_http2_) http1_.begin_body();
    }
    // Takes the part of the body that has arrived. The batch stays good until it is dropped.
    // Strikes out of the trailers the fields that Connection names.
    http::BodyBatch take_body(const http::TrailerBounds& bounds) {
        return is_http2_ ? http2_->take_body() : http1_.take_body(bounds);
    }
    http::Fields& trailers() { return is_http2_ ? http2_->trailers() : http1_.trailers(); }
    void drop_body(const http::BodyBatch& batch) {
        return is_http2_ ? http2_->drop_body(batch) : http1_.drop_body(batch);
    }
    Body read_body(Wakeup& wakeup) {
        return is_http2_ ? http2_->read_body(wakeup) : http1_.read_body(wakeup);
    }
    // While a batch is out: whether the rest of the body has come as well, and is short. In HTTP/1
    // only, where its length has to be known. Else `wakeup` may be woken when there is more of it.
    bool read_ahead(Wakeup& wakeup) { return !is_http2_ && http1_.read_ahead(wakeup); }
    // How much more of the body may go through a pipe, past take_body(). If that is not 0,
    // read_body() takes a pipe. `more` with an empty pipe: splicing was refused.
    std::uint64_t spliceable() const { return is_http2_ ? 0 : http1_.spliceable(); }
    Body read_body(SplicePipe& pipe, Wakeup& wakeup) { return http1_.read_body(pipe, wakeup); }
    // Anything of an answer has come.
    bool has_answered() const { return is_http2_ ? http2_->has_answered() : http1_.has_answered(); }
    // The server says that it has not looked at the request: any request may be sent again.
    bool is_unprocessed() const { return is_http2_ && http2_->is_unprocessed(); }
    // It says so of this request alone, with REFUSED_STREAM: it has too much to do.
    bool is_refused() const { return is_http2_ && http2_->is_refused(); }
    // It says so by a GOAWAY: it has taken other requests of the connection.
    bool is_behind_others() const { return is_http2_ && http2_->is_behind_others(); }
    // The server has said that it takes no head as large as the request's, which was not sent.
    bool is_too_large() const { return is_http2_ && http2_->is_too_large(); }
    // The answer is complete and nothing is behind it.
    bool is_clean() const { return is_http2_ ? http2_->is_clean() : http1_.is_clean(); }

    // The same once `batch`, and what read_ahead() has read, will have been dropped. Requires that
    // this is all.
    bool is_clean_behind(const http::BodyBatch& batch) const {
        return is_http2_ ? http2_->is_clean_behind(batch) : http1_.is_clean_behind(batch);
    }
    // How much memory the bytes of the body that are here take up.
    std::size_t room() const { return is_http2_ ? http2_->room() : http1_.room(); }

    // The request asks for a tunnel: a 101 is no fault. Only in HTTP/1: the configuration refuses
    // routes with tunnels to servers that speak HTTP/2.
    void allow_switch() {
        if (!is_http2_) http1_.allow_switch();
    }

    // Ends both directions: what waits to send or receive is woken, and fails. In HTTP/2 the
    // connection stays.
    void cancel() { return is_http2_ ? http2_->cancel() : http1_.cancel(); }
    // Forgets the request. Requires that the pool has the stream back.
    void reset() {
        http1_.reset();
        if (http2_) http2_->reset();
    }

    // For the pool.

    void open(Server& server, ConnectionPtr connection, bool is_reused) {
        is_http2_ = false;
        http1_.open(server, std::move(connection), is_reused);
    }
    void open(Server& server, Http2ConnectionPtr connection) {
        if (!http2_) http2_ = std::make_unique<Http2Stream>(buffers_);
        is_http2_ = true;
        http2_->open(server, std::move(connection));
    }
    Http1Stream& http1() { return http1_; }
    const Http1Stream& http1() const { return http1_; }
    Http2Stream& http2() { return *http2_; }
    const Http2Stream& http2() const { return *http2_; }

  private:
    BufferPool& buffers_;
    Http1Stream http1_;
    std::unique_ptr<Http2Stream> http2_;  // from the first request on that needs it
    bool is_http2_ = false;
};

}  // namespace tidegate::upstream
