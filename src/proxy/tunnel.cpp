#include "proxy/tunnel.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <openssl/evp.h>

#include "base/base64.hpp"
#include "client/stream.hpp"
#include "http/websocket.hpp"
#include "proxy/heads.hpp"

namespace tidegate::proxy {

namespace {

using ask::Fault;
using http::CloseCode;
using http::FrameFollower;
using std::chrono::milliseconds;

// HTTP/2 has no `Upgrade`: a request for a WebSocket is an extended CONNECT there (RFC 8441).
http::WebSocketRequest wanted(const Exchange& x) {
    if (!x.facts.protocol.empty()) return http::websocket_connect(x.facts.head, x.facts.protocol);
    if (x.facts.is_http2) return http::WebSocketRequest::none;
    return http::websocket_request(x.facts.head, x.client->framing());
}

// How long the ends of a tunnel may take to close it, once both have a Close frame.
constexpr milliseconds kCloseTime{2'000};
constexpr SteadyTime kNotSet = SteadyTime::max();
// A direction that never has to wait lets others have their turn after so many steps.
constexpr unsigned kStepsATurn = 16;

// RFC 6455 section 5.3.
std::array<unsigned char, 4> random_mask() {
    std::random_device device;
    const std::uint32_t drawn = device();
    std::array<unsigned char, 4> mask;
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = drawn >> (8 * i) & 0xff;
    return mask;
}

// Lives in the frame of run_tunnel(). Small: there may be many, and most of them sleep.
class Tunnel {
  public:
    Tunnel(WorkerContext& worker, Exchange& exchange);
    Tunnel(const Tunnel&) = delete;
    Tunnel& operator=(const Tunnel&) = delete;
    ~Tunnel();

    enum class Next : std::uint8_t {
        sleep,       // nothing is left to do until the sleeper wakes
        step_aside,  // there is more, but others have their turn first
        over,        // nothing is to be moved any more
    };
    // Moves what there is. Before sleep, sets for how long.
    Next go_on();

  private:
    // From one end to the other.
    struct Direction {
        TunnelFlow flow;
        std::unique_ptr<std::string>
            close{};       // what is left of a Close frame of the proxy's; rarely there
        TunnelEnd source;  // the end of the tunnel, if this side closes first
        bool has_source_ended = false;  // the source has finished sending
        bool is_finished = false;       // the proxy has sent the receiver its end
        bool is_blocked = false;        // the receiver takes nothing
    };

    // Moves the bytes that are there. False: there may be more.
    template <class From, class To>
    bool move(Direction& way, From& from, To& to);
    // False: the receiver does not take it now, or not any more.
    template <class To>
    bool send_end(Direction& way, To& to);
    bool note_sent(Direction& way, IoStatus status);
    void count(const Direction& way, std::size_t bytes);

    void look_at_times();
    void look_at_client();
    void look_at_ends();
    void begin_end(TunnelEnd why, CloseCode code, std::string_view reason);
    void break_off(TunnelEnd why, std::string_view fault);
    bool is_over();
    milliseconds time_left() const;

    client::Stream& client() const { return *x_.client; }
    upstream::TunnelStream& upstream() const { return *x_.tunnel; }
    Sleeper& sleeper() const { return client().sleeper(); }
    const config::Timeouts& timeouts() const { return x_.config().timeouts; }
    std::uint64_t moved() const { return x_.relay.bytes_received + x_.relay.bytes_sent; }

    WorkerContext& worker_;
    Exchange& x_;
    Direction up_;
    Direction down_;
    const SteadyTime began_;
    SteadyTime now_;
    SteadyTime last_moved_;
    SteadyTime drains_at_ = kNotSet;
    SteadyTime deadline_ = kNotSet;  // when an end that has begun must be over
    std::optional<TunnelEnd> end_;   // what began it
    bool is_ending_ = false;         // the proxy ends the tunnel, and sends Close frames
    bool is_broken_off_ = false;
    client::WritePace pace_;  // how fast the client takes bytes, while client_waits_
    SteadyTime pace_due_{};   // when to look at it
    bool client_waits_ = false;
};

Tunnel::Tunnel(WorkerContext& worker, Exchange& exchange)
    : worker_(worker),
      x_(exchange),
      up_{.flow = TunnelFlow(http::FrameSource::client, &exchange.decision.route->tunnel),
          .source = TunnelEnd::client},
      down_{.flow = TunnelFlow(http::FrameSource::server), .source = TunnelEnd::upstream},
      began_(steady_now()),
      now_(began_),
      last_moved_(began_) {
    worker_.metrics.tunnels.opened.add();
}

Tunnel::~Tunnel() {
    x_.relay.tunnel_end = end_.value_or(TunnelEnd::cut);
    worker_.metrics.tunnels.ended[*x_.relay.tunnel_end].add();
}

Tunnel::Next Tunnel::go_on() {
    for (;;) {
        now_ = steady_now();
        if (client().is_cut_off()) {
            if (!end_) end_ = TunnelEnd::cut;
            return Next::over;
        }
        const std::uint64_t moved_before = moved();
        const bool is_all_up = move(up_, client(), upstream());
        const bool is_all_down = move(down_, upstream(), client());
        if (moved() != moved_before) last_moved_ = now_;
        const bool was_ending = is_ending_;
        look_at_ends();
        look_at_times();
        if (is_over()) return Next::over;
        if (is_ending_ != was_ending) continue;
        if (!is_all_up || !is_all_down) return Next::step_aside;
        sleeper().allow(time_left());
        return Next::sleep;
    }
}

template <class From, class To>
bool Tunnel::move(Direction& way, From& from, To& to) {
    const auto age = std::chrono::duration_cast<limit::Micros>(now_ - began_);
    for (unsigned step = 0; step < kStepsATurn && !is_broken_off_; ++step) {
        const std::string_view bytes = from.take_bytes();
        const std::size_t admitted = way.flow.admit(bytes, age);
        if (admitted > 0) {
            const IoResult sent = to.send_bytes(bytes.substr(0, admitted), sleeper().wakeup());
            if (!note_sent(way, sent.status)) return true;
            from.drop_bytes(sent.bytes);
            way.flow.sent(sent.bytes);
            count(way, sent.bytes);
            continue;
        }
        if (way.flow.has_stopped()) from.drop_bytes(bytes.size());
        const bool ends = way.has_source_ended || (is_ending_ && way.flow.has_stopped());
        if (ends && !send_end(way, to)) return true;
        if (way.has_source_ended) return true;
        switch (from.read_bytes(sleeper().wakeup())) {
            case TunnelInput::more:
                break;
            case TunnelInput::nothing:
                return true;
            case TunnelInput::end:
                way.has_source_ended = true;
                break;
            case TunnelInput::failed:
                break_off(way.source, &way == &up_ ? "" : "upstream: tunnel cut off");
                return true;
        }
    }
    return is_broken_off_;
}

template <class To>
bool Tunnel::send_end(Direction& way, To& to) {
    while (way.close && !way.close->empty()) {
        const IoResult sent = to.send_bytes(*way.close, sleeper().wakeup());
        if (!note_sent(way, sent.status)) return false;
        way.close->erase(0, sent.bytes);
    }
    if (!way.is_finished) {
        way.is_finished = note_sent(way, to.finish_sending(sleeper().wakeup()));
    }
    return way.is_finished;
}

// Notes what became of sending. False: nothing was sent.
bool Tunnel::note_sent(Direction& way, IoStatus status) {
    if (status == IoStatus::ok) {
        way.is_blocked = false;
        return true;
    }
    if (status == IoStatus::would_block) {
        way.is_blocked = true;
    } else {
        // Of the two ends, the one that does not take it.
        const Direction& other = &way == &up_ ? down_ : up_;
        break_off(other.source, &way == &up_ ? "upstream: tunnel cut off" : "");
    }
    return false;
}

void Tunnel::count(const Direction& way, std::size_t bytes) {
    if (&way == &up_) {
        x_.relay.bytes_received += bytes;
        worker_.metrics.tunnel_bytes_received.add(bytes);
    } else {
        x_.relay.bytes_sent += bytes;
        worker_.metrics.tunnel_bytes_sent.add(bytes);
    }
}

// Notes what the two ends of the tunnel did themselves.
void Tunnel::look_at_ends() {
    for (const Direction* const way : {&up_, &down_}) {
        if (!end_ && (way->flow.has_closed() || way->has_source_ended)) end_ = way->source;
    }
    if (up_.flow.has_closed() && down_.flow.has_closed() && deadline_ == kNotSet) {
        deadline_ = now_ + kCloseTime;
    }
    switch (up_.flow.fault()) {
        case FlowFault::none:
            break;
        case FlowFault::too_many_messages:
            x_.relay.tunnel_fault = "client: too many messages";
            return begin_end(TunnelEnd::limited, CloseCode::policy_violation, "too many messages");
        case FlowFault::message_too_large:
            x_.relay.tunnel_fault = "client: message too large";
            return begin_end(TunnelEnd::limited, CloseCode::message_too_big, "message too large");
        case FlowFault::bad_frames:
            x_.relay.tunnel_fault = "client: bad frames";
            return begin_end(TunnelEnd::bad_frames, CloseCode::protocol_error, "bad frames");
    }
    if (down_.flow.fault() != FlowFault::none) {
        x_.relay.tunnel_fault = "upstream: bad frames";
        begin_end(TunnelEnd::bad_frames, CloseCode::going_away, "the server's frames are bad");
    }
}

void Tunnel::look_at_times() {
    if (client().is_draining() && drains_at_ == kNotSet) {
        TunnelDrain& drain = worker_.tunnel_drain;
        const milliseconds over = worker_.generation->config->timeouts.drain_tunnels;
        if (!drain.began) drain.began = now_;
        drains_at_ = *drain.began + drain_delay(drain.scheduled++, over);
    }
    if (now_ >= drains_at_) {
        begin_end(TunnelEnd::drained, CloseCode::going_away, "the proxy stops");
    }
    if (now_ - last_moved_ >= timeouts().tunnel_idle) {
        if (!is_ending_) x_.relay.tunnel_fault = "tunnel: idle";
        begin_end(TunnelEnd::idle, CloseCode::going_away, "idle");
    }
    look_at_client();
}

// Breaks off if the client does not take what the upstream has sent.
void Tunnel::look_at_client() {
    if (!down_.is_blocked && client().unsent() == 0) {
        if (!std::exchange(client_waits_, false)) return;
        pace_.end_wait(now_);
        return pace_.restart();
    }
    if (client_waits_ && now_ < pace_due_) return;
    const std::int64_t taken = client().taken_of(x_.relay.bytes_sent);
    if (!std::exchange(client_waits_, true)) pace_.begin_wait(now_, taken);
    const milliseconds left = pace_.time_left(timeouts().client_write, now_, taken);
    pace_due_ = now_ + left;
    if (left.count() <= 0) break_off(TunnelEnd::stalled, "client: not reading");
}

// Each direction stops at the end of its frame, where the receiver gets a Close frame unless the
// source has sent one itself.
void Tunnel::begin_end(TunnelEnd why, CloseCode code, std::string_view reason) {
    if (is_ending_) return;
    is_ending_ = true;
    if (!end_) end_ = why;
    up_.flow.stop();
    down_.flow.stop();
    if (!up_.flow.has_closed() && !up_.is_finished) {
        up_.close = std::make_unique<std::string>(
            http::close_frame(CloseCode::going_away, "", random_mask()));
    }
    if (!down_.flow.has_closed() && !down_.is_finished) {
        down_.close = std::make_unique<std::string>(http::close_frame(code, reason));
    }
    deadline_ = now_ + kCloseTime;
    if (why != TunnelEnd::drained) return;
    // A long frame may take as long as the drain does.
    const milliseconds over = worker_.generation->config->timeouts.drain_tunnels;
    deadline_ = std::max(deadline_, *worker_.tunnel_drain.began + over);
}

// Ends the tunnel where an end is gone, or takes nothing: the client sees a broken connection.
void Tunnel::break_off(TunnelEnd why, std::string_view fault) {
    if (!is_ending_ && !end_) {
        end_ = why;
        x_.relay.tunnel_fault = fault;
    }
    is_broken_off_ = true;
    if (!down_.is_finished) client().break_off();
}

bool Tunnel::is_over() {
    if (is_broken_off_) return true;
    const bool are_finished = up_.is_finished && down_.is_finished;
    if (are_finished && (!is_ending_ || down_.has_source_ended)) return true;
    // The upstream may answer the Close frame: if the proxy closed at once, the answer could be
    // lost.
    if (are_finished) deadline_ = std::min(deadline_, now_ + kCloseTime);
    if (now_ < deadline_) return false;
    const bool is_in_order = down_.is_finished || down_.flow.has_closed();
    if (!is_in_order) client().break_off();
    return true;
}

milliseconds Tunnel::time_left() const {
    const SteadyTime idle_at = last_moved_ + timeouts().tunnel_idle;
    SteadyTime next = is_ending_ ? deadline_ : std::min({idle_at, deadline_, drains_at_});
    if (client_waits_) next = std::min(next, pace_due_);
    return std::max(std::chrono::ceil<milliseconds>(next - now_), milliseconds{1});
}

}  // namespace

std::string websocket_accept(std::string_view key) {
    constexpr std::string_view kGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    constexpr std::size_t kDigestBytes = 20;
    std::string text(key);
    text += kGuid;
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1 ||
        size != kDigestBytes) {
        return {};
    }
    std::string encoded;
    append_base64({reinterpret_cast<const char*>(digest.data()), size}, kBase64Digits, encoded);
    return encoded + "=";
}

std::string random_websocket_key() {
    constexpr std::size_t kKeyBytes = 16;
    std::random_device device;
    std::array<char, kKeyBytes> key;
    for (std::size_t i = 0; i < key.size(); i += sizeof(std::uint32_t)) {
        const std::uint32_t drawn = device();
        std::memcpy(&key[i], &drawn, sizeof drawn);
    }
    std::string text;
    append_base64({key.data(), key.size()}, kBase64Digits, text);
    return text + "==";
}

ask::Fault check_upgrade(Exchange& x) {
    const bool is_connect = !x.facts.protocol.empty();
    if (!x.decision.route->takes_websockets) {
        if (!is_connect) return ask::Fault::none;
        x.decision.fault_detail = "This route takes no WebSockets.";
        return ask::Fault::unsupported_method;
    }
    switch (wanted(x)) {
        case http::WebSocketRequest::none:
            // A CONNECT is no request of another kind.
            return is_connect ? ask::Fault::unsupported_method : ask::Fault::none;
        case http::WebSocketRequest::handshake:
            x.relay.is_upgrade = true;
            if (is_connect) x.upstream->websocket_key = random_websocket_key();
            break;
        case http::WebSocketRequest::malformed:
            return ask::Fault::bad_upgrade;
        case http::WebSocketRequest::other_version:
            return ask::Fault::upgrade_version;
    }
    return ask::Fault::none;
}

bool is_upgrade_accepted(const Exchange& x) {
    const std::string_view key =
        x.facts.protocol.empty() ? http::websocket_key(x.facts.head) : x.upstream->websocket_key;
    return http::accepts_websocket(x.upstream->stream.head(), websocket_accept(key));
}

Task<IoStatus> pass_on_switch(WorkerContext& worker, Exchange& x) {
    client::Stream& client = *x.client;
    const http::ResponseHead& head = x.upstream->stream.head();
    write_switch_head(x, head);
    IoStatus status = client.send_switch();
    if (status == IoStatus::would_block) {
        status = co_await client.send_rest(x.config().timeouts.client_write);
    }
    if (status != IoStatus::ok) co_return status;
    x.relay.status = head.status;
    x.relay.handshake_time = steady_now() - x.relay.began;
    worker.engine.note_status(x.decision, head.status);
    co_return status;
}

bool passes_for_tunnel(const Exchange& x, int status) {
    constexpr int kSuccess = 2;
    return !x.facts.protocol.empty() && status / 100 == kSuccess;
}

std::size_t TunnelFlow::follow(std::string_view bytes, limit::Micros now) {
    assert(admitted_ <= bytes.size());
    while (!is_stopped_) {
        if (follower_.is_at_frame_end() && is_ending()) {
            is_stopped_ = true;
            break;
        }
        if (admitted_ == bytes.size()) break;
        const auto [step, size] = follower_.follow(bytes.substr(admitted_));
        if (step == FrameFollower::Step::incomplete) break;
        if (step == FrameFollower::Step::malformed) fault_ = FlowFault::bad_frames;
        if (step == FrameFollower::Step::head) fault_ = fault_of_frame(now);
        if (fault_ != FlowFault::none) {
            is_stopped_ = true;
            break;
        }
        admitted_ += size;
    }
    return admitted_;
}

// Every frame counts but a Close: each frame of a message in pieces has to be forwarded, too.
FlowFault TunnelFlow::fault_of_frame(limit::Micros now) {
    using Opcode = http::WebSocketFrameHead::Opcode;
    const http::WebSocketFrameHead& head = follower_.head();
    if (bounds_ == nullptr || head.is(Opcode::close)) return FlowFault::none;
    if (!head.is_control() && follower_.message_bytes() > bounds_->message_bytes) {
        return FlowFault::message_too_large;
    }
    if (!bounds_->messages) return FlowFault::none;
    const limit::Flow flow(*bounds_->messages);
    if (!limit::passes(flow, limit::backlog_at(bucket_, flow, now), 1)) {
        return FlowFault::too_many_messages;
    }
    limit::take(bucket_, flow, now, 1);
    return FlowFault::none;
}

Task<ask::Fault> run_tunnel(WorkerContext& worker, Exchange& x) {
    x.keep_for_record();
    x.client->become_tunnel();
    Sleeper& sleeper = x.client->sleeper();
    Tunnel tunnel(worker, x);
    for (;;) {
        const Tunnel::Next next = tunnel.go_on();
        if (next == Tunnel::Next::over) break;
        if (next == Tunnel::Next::sleep) {
            co_await sleeper.sleep();
        } else {
            co_await sleeper.yield();
        }
    }
    sleeper.allow_forever();
    x.relay.reached = Reached::end;
    co_return x.client->is_cut_off() ? Fault::client_left : Fault::none;
}

milliseconds drain_delay(std::uint32_t number, milliseconds over) {
    // The golden section puts each into the largest gap that those before it have left.
    constexpr std::uint32_t kGoldenSection = 2'654'435'769;
    const std::uint32_t share = number * kGoldenSection;  // wraps around
    return milliseconds{
        static_cast<std::int64_t>(static_cast<std::uint64_t>(over.count()) * share >> 32)};
}

}  // namespace tidegate::proxy
