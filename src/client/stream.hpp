// One request of a client and its answer: heads, batches of body, an end. The code that serves a
// request sees neither bytes nor a connection, and need not ask which version of HTTP the client
// speaks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/http1_stream.hpp"
#include "client/http2_stream.hpp"
#include "net/deadline.hpp"

namespace tidegate::client {

// Whether a client takes what waits for it: in each span of `client_write`, kBytesMin at least, or
// all there is. Pure: the caller supplies the time and counts the bytes.
//
// A span begins with a wait, goes on through further waits, and begins anew once the client has
// taken kBytesMin or there is nothing more for it. Time in which nothing waits for the client does
// not count.
class WritePace {
  public:
    static constexpr std::int64_t kBytesMin = 4'096;

    // Something waits for the client, which has taken `taken` bytes in all. Only the growth of
    // `taken` counts, so that it may be off, and negative, by what frames the bytes.
    void begin_wait(SteadyTime now, std::int64_t taken) {
        since_ = now;
        note(now, taken);
    }
    // How long the client may still let it wait; not positive if it is too slow. Requires a wait.
    std::chrono::milliseconds time_left(std::chrono::milliseconds patience, SteadyTime now,
                                        std::int64_t taken) {
        note(now, taken);
        return std::chrono::ceil<std::chrono::milliseconds>(patience - waited_);
    }
    // Nothing waits for the client now. There may be more.
    void end_wait(SteadyTime now) { waited_ += now - since_; }
    // The client has taken all there is.
    void restart() {
        waited_ = {};
        taken_in_span_ = 0;
    }

  private:
    void note(SteadyTime now, std::int64_t taken) {
        waited_ += now - since_;
        since_ = now;
        taken_in_span_ += std::max<std::int64_t>(taken - taken_, 0);
        taken_ = taken;
        if (taken_in_span_ >= kBytesMin) restart();
    }

    SteadyTime since_{};                  // of this wait, or of the last look at it
    std::chrono::nanoseconds waited_{0};  // in this span
    std::int64_t taken_ = 0;
    std::int64_t taken_in_span_ = 0;
};

class Stream {
  public:
    explicit Stream(Http1Stream& stream) : base_(stream), http1_(&stream) {}
    explicit Stream(Http2Stream& stream) : base_(stream), http2_(&stream) {}
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // Where the request came from, and where to.

    const identity::Peer& peer() const { return base_.peer(); }
    std::uint16_t local_port() const { return base_.local_port(); }
    // Clients connect to local_port() at a balancer in front.
    bool port_is_published() const { return base_.port_is_published(); }
    // The certificate that the client has shown over TLS; null if it has shown none.
    const ClientCertificate* certificate() const { return base_.certificate(); }
    // Every answer says that the host is for https alone.
    bool sends_hsts() const { return base_.sends_hsts(); }
    std::string_view scheme() const { return base_.scheme(); }
    bool is_http2() const { return http2_ != nullptr; }
    std::chrono::system_clock::time_point began_at() const { return base_.began_at(); }
    SteadyTime began() const { return base_.began(); }

    using Head = StreamBase::Head;
    Head head_state() const { return base_.head_state(); }
    http::HeadFault head_fault() const { return base_.head_fault(); }
    // The caller may take it by a swap. Its views stay until the request has ended.
    http::RequestHead& head() { return base_.head(); }
    // Returns the protocol that an extended CONNECT (RFC 8441) asks for; the head then says GET.
    // Empty for other requests.
    std::string_view protocol() const { return http1_ ? std::string_view() : http2_->protocol(); }

    // The coroutine that serves the request sleeps here.
    Sleeper& sleeper() { return base_.sleeper(); }
    // The worker drains. When it begins to, it wakes sleeper().
    bool is_draining() const { return base_.is_draining(); }

    // The body.

    // To be filled in before begin_body().
    http::Framing& framing() { return base_.framing(); }
    const http::Framing& framing() const { return base_.framing(); }
    void begin_body() { return http1_ ? http1_->begin_body() : http2_->begin_body(); }
    // Takes the part of the body that has arrived. The batch stays good until it is dropped.
    http::BodyBatch take_body(const http::TrailerBounds& bounds) {
        return http1_ ? http1_->take_body(bounds) : http2_->take_body();
    }
    void drop_body(const http::BodyBatch& batch) {
        return http1_ ? http1_->drop_body(batch) : http2_->drop_body(batch);
    }
    // Whether nothing of the body is left to take.
    bool is_body_done() const { return http1_ ? http1_->is_body_done() : http2_->is_body_done(); }
    // How much more is known to come.
    std::uint64_t body_announced() const {
        return http1_ ? http1_->body_announced() : http2_->body_announced();
    }
    // How much more may come.
    std::uint64_t body_left() const { return http1_ ? http1_->body_left() : http2_->body_left(); }
    // Whether all of the body has arrived, or there is none. In HTTP/1, the length must be known.
    bool has_whole_body() const {
        return http1_ ? http1_->has_whole_body() : http2_->has_whole_body();
    }
    // Whole once the body is done.
    http::Fields& trailers() { return http1_ ? http1_->trailers() : http2_->trailers(); }
    BodyInput read_body(Wakeup& wakeup) {
        return http1_ ? http1_->read_body(wakeup) : http2_->read_body(wakeup);
    }
    // From now on the buffered bytes of the body count for `client`, the address of the request's
    // client as it counts, and no longer for the other end of the connection. In HTTP/2 only.
    void count_body_for(const std::optional<IpAddress>& client) {
        if (http2_) http2_->count_body_for(client);
    }
    // The client may not send more of the body: the proxy has given it no room yet, or the bodies
    // of its other requests take up the room of the connection. So it is not silent by its own
    // choice, but may have seen to it. When it has room again, the wakeup of read_body() may not be
    // woken.
    bool lacks_room() const { return http2_ != nullptr && http2_->lacks_room(); }
    // How much more of the body may go through a pipe, past take_body(). If that is not 0,
    // read_body() takes a pipe. `more` with an empty pipe: splicing was refused.
    std::uint64_t spliceable() const { return http1_ ? http1_->spliceable() : 0; }
    BodyInput read_body(SplicePipe& pipe, Wakeup& wakeup) {
        return http1_->read_body(pipe, wakeup);
    }

    // The client.

    // Whether the client has left; else `wakeup` is woken by a sign of it. In HTTP/1 a client has
    // left that has closed its connection, or only finished sending unless the listener has
    // `half_close`; in HTTP/2 one that has closed the connection or reset the stream. Not while the
    // body is read, which finds out by itself.
    bool has_left(Wakeup& wakeup) {
        return http1_ ? http1_->has_left(wakeup) : http2_->has_left(wakeup);
    }
    // The same for when no coroutine reads the body, and some of it may be unread.
    bool has_hung_up(Wakeup& wakeup) {
        return http1_ ? http1_->has_hung_up(wakeup) : http2_->has_left(wakeup);
    }
    // The stream no longer wakes the wakeup that read_body(), has_left() or has_hung_up() was
    // given.
    void forget_wakeup() { return http1_ ? http1_->forget_wakeup() : http2_->forget_wakeup(); }
    bool is_open() const { return http1_ ? http1_->is_open() : http2_->is_open(); }
    // Whether the proxy has cut the connection off, for a drain or for another client.
    bool is_cut_off() const { return http1_ ? http1_->is_cut_off() : http2_->is_cut_off(); }
    // How many bytes of content the client has taken, as far as the proxy knows without asking the
    // kernel.
    std::uint64_t taken_bytes() const { return given_ - std::min<std::uint64_t>(given_, unsent()); }
    // False while what was sent last waits for the client to take it.
    bool is_taking() const { return http1_ ? http1_->is_taking() : http2_->is_taking(); }

    // The answer. What is given here may not change before all is sent.

    // The connection takes another request after the answer only if `may_go_on`, the client wants
    // that and has not finished sending, and the worker does not drain. To be called before
    // end_head(). In HTTP/2 the next request does not depend on this one.
    void keep_alive_if(bool may_go_on) {
        if (http1_) http1_->keep_alive_if(may_go_on);
    }
    void close_after_answer() {
        if (http1_) http1_->close_after_answer();
    }
    // False: no interim answer reaches this client (RFC 9110 section 15.2).
    bool takes_interim() const { return http1_ == nullptr || http1_->takes_interim(); }
    // Begins a head, of an interim answer or the final one. The caller appends lines of fields, but
    // none that frames the body.
    std::string& begin_head(int status, std::string_view reason) {
        return http1_ ? http1_->begin_head(status, reason) : http2_->begin_head(status);
    }
    // Ends the head of an interim answer and begins to send it. would_block: send_rest() goes on.
    IoStatus send_interim() { return http1_ ? http1_->send_interim() : http2_->send_interim(); }
    // Ends the head of the final answer: the body will come as `body`, which the stream frames as
    // this client can read it. If there is a `length`, the stream sends it. The stream adds the
    // listener's Strict-Transport-Security.
    void end_head(http::BodyKind body, std::optional<std::uint64_t> length) {
        return http1_ ? http1_->end_head(body, length) : http2_->end_head(body, length);
    }
    // Begins to send `batch`, the first time behind the head; would_block: send_rest() goes on.
    IoStatus send(const http::BodyBatch& batch, const http::Fields& trailers) {
        given_ += batch.content_bytes;
        return http1_ ? http1_->send(batch, trailers) : http2_->send(batch, trailers);
    }
    // The body is sent as plain bytes: its length is known, and there is no TLS. Once the head was
    // sent, send() takes a pipe, too.
    bool can_send_spliced() const { return http1_ != nullptr && http1_->can_send_spliced(); }
    IoStatus send(SplicePipe& pipe) {
        given_ += pipe.size();
        return http1_->send(pipe);
    }
    // The trailers that were given to send() are in `kept` from now on.
    void move_trailers(const http::Fields& kept) {
        if (http2_) http2_->move_trailers(kept);
    }
    // The same with all content there is, whose length a field of the head says.
    IoStatus send_all(std::string_view content) {
        given_ += content.size();
        return http1_ ? http1_->send_all(content) : http2_->send_all(content);
    }
    // In each span of `patience` the client has to take WritePace::kBytesMin, or all that waits for
    // it; failed, too, when it did not.
    Task<IoStatus> send_rest(std::chrono::milliseconds patience) {
        begin_rest(patience);
        for (;;) {
            const IoStatus status = try_rest();
            if (status != IoStatus::would_block) co_return status;
            co_await sleeper().sleep();
        }
    }
    // The same in steps, for a caller that looks at more than the client: try_rest() until it
    // returns something else than would_block, each time after sleeper() woke. The sleeper is the
    // stream's meanwhile.
    void begin_rest(std::chrono::milliseconds patience) {
        patience_ = patience;
        const SteadyTime now = sleeper().now();
        const std::int64_t taken = taken_of(given_);
        pace_.begin_wait(now, taken);
        sleeper().allow(pace_.time_left(patience_, now, taken));
    }
    IoStatus try_rest() {
        IoStatus status = http1_ ? http1_->try_rest() : http2_->try_rest();
        if (status == IoStatus::would_block) {
            if (!sleeper().expired()) return status;
            const auto left = pace_.time_left(patience_, sleeper().now(), taken_of(given_));
            if (left.count() > 0) {
                sleeper().allow(left);
                return status;
            }
            http1_ ? http1_->give_up() : http2_->give_up();
            status = IoStatus::failed;
        }
        pace_.end_wait(sleeper().now());
        if (status == IoStatus::ok) sleeper().allow_forever();
        return status;
    }
    // The client has all there is of the answer so far: the time that it took does not count
    // against what follows.
    void note_all_taken() { pace_.restart(); }
    // The answer cannot come to its end: the client sees a broken one.
    void break_off() { return http1_ ? http1_->break_off() : http2_->break_off(); }
    // The same at once; what waits to send fails.
    void reset() { return http1_ ? http1_->reset() : http2_->reset(); }

    // A tunnel: bytes both ways in place of an answer, until it is closed.

    // Ends the head that accepts the tunnel, which the caller has begun, and begins to send it;
    // would_block: send_rest() goes on. It says nothing of the connection: the caller does.
    IoStatus send_switch() { return http1_ ? http1_->send_switch() : http2_->send_switch(); }
    // All of it was sent. Forgets the request: views into its head go stale.
    void become_tunnel() { return http1_ ? http1_->become_tunnel() : http2_->become_tunnel(); }
    // Returns the bytes that have come and were not dropped; first those that the client has sent
    // behind its request.
    std::string_view take_bytes() { return http1_ ? http1_->take_bytes() : http2_->take_bytes(); }
    void drop_bytes(std::size_t bytes) {
        return http1_ ? http1_->drop_bytes(bytes) : http2_->drop_bytes(bytes);
    }
    TunnelInput read_bytes(Wakeup& wakeup) {
        return http1_ ? http1_->read_bytes(wakeup) : http2_->read_bytes(wakeup);
    }
    // See send_tunnel() and finish_tunnel() in net/transfer.hpp.
    IoResult send_bytes(std::string_view bytes, Wakeup& wakeup) {
        return http1_ ? http1_->send_bytes(bytes, wakeup) : http2_->send_bytes(bytes, wakeup);
    }
    IoStatus finish_sending(Wakeup& wakeup) {
        return http1_ ? http1_->finish_sending(wakeup) : http2_->finish_sending(wakeup);
    }

    // How much of what was given to be sent waits for the client in the stream.
    std::size_t unsent() const { return http1_ ? http1_->unsent() : http2_->unsent(); }
    // How much of `given` bytes the client has taken, for a WritePace: costs a system call in
    // HTTP/1. Negative: not all that frames them.
    std::int64_t taken_of(std::uint64_t given) const {
        const std::size_t waiting = http1_ ? http1_->untaken() : http2_->unsent();
        return static_cast<std::int64_t>(given) - static_cast<std::int64_t>(waiting);
    }

  private:
    StreamBase& base_;
    // One of them.
    Http1Stream* http1_ = nullptr;
    Http2Stream* http2_ = nullptr;
    std::uint64_t given_ = 0;
    WritePace pace_;
    std::chrono::milliseconds patience_{0};  // of the wait that has begun
};

}  // namespace tidegate::client
