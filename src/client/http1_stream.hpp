// One request of a client and its answer, in HTTP/1: heads, batches of body, an end. Who serves a
// request sees neither bytes nor a connection.
//
// Lent by a connection for one request, and reused: a request allocates nothing that the one before
// it had room for. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/http1_input.hpp"
#include "http/body.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"
#include "identity/client_ip.hpp"
#include "net/deadline.hpp"
#include "net/outbox.hpp"
#include "net/sleeper.hpp"

namespace tidegate::client {

// What all streams of a connection share. The connection owns it.
struct Http1Link {
    Http1Input input;
    Sleeper sleeper;
    identity::Peer peer;
    std::uint16_t local_port;
    const bool& is_draining;  // the worker is
    bool is_cut_off = false;  // the proxy has reset the connection
};

class Http1Stream {
  public:
    // Who sent the request, and where to.

    const identity::Peer& peer() const { return link_->peer; }
    std::uint16_t local_port() const { return link_->local_port; }
    std::chrono::system_clock::time_point began_at() const { return began_at_; }
    SteadyTime began() const { return began_; }

    enum class Head : std::uint8_t {
        complete,
        broken,   // head_fault() says how
        timeout,  // it did not come to its end in time
        left,     // the client closed or reset inside it
    };
    Head head_state() const { return head_state_; }
    http::HeadFault head_fault() const { return head_fault_; }
    // The caller may take it by a swap. Its views stay until the request has ended.
    http::RequestHead& head() { return head_; }

    // The coroutine that serves the request sleeps here.
    Sleeper& sleeper() { return link_->sleeper; }

    // The body.

    // To be filled in before begin_body().
    http::Framing& framing() { return framing_; }
    const http::Framing& framing() const { return framing_; }
    void begin_body();
    // What has arrived. The batch stays good until it is dropped.
    http::BodyBatch take_body(const http::TrailerBounds& bounds) {
        return body_.take(link_->input.body(), bounds);
    }
    void drop_body(const http::BodyBatch& batch) { link_->input.drop_body(batch.consumed); }
    // Nothing of the body is left to take.
    bool is_body_done() const { return body_.done(); }
    // How much more is known to come.
    std::uint64_t body_announced() const { return body_.announced(); }
    std::uint64_t body_left() const { return body_.left(); }
    // All of a body of known length has arrived, or there is none.
    bool has_whole_body() const { return body_.left() <= link_->input.body().size(); }
    http::Fields& trailers() { return body_.trailers(); }
    using Body = Http1Input::Body;
    Body read_body(Wakeup& wakeup) { return link_->input.read_body(body_.left(), wakeup); }

    // The client.

    // See Http1Input.
    bool has_left(Wakeup& wakeup) { return link_->is_cut_off || link_->input.has_left(wakeup); }
    // The wakeup that was given to read_body() or has_left() goes.
    void forget_wakeup() { link_->input.connection().watch_read(nullptr); }
    bool is_open() const { return link_->input.connection().is_open(); }
    // The proxy has cut the connection off, for a drain or for another client.
    bool is_cut_off() const { return link_->is_cut_off; }
    // False: what was sent last still waits for the client to take it.
    bool is_taking() const { return link_->input.connection().writable(); }

    // The answer. What is given here may not change before all is sent.

    // The connection takes another request after the answer only if `may_go_on`, the client wants
    // that and has not finished sending, and the worker does not drain. To be called before
    // end_head().
    void keep_alive_if(bool may_go_on);
    void close_after_answer() { keep_alive_ = false; }
    bool keeps_alive() const { return keep_alive_; }

    // False: no interim answer reaches this client (RFC 9110 section 15.2).
    bool takes_interim() const { return minor_version_ > 0; }
    // Begins a head, of an interim answer or the final one. The caller appends lines of fields, but
    // none that frames the body.
    std::string& begin_head(int status, std::string_view reason);
    // Ends the head of an interim answer and begins to send it. would_block: send_rest() goes on.
    IoStatus send_interim();
    // Ends the head of the final answer: the body will come as `body`, which the stream frames as
    // this client can read it. If there is a `length`, the stream sends it.
    void end_head(http::BodyKind body, std::optional<std::uint64_t> length);
    // Begins to send `batch`, the first time behind the head; would_block: send_rest() goes on.
    IoStatus send(const http::BodyBatch& batch, const http::Fields& trailers);
    // The same with all content there is, whose length a field of the head says.
    IoStatus send_all(std::string_view content);
    // Each wait within `patience`; failed, too, when that was not enough.
    Task<IoStatus> send_rest(std::chrono::milliseconds patience);

    // The answer cannot come to its end: the connection is reset.
    void break_off() { is_broken_off_ = true; }
    // The same at once; what waits to send fails.
    void reset_connection() { link_->input.connection().reset(); }

    // For the connection.

    void begin(Http1Link& link);
    Http1Input::Head read_head(const http::HeadBounds& bounds) {
        return link_->input.read_head(bounds, head_, head_fault_);
    }
    void set_head_state(Head state);
    bool is_broken_off() const { return is_broken_off_; }
    // Forgets the request.
    void end();

  private:
    Http1Link* link_ = nullptr;
    std::chrono::system_clock::time_point began_at_;
    SteadyTime began_;
    http::RequestHead head_;
    http::Framing framing_;
    http::BodyReader body_;
    std::string out_head_;  // and content of a size that is copied
    std::string out_tail_;
    Outbox outbox_;
    http::BodyKind out_body_ = http::BodyKind::none;
    Head head_state_ = Head::complete;
    http::HeadFault head_fault_ = http::HeadFault::none;
    bool head_sent_ = false;
    bool keep_alive_ = false;
    bool is_broken_off_ = false;
    int minor_version_ = 1;
};

}  // namespace tidegate::client
