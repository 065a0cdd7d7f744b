#include <algorithm>

#include "http/grpc.hpp"
#include "proxy/forward.hpp"
#include "proxy/heads.hpp"

namespace tidegate::proxy {

using ask::Fault;
using http::BodyBatch;
using http::BodyKind;

namespace {

// How often an upload whose client has no room to send looks whether it has some: room that the
// budget of bodies grants wakes it, room of the connection does not.
constexpr std::chrono::milliseconds kRoomLook{1'000};

std::chrono::milliseconds response_timeout_of(const Exchange& x) {
    using std::chrono::milliseconds;
    const milliseconds longest = x.decision.route->response_timeout;
    if (!x.relay.is_grpc) return longest;
    const auto asked =
        http::parse_grpc_timeout(http::single_value(x.facts.head.fields, "grpc-timeout"));
    if (!asked) return longest;
    return std::clamp(std::chrono::ceil<milliseconds>(*asked), milliseconds{1}, longest);
}

// Both sides of a call of gRPC are sending: only silence is bounded, as that of an answer is.
bool is_conversation(const Relay& relay) {
    return relay.is_grpc && relay.reached >= Reached::answer;
}

}  // namespace

bool BodyWait::go_on(Sleeper& sleeper) {
    if (x_.client->lacks_room()) return wait_for_room(sleeper);
    if (holds_too_long()) return false;
    if (!rate_.is_waiting() || rate_.is_held_back()) return wait_for_client(sleeper);
    return !sleeper.expired();
}

void BodyWait::end() {
    if (rate_.is_waiting()) rate_.end_wait(steady_now());
}

// Whether the client has had `request_body` for a body that may keep others out. No timer ends at
// that moment: the caller asks after each part, and after a silence of `request_body`. So a client
// may get up to twice `request_body`.
bool BodyWait::holds_too_long() const {
    if (!x_.upstream->inspected_share.keeps_others_out()) return false;
    const SteadyTime time = steady_now();
    return rate_.waited(time) - rate_.held_back(time) >= x_.config().timeouts.request_body;
}

// The client cannot send, so its silence is not bounded, only the whole time that the body takes;
// of a conversation, the time without room. An upload makes room for requests of others like any
// that waits for its client. False when the time is over.
bool BodyWait::wait_for_room(Sleeper& sleeper) {
    const SteadyTime time = steady_now();
    if (!rate_.is_waiting()) rate_.begin_wait(time, x_.relay.bytes_received);
    rate_.hold_back();
    const std::chrono::milliseconds total = x_.config().timeouts.request_body_total;
    std::chrono::nanoseconds left = kRoomLook;
    if (total.count() > 0) {
        const auto spent = is_conversation(x_.relay) ? rate_.held_back(time) : rate_.waited(time);
        left = std::min(left, total - spent);
    }
    sleeper.allow(std::chrono::ceil<std::chrono::milliseconds>(left));
    return left.count() > 0;
}

// False when the client is too slow.
bool BodyWait::wait_for_client(Sleeper& sleeper) {
    const config::Timeouts& timeouts = x_.config().timeouts;
    const SteadyTime time = steady_now();
    if (!rate_.is_waiting()) rate_.begin_wait(time, x_.relay.bytes_received);
    rate_.let_go(time);
    const auto left =
        rate_.time_left({timeouts.request_body, x_.config().limits_on_requests.body_rate,
                         timeouts.request_body_total},
                        time);
    sleeper.allow(left);
    return left.count() > 0;
}

Upload::Upload(WorkerContext& worker, Exchange& exchange, upstream::TransferRate& rate)
    : worker_(worker),
      x_(exchange),
      client_(*exchange.client),
      answer_sleeper_(client_.sleeper()),
      response_timeout_(response_timeout_of(exchange)),
      rate_(rate),
      wait_(exchange, rate),
      is_held_(exchange.upstream->is_inspected) {}

// The proxy itself has let a client send a body that it had to read.
bool Upload::waits_for_continue() const {
    return client_.framing().expects_continue && !x_.upstream->is_inspected;
}

// A route's `buffer` is for every body, `request_buffer` for those whose length is known and fits,
// and for those that have come whole, such as most calls of gRPC.
// With `Expect: 100-continue` the upstream decides whether it wants the body.
std::uint64_t Upload::hold_bytes_max() const {
    const http::Framing& framing = client_.framing();
    if (framing.body == BodyKind::none || waits_for_continue()) return 0;
    const config::Route& route = *x_.decision.route;
    const std::uint64_t known = x_.config().upstreams[route.upstream].request_buffer;
    const bool is_known = (framing.body == BodyKind::length && client_.body_announced() <= known) ||
                          client_.has_whole_body();
    return std::max<std::uint64_t>(route.buffer, is_known ? known : 0);
}

// What has come already goes with the head anyway; holding it serves to send it again.
bool Upload::has_to_hold(bool may_repeat) const {
    if (x_.upstream->is_inspected) return false;
    if (!may_repeat && client_.has_whole_body()) return false;
    const std::uint64_t bytes = hold_bytes_max();
    return bytes > 0 && (worker_.held_bytes == 0 || worker_.held_bytes + bytes <= kHeldBytesMax);
}

Task<Fault> Upload::hold() {
    const std::uint64_t bytes_max = hold_bytes_max();
    std::string& held = x_.upstream->held_body;
    may_send_ = is_held_ = true;
    held_bytes_ = bytes_max;
    worker_.held_bytes += held_bytes_;
    Fault fault = Fault::none;
    while (fault == Fault::none && !client_.is_body_done() && held.size() < bytes_max) {
        const BodyBatch batch = take_body(fault);
        for (const std::string_view piece : batch.view()) held.append(piece);
        // Before begin() sends these bytes, or sends them again, those of the client's next request
        // may come in their place.
        if (batch.done) http::keep_in(x_.upstream->held_trailers, client_.trailers());
        const bool needs_more = batch.count == 0 && !batch.done;
        client_.drop_body(batch);
        if (fault == Fault::none && needs_more) {
            // Its own coroutine's sleeper, which is woken when the client is cut off.
            fault = co_await more_of_body(answer_sleeper_);
            wait_.end();
        }
    }
    answer_sleeper_.allow_forever();
    client_.forget_wakeup();
    co_return fault;
}

// Sends the head and what has come of the body in one write; the rest follows beside the answer.
Fault Upload::begin(bool may_follow) {
    state_ = State::idle;
    may_follow_ = may_follow;
    fault_ = Fault::none;
    cancelled_ = has_ended_ = false;
    Fault fault = Fault::none;
    BodyBatch batch;
    if (is_held_) {
        batch.pieces[0] = x_.upstream->held_body;
        batch.count = x_.upstream->held_body.empty() ? 0 : 1;
        batch.content_bytes = x_.upstream->held_body.size();
        batch.done = client_.is_body_done();
    } else if (client_.framing().body != BodyKind::none) {
        batch = take_body(fault);
        has_passed_on_ = batch.count > 0;
    }
    if (fault != Fault::none) return fault;
    // Only if the route holds bodies of this size: else the head would depend on when they came.
    std::optional<std::uint64_t> whole_body;
    const std::uint64_t held_max = waits_for_continue() ? 0 : x_.decision.route->buffer;
    if (held_max > 0 && batch.done && client_.trailers().empty() &&
        batch.content_bytes <= held_max) {
        whole_body = batch.content_bytes;
    }
    if (x_.upstream->is_rewritten) whole_body = batch.content_bytes;
    write_request_head(x_, x_.upstream->stream.server().authority(), whole_body);
    const IoStatus status = x_.upstream->stream.send(batch, client_.trailers());
    if (!x_.upstream->stream.is_too_large()) x_.relay.reached = Reached::upstream;
    if (status != IoStatus::would_block) {
        // Sent or lost: the client's next request begins behind it.
        client_.drop_body(batch);
        batch = {};
        if (status != IoStatus::ok) return why_unsent();
        if (client_.is_body_done()) {
            answer_sleeper_.allow(response_timeout_);
            if (is_held_ && !may_follow_) forget_body();
            return Fault::none;
        }
    }
    has_passed_on_ = has_passed_on_ || !client_.is_body_done();
    // The coroutine ends what this write began, then goes on.
    batch_ = std::make_unique<BodyBatch>(batch);
    may_send_ = !waits_for_continue() || x_.relay.bytes_received > 0;
    answer_sleeper_.allow_forever();
    spawn_vital(worker_.executor, run(*this));
    return Fault::none;
}

void Upload::end_attempts() {
    may_follow_ = false;
    if (is_held_ && is_complete()) forget_body();
}

// All of it was sent, or what was held of it. It takes none of the room for bodies while the server
// works on its answer.
void Upload::forget_body() {
    is_held_ = false;
    has_passed_on_ = true;
    if (x_.inspected != nullptr) x_.inspected->text = {};
    x_.upstream->forget_held_body();
    give_back_held_bytes();
}

void Upload::go_on() {
    may_send_ = true;
    x_.upstream->upload_sleeper.wakeup().wake_later();
}

Task<> Upload::end() {
    cancelled_ = true;
    x_.upstream->stream.cancel();
    x_.upstream->upload_sleeper.wakeup().wake_later();
    while (state_ == State::running) co_await answer_sleeper_.sleep();
}

// Takes what has come of the body, and checks the bound of the whole body.
BodyBatch Upload::take_body(Fault& fault) {
    const auto& bounds = x_.config().limits_on_requests;
    BodyBatch batch = client_.take_body({bounds.header_bytes, bounds.headers});
    x_.relay.bytes_received += batch.content_bytes;
    // The announced length counts, so that the body need not arrive first.
    const std::uint64_t bytes_max = x_.decision.route->body_bytes;
    if (x_.relay.bytes_received > bytes_max ||
        client_.body_announced() > bytes_max - x_.relay.bytes_received) {
        fault = Fault::body_too_large;
    } else if (batch.bad) {
        fault = Fault::bad_body;
    }
    if (batch.done) filter_request_trailers(x_, client_.trailers());
    return batch;
}

void Upload::rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
}

Task<> Upload::run(Upload& self) {
    self.state_ = State::running;
    try {
        self.fault_ = co_await self.send_body();
    } catch (...) {
        self.failure_ = std::current_exception();
        self.fault_ = Fault::client_left;  // no answer; rethrow() has the reason
    }
    self.state_ = self.fault_ == Fault::none ? State::idle : State::failed;
    if (self.is_held_ && !self.may_follow_ && self.is_complete()) self.forget_body();
    // The exchange may be gone before the client's connection is.
    self.client_.forget_wakeup();
    self.has_ended_ = true;
    self.answer_sleeper_.wakeup().wake_later();
}

Task<Fault> Upload::send_body() {
    BodyBatch batch = *std::exchange(batch_, nullptr);
    IoStatus status = IoStatus::would_block;
    for (unsigned portions = 1;; ++portions) {
        if (status == IoStatus::would_block) {
            status = co_await send_rest();
        }
        // Sent or lost: the client's next request begins behind it.
        client_.drop_body(batch);
        // The upstream may have answered all the same, and then its answer counts.
        if (status != IoStatus::ok) co_return why_unsent();
        if (client_.is_body_done()) co_return Fault::none;
        if (is_held_) forget_body();  // was the first portion
        if (portions % kPortionsATurn == 0) co_await x_.upstream->upload_sleeper.yield();
        // A client that waits for 100 Continue would hold a pipe for nothing.
        if (may_send_ && client_.spliceable() >= SplicePipe::kBytesMin &&
            x_.upstream->stream.can_send_spliced()) {
            const Fault fault = co_await splice_body();
            if (fault != Fault::none) co_return fault;
        }
        for (;;) {
            Fault fault = Fault::none;
            batch = take_body(fault);
            if (fault != Fault::none) co_return fault;
            if (batch.count > 0 || batch.done) break;
            client_.drop_body(batch);
            fault = co_await more_of_body(x_.upstream->upload_sleeper);
            wait_.end();
            if (fault != Fault::none) co_return fault;
        }
        status = x_.upstream->stream.send(batch, client_.trailers());
    }
}

// Sends all but the end of a long body, through a pipe. Without a pipe it does nothing, and the
// body is copied. take_body() has compared the announced length with the route's bound.
Task<Fault> Upload::splice_body() {
    Sleeper& sleeper = x_.upstream->upload_sleeper;
    SplicePipe pipe(worker_.pipes);
    std::size_t bytes_of_turn = 0;
    while (pipe.is_open() && client_.spliceable() > 0) {
        const Fault fault = co_await more_of_body(sleeper, &pipe);
        wait_.end();
        if (fault != Fault::none) co_return fault;
        const std::size_t bytes = pipe.size();
        if (pipe.empty()) break;
        x_.relay.bytes_received += bytes;
        IoStatus status = x_.upstream->stream.send(pipe);
        if (status == IoStatus::would_block) {
            status = co_await send_rest();
        }
        if (status != IoStatus::ok) co_return why_unsent();
        bytes_of_turn += bytes;
        if (bytes_of_turn < kBytesATurn) continue;
        bytes_of_turn = 0;
        co_await sleeper.yield();
    }
    co_return Fault::none;
}

// Meanwhile the client is not read from, and the coroutine that waits for the answer learns if it
// leaves.
Task<IoStatus> Upload::send_rest() {
    if (client_.has_hung_up(answer_sleeper_.wakeup())) answer_sleeper_.wakeup().wake_later();
    return x_.upstream->stream.send_rest(x_.upstream->upload_sleeper, response_timeout_);
}

Fault Upload::why_unsent() {
    if (!x_.upstream->stream.is_too_large()) return Fault::upstream_broken;
    x_.decision.fault_detail = "The header or trailer section is larger than the upstream takes.";
    return Fault::head_too_large;
}

Task<Fault> Upload::more_of_body(Sleeper& sleeper, SplicePipe* pipe) {
    // The client waits for 100 Continue: the upstream has to send that, or an answer.
    if (!may_send_) sleeper.allow(response_timeout_);
    bool is_conversing = false;
    struct Reading {
        explicit Reading(bool& flag) : is_on(flag) { is_on = true; }
        ~Reading() { is_on = false; }
        bool& is_on;
    } const reading(is_reading_);
    for (;;) {
        if (cancelled_) co_return Fault::client_left;
        switch (pipe != nullptr ? client_.read_body(*pipe, sleeper.wakeup())
                                : client_.read_body(sleeper.wakeup())) {
            case client::BodyInput::more:
                may_send_ = true;  // RFC 9110 section 10.1.1: clients may give up waiting
                co_return Fault::none;
            case client::BodyInput::too_long:
                co_return Fault::bad_body;
            case client::BodyInput::left:
                co_return Fault::client_left;
            case client::BodyInput::nothing:
                break;
        }
        const bool lacks_room = may_send_ && client_.lacks_room();
        if (is_conversing && lacks_room) {
            // The silence of a conversation before this does not count.
            wait_.end();
            is_conversing = false;
        }
        if (is_conversation(x_.relay) && !is_conversing && !lacks_room) {
            // The call may have become a conversation while this coroutine slept.
            is_conversing = true;
            if (rate_.is_held_back()) wait_.end();
            sleeper.allow(x_.decision.route->stream_idle);
        } else if (may_send_ && !is_conversing) {
            if (!wait_.go_on(sleeper)) co_return Fault::body_timeout;
        } else if (sleeper.expired()) {
            co_return may_send_ ? Fault::body_timeout : Fault::upstream_timeout;
        }
        co_await sleeper.sleep();
    }
}

bool Upload::has_callers_deadline() const {
    return response_timeout_ < x_.decision.route->response_timeout;
}

}  // namespace tidegate::proxy
