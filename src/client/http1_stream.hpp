// One request of a client and its answer, in HTTP/1. Stream says what each function means.
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
#include "client/stream_base.hpp"
#include "http/framing.hpp"
#include "net/transfer.hpp"

namespace tidegate::client {

// What all streams of a connection share. The connection owns it.
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
    // Goes on with what would have blocked; the connection's sleeper is woken when there is room.
    IoStatus try_rest();
    // Nothing of what waits goes any more.
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

}  // namespace tidegate::client
