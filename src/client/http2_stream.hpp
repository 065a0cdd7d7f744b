// One request of a client and its answer, in HTTP/2. Stream says what each function means.
//
// A connection lends it for one request. It keeps what the client sends of a body until the caller
// drops it, which is when the client gets room for more. What is sent goes into the connection's
// output as far as the client's window and the output have room; the rest stays the caller's.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "base/ip.hpp"
#include "client/http2_body_budget.hpp"
#include "client/stream_base.hpp"
#include "config/config.hpp"
#include "h2/server.hpp"
#include "h2/settings_and_abuse.hpp"
#include "http/framing.hpp"
#include "net/connection.hpp"
#include "net/transfer.hpp"
#include "net/wakeup.hpp"

namespace tidegate::client {

struct Http2Link;

// Its connection's list has it while it serves a request.
using Http2StreamHook =
    boost::intrusive::list_base_hook<boost::intrusive::tag<struct Http2StreamTag>,
                                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class Http2Stream final : public StreamBase, public Http2StreamHook, private BodyBudget::Holder {
  public:
    Http2Stream(Executor executor, DeadlineWheel& deadlines, BufferPool& buffers);
    Http2Stream(const Http2Stream&) = delete;
    Http2Stream& operator=(const Http2Stream&) = delete;

    std::string_view protocol() const { return protocol_; }

    // The body.

    void begin_body();
    http::BodyBatch take_body();
    void drop_body(const http::BodyBatch& batch);
    bool is_body_done() const { return is_done_; }
    std::uint64_t body_announced() const { return announced_.value_or(0); }
    std::uint64_t body_left() const;
    bool has_whole_body() const;
    http::Fields& trailers();
    BodyInput read_body(Wakeup& wakeup);
    void count_body_for(const std::optional<IpAddress>& client);
    bool lacks_room() const;

    // The client.

    bool has_left(Wakeup& wakeup);
    void forget_wakeup() { watcher_ = nullptr; }
    // True also if a malformed body has ended the stream: that is the client's fault, not its
    // leaving.
    bool is_open() const { return !is_closed() || is_malformed_; }
    bool is_cut_off() const;
    bool is_taking() const { return !has_given_up_ && (is_closed() || stream_->is_taking()); }

    // The answer.

    std::string& begin_head(int status);
    IoStatus send_interim();
    void end_head(http::BodyKind body, std::optional<std::uint64_t> length);
    IoStatus send(const http::BodyBatch& batch, const http::Fields& trailers);
    IoStatus send_all(std::string_view content);
    // Returns the state of what was offered last. The stream wakes its sleeper when the client has
    // taken all of it.
    IoStatus try_rest() const;
    // The client does not take what was offered. The bytes go with their owner now, which may have
    // to wait before the request ends: none of them may be sent any more.
    void give_up();
    std::size_t unsent() const { return stream_ != nullptr ? stream_->offered_bytes() : 0; }
    void move_trailers(const http::Fields& kept) {
        if (stream_ != nullptr) stream_->move_trailers(kept);
    }
    void break_off() { is_broken_off_ = true; }
    void reset();

    // A tunnel.

    IoStatus send_switch();
    void become_tunnel();
    std::string_view take_bytes();
    void drop_bytes(std::size_t bytes);
    TunnelInput read_bytes(Wakeup& wakeup);
    IoResult send_bytes(std::string_view bytes, Wakeup& wakeup);
    IoStatus finish_sending(Wakeup& wakeup);

    // For the connection.

    // If `stream` is null, the request was malformed and never became one: it is only logged.
    void begin(Http2Link& link, h2::ServerStream* stream);
    // Adds bytes of the body, or of a tunnel. False if the worker holds too much.
    bool add_bytes(std::string_view bytes);
    // Called when what the client sends has grown or come to its end.
    void on_input();
    // Called when the client has taken what was offered.
    void on_drained() { sleeper().wakeup().wake_later(); }
    // Called when nothing comes or goes any more, or a tunnel has to end.
    void on_end();
    // Called when the session has reset the stream because the body, or what follows it, broke the
    // rules.
    void note_malformed() { is_malformed_ = true; }
    // Called when the time to drain has ended.
    void cut_off();
    // The request is served. The client sees a broken answer if it was broken off, or if the
    // request `has_failed`.
    void finish(bool has_failed);
    bool is_tunnel() const { return is_tunnel_; }
    // Forgets the request.
    void end();

  private:
    bool is_closed() const;
    void send_head(bool has_body);
    IoStatus offer(std::span<const std::string_view> pieces, bool is_last,
                   const http::Fields* trailers);
    void release_body(std::size_t bytes);
    void grant() override;
    void give_way() override;

    Sleeper own_sleeper_;
    Http2Link* link_ = nullptr;
    h2::ServerStream* stream_ = nullptr;
    Wakeup* watcher_ = nullptr;  // that the caller gave last, to wait for the client
    std::string_view protocol_;

    Buffer arrived_;
    Buffer taken_;                            // what a batch of take_body() looks at
    std::size_t seen_ = 0;                    // of a tunnel, by the last take_bytes()
    std::size_t owed_ = 0;                    // dropped; the client has no room for it yet
    std::optional<std::uint64_t> announced_;  // what is left of Content-Length
    http::Framing unannounced_;               // of a body without Content-Length
    http::Fields no_trailers_;
    bool is_done_ = false;

    int status_ = 0;
    std::string out_head_;                       // lines of fields
    std::array<std::string_view, 1> out_piece_;  // of send_all() and of a tunnel
    std::string tunnel_output_;
    bool head_sent_ = false;
    bool has_given_up_ = false;  // the client was too slow
    bool is_broken_off_ = false;
    bool is_malformed_ = false;
    bool is_cut_off_ = false;
    bool is_tunnel_ = false;
    bool is_finished_ = false;  // the tunnel's end was sent
};

using Http2StreamList =
    boost::intrusive::list<Http2Stream, boost::intrusive::base_hook<Http2StreamHook>,
                           boost::intrusive::constant_time_size<false>>;

// Holds the state that the streams of an HTTP/2 connection share. The connection owns it; one
// thread.
struct Http2Link {
    // Gathers what there is to send, as far as there is room for it, and has the connection write
    // it at the end of this turn. `bytes`: about how much that is.
    void gather(std::size_t bytes);
    // Gathers into `room` of the output. False: there was nothing.
    bool gather_into(std::span<char> room, SteadyTime now);
    // Has the connection write what there is at the end of this turn.
    void write_later() { sleeper.wakeup().wake_later(); }
    // Wakes the streams that the events of the output are about. Runs none of them.
    void tell_streams();
    // The account of `address`, to which the bodies of its requests count.
    const BodyBudget::AccountPtr& account();

    const DeadlineWheel& clock;
    h2::ServerSession server;
    ConnectionPtr connection;
    Buffer output;               // gathered and not written
    h2::ServerEventList events;  // of the output
    BodyBudget& bodies;
    // The address of the other end of the connection, as it counts: an IPv6 address is a prefix.
    std::optional<IpAddress> address;
    Sleeper sleeper;  // of the connection's coroutine
    Arrival arrival;
    const bool& is_draining;                // the worker is
    bool is_cut_off = false;                // the proxy has reset the connection
    bool is_over = false;                   // nothing comes or goes any more
    BodyBudget::AccountPtr body_account{};  // null: no body has come yet
};

// Holds the resources that the HTTP/2 connections of a worker share. Outlives them; one thread.
class Http2Resources {
  public:
    Http2Resources(Executor executor, DeadlineWheel& deadlines, BufferPool& buffers)
        : executor_(std::move(executor)), deadlines_(deadlines), buffers_(buffers) {}

    // Takes the settings of `config` for connections from now on.
    void use(const config::Config& config);

    // Streams are reused, so that a request allocates nothing that the one before it had room for,
    // and idle connections hold none.
    std::unique_ptr<Http2Stream> take(Http2Link& link, h2::ServerStream* stream);
    void give_back(std::unique_ptr<Http2Stream> stream);

    h2::ServerSettings settings;
    // A connection is drained once it is so old, or up to a fifth older; 0: however old it is.
    std::chrono::milliseconds connection_time{0};
    h2::StreamPool<h2::ServerStream> streams;
    BodyBudget bodies;

  private:
    static constexpr std::size_t kKept = 256;

    Executor executor_;
    DeadlineWheel& deadlines_;
    BufferPool& buffers_;
    std::vector<std::unique_ptr<Http2Stream>> free_;
};

}  // namespace tidegate::client
