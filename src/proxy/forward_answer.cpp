// How a request that was sent gets its answer: interim answers, the head, the body, and the end.
#include <algorithm>

#include "http/grpc.hpp"
#include "proxy/forward.hpp"
#include "proxy/heads.hpp"
#include "proxy/tunnel.hpp"

namespace tidegate::proxy {

namespace {

using http::BodyBatch;

// Bounds the interim answers to one request, as each begins the time for the answer anew.
constexpr int kInterimMax = 100;

}  // namespace

http::HeadBounds Forwarder::answer_bounds() const {
    const auto& bounds = x_.config().limits_on_requests;
    return {bounds.header_bytes, bounds.headers, bounds.header_bytes};
}

Task<Fault> Forwarder::converse() {
    using Head = upstream::Stream::Head;
    constexpr int kFinal = 200;
    constexpr int kSwitchingProtocols = 101;  // only where the request asked for it
    for (;;) {
        const Head head = stream_.read_head(answer_bounds(), sleeper_.wakeup());
        if (head == Head::broken) {
            // Trailers that the server does not take have ended the request from this side.
            co_return upload_.fault() == Fault::head_too_large ? upload_.fault()
                                                               : Fault::upstream_broken;
        }
        if (head == Head::complete) {
            if (stream_.head().status >= kFinal) co_return co_await relay_answer();
            if (stream_.head().status == kSwitchingProtocols) co_return co_await accept_switch();
            const Fault fault = co_await relay_interim();
            if (fault != Fault::none) co_return fault;
            continue;
        }
        if (upload_.fault() != Fault::none && upload_.fault() != Fault::upstream_broken) {
            co_return upload_.fault();
        }
        if (client_has_left()) co_return Fault::client_left;
        if (sleeper_.expired()) co_return Fault::upstream_timeout;
        if (upload_.take_end()) sleeper_.allow(upload_.response_timeout());
        co_await sleeper_.sleep();
    }
}

// The fault that follows from `status` of sending to the client.
Fault Forwarder::unsent(IoStatus status) const {
    if (status == IoStatus::ok) return Fault::none;
    return client_.is_taking() ? Fault::client_left : Fault::client_not_reading;
}

Task<Fault> Forwarder::relay_interim() {
    constexpr int kContinue = 100;
    if (++interim_answers_ > kInterimMax) co_return Fault::upstream_broken;
    if (client_.takes_interim()) {
        write_interim_head(client_, stream_.head());
        const IoStatus status = client_.send_interim();
        const Fault fault = status == IoStatus::would_block ? co_await send_rest() : unsent(status);
        if (fault != Fault::none) {
            stream_.drop_interim();  // the final head may be read on
            co_return fault;
        }
    }
    if (stream_.head().status == kContinue) upload_.go_on();
    if (!upload_.is_running()) sleeper_.allow(upload_.response_timeout());
    stream_.drop_interim();
    co_return Fault::none;
}

// Whether the gRPC status may still come, as far as the head says. The answer decides, not the
// request: a server of gRPC takes calls that do not look like calls.
bool Forwarder::may_end_with_grpc_status() const {
    const http::Fields& fields = stream_.head().fields;
    return std::any_of(fields.begin(), fields.end(), [](const http::Field& field) {
        return field.id == http::FieldName::content_type &&
               http::may_end_with_grpc_status(field.value);
    });
}

// The trailers have the status, or the head of an answer without messages.
void Forwarder::note_grpc_status() {
    auto status = http::grpc_status_in(stream_.trailers());
    if (!status) status = http::grpc_status_in(stream_.head().fields);
    if (status) x_.relay.grpc_status = x_.relay.upstream_grpc_status = *status;
}

// From now on the request goes to no other server, so it leaves the retry budget: an answer that
// takes hours must not keep others from a retry.
void Forwarder::note_answered() {
    x_.relay.reached = Reached::answer;
    x_.relay.upstream_status = stream_.head().status;
    if (needs_grpc_status() && (x_.relay.is_grpc || may_end_with_grpc_status())) {
        x_.relay.upstream_grpc_status = limit::AnswerStatus::kGrpcUnknown;
    }
    x_.relay.upstream_time = steady_now() - sent_;
    pool_.count_answer(x_.relay.upstream_time);
    retry_.reset();
}

// In flight at its server, with the seat of its connection, a tunnel counts as any other request
// for as long as it lasts; the forwarding is over.
Task<Fault> Forwarder::accept_switch() {
    if (!is_upgrade_accepted(x_)) co_return Fault::upstream_broken;
    // The server has not even got all of the request.
    if (upload_.is_running() || upload_.fault() != Fault::none) co_return Fault::upstream_broken;
    note_answered();
    pool_.group()->note_success(server_->shared());
    const IoStatus status = co_await pass_on_switch(worker_, x_);
    if (status != IoStatus::ok) co_return unsent(status);
    x_.tunnel = pool_.open_tunnel(stream_, active_);
    is_in_flight_ = false;  // the tunnel has that count now
    co_return Fault::none;
}

Task<Fault> Forwarder::relay_answer() {
    note_answered();
    if (passes_for_tunnel(x_, stream_.head().status)) co_return Fault::upgrade_ignored;
    stream_.begin_body();
    if (x_.answer_cost != nullptr) x_.answer_cost->begin(stream_.head(), stream_.framing());
    upload_.end_attempts();
    // A body that is still coming in could not be distinguished from the next request.
    client_.keep_alive_if(upload_.is_complete());
    for (unsigned portions = 1;; ++portions) {
        const BodyBatch batch = stream_.take_body(trailer_bounds());
        if (batch.bad && x_.relay.status == 0) co_return Fault::upstream_broken;
        const BodyBatch& passed = x_.answer_cost != nullptr ? x_.answer_cost->read(batch) : batch;
        if (batch.done) {
            x_.relay.reached = Reached::end;
            filter_answer_trailers(x_, stream_.trailers());
            if (needs_grpc_status()) note_grpc_status();
        }
        if (x_.relay.status == 0) {
            write_answer_head(x_, stream_.head(), stream_.framing(), worker_.date.line());
            x_.relay.status = stream_.head().status;  // the client sees the answer now
        }
        const IoStatus status = client_.send(passed, stream_.trailers());
        Fault fault = status == IoStatus::would_block ? co_await send_rest(&batch) : unsent(status);
        stream_.drop_body(batch);
        if (fault != Fault::none) {
            if (!batch.done && x_.relay.reached == Reached::end) read_what_came_ahead();
            co_return fault;
        }
        x_.relay.bytes_sent += passed.content_bytes;
        if (batch.bad) co_return Fault::answer_cut_off;
        if (batch.done) co_return Fault::none;
        if (portions % kPortionsATurn == 0) co_await sleeper_.yield();
        if (stream_.spliceable() >= SplicePipe::kBytesMin && may_splice()) {
            fault = co_await splice_answer();
            if (fault != Fault::none) co_return fault;
        }
        if (batch.count == BodyBatch::kPiecesMax) continue;  // there may be more that has come
        fault = co_await more_of_answer();
        if (fault != Fault::none) co_return fault;
    }
}

// All of the answer had come before its client took it, and the client does not: what it cost is
// there to read.
void Forwarder::read_what_came_ahead() {
    if (x_.answer_cost == nullptr) return;
    for (;;) {
        const BodyBatch batch = stream_.take_body(trailer_bounds());
        x_.answer_cost->read(batch);
        stream_.drop_body(batch);
        if (batch.done) return;
        if (batch.bad || batch.count == 0) break;
    }
    x_.relay.reached = Reached::answer;
}

// The client has left, or takes nothing, and a policy wants to know what the request has cost all
// the same (`settle_after_leaving`).
bool Forwarder::may_read_on(Fault fault) const {
    const bool is_gone = fault == Fault::client_left || fault == Fault::client_not_reading;
    return is_gone && x_.answer_cost != nullptr && stream_ &&
           x_.answer_cost->time_after_leaving().count() > 0 && upload_.is_complete() &&
           x_.relay.reached != Reached::end;
}

// Reads the answer to its end, without a client, for so long as the policies give.
Task<> Forwarder::read_on() {
    const SteadyTime last = steady_now() + x_.answer_cost->time_after_leaving();
    if (x_.relay.reached != Reached::answer && !co_await read_head_on(last)) co_return;
    for (unsigned portions = 1;; ++portions) {
        const BodyBatch batch = stream_.take_body(trailer_bounds());
        x_.answer_cost->read(batch);
        stream_.drop_body(batch);
        if (batch.done) x_.relay.reached = Reached::end;
        if (batch.done || batch.bad) co_return;
        if (portions % kPortionsATurn == 0) co_await sleeper_.yield();
        if (batch.count == BodyBatch::kPiecesMax) continue;  // there may be more that has come
        using Body = upstream::Stream::Body;
        for (;;) {
            const Body body = stream_.read_body(sleeper_.wakeup());
            if (body == Body::cut_off) co_return;
            if (body != Body::nothing) break;
            if (!co_await sleep_on(last)) co_return;
        }
    }
}

// False: the head of the final answer does not come.
Task<bool> Forwarder::read_head_on(SteadyTime last) {
    using Head = upstream::Stream::Head;
    constexpr int kFinal = 200;
    for (;;) {
        const Head head = stream_.read_head(answer_bounds(), sleeper_.wakeup());
        if (head == Head::broken) co_return false;
        if (head == Head::complete && stream_.head().status >= kFinal) break;
        if (head == Head::complete) {
            if (++interim_answers_ > kInterimMax) co_return false;
            stream_.drop_interim();
        } else if (!co_await sleep_on(last)) {
            co_return false;
        }
    }
    note_answered();
    stream_.begin_body();
    x_.answer_cost->begin(stream_.head(), stream_.framing());
    co_return true;
}

// Sleeps until something comes from the upstream. False: the time is over, or the process stops.
Task<bool> Forwarder::sleep_on(SteadyTime last) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(last - steady_now());
    if (left.count() <= 0 || client_.is_cut_off()) co_return false;
    sleeper_.allow(left);
    co_await sleeper_.sleep();
    co_return true;
}

// A cost may have to be read from the bytes.
bool Forwarder::may_splice() {
    return client_.can_send_spliced() &&
           (x_.answer_cost == nullptr || !x_.answer_cost->reads_body());
}

// Relays all but the end of a long body, through a pipe. Without a pipe it does nothing, and the
// body is copied.
Task<Fault> Forwarder::splice_answer() {
    SplicePipe pipe(worker_.pipes);
    std::size_t bytes_of_turn = 0;
    while (pipe.is_open() && stream_.spliceable() > 0) {
        Fault fault = co_await more_of_answer(&pipe);
        if (fault != Fault::none) co_return fault;
        const std::size_t bytes = pipe.size();
        if (pipe.empty()) break;
        const IoStatus status = client_.send(pipe);
        fault = status == IoStatus::would_block ? co_await send_rest() : unsent(status);
        if (fault != Fault::none) co_return fault;
        x_.relay.bytes_sent += bytes;
        bytes_of_turn += bytes;
        if (bytes_of_turn < kBytesATurn) continue;
        bytes_of_turn = 0;
        co_await sleeper_.yield();
    }
    co_return Fault::none;
}

// A client that does not take the rest keeps the connection to the upstream busy, unless all of the
// answer has come.
Task<Fault> Forwarder::send_rest(const BodyBatch* batch) {
    active_.answer.begin_wait(steady_now(), client_.taken_bytes());
    client_.begin_rest(timeouts().client_write);
    Fault fault = Fault::none;
    for (;;) {
        const IoStatus status = client_.try_rest();
        if (status != IoStatus::would_block) {
            fault = unsent(status);
            break;
        }
        const bool is_whole = x_.relay.reached == Reached::end;
        if (!is_whole && client_has_left()) {
            fault = Fault::client_left;
            break;
        }
        if (batch != nullptr && stream_ && !batch->bad &&
            (is_whole || stream_.read_ahead(sleeper_.wakeup()))) {
            give_back_early(*batch);
        }
        co_await sleeper_.sleep();
    }
    active_.answer.end_wait(steady_now());
    co_return fault;
}

// Gives the connection back to the pool: all of the answer has come, and only waits for its client.
// The bytes stay with the stream, within what the thread may hold.
void Forwarder::give_back_early(const BodyBatch& batch) {
    if (!upload_.is_complete()) return;
    const std::uint64_t bytes = stream_.room();
    if (worker_.held_bytes > 0 && worker_.held_bytes + bytes > kHeldBytesMax) return;
    x_.relay.reached = Reached::end;
    held_bytes_ = bytes;
    worker_.held_bytes += bytes;
    if (!stream_.trailers().empty()) {
        kept_trailers_ = std::make_unique<KeptTrailers>();
        kept_trailers_->fields = stream_.trailers();
        http::keep_in(kept_trailers_->text, kept_trailers_->fields);
        client_.move_trailers(kept_trailers_->fields);
    }
    pool_.group()->note_success(server_->shared());
    if (stream_.is_clean_behind(batch)) {
        pool_.give_back(stream_);
    } else {
        pool_.throw_away(stream_);
    }
    if (active_.is_linked()) active_.unlink();
    end_attempt();
}

// `stream_idle` bounds one silence, not the answer: each byte begins it anew. Time in which the
// client takes nothing is bounded by `client_write` instead.
Task<Fault> Forwarder::more_of_answer(SplicePipe* pipe) {
    using Body = upstream::Stream::Body;
    sleeper_.allow(route().stream_idle);
    for (;;) {
        const Body body = pipe != nullptr ? stream_.read_body(*pipe, sleeper_.wakeup())
                                          : stream_.read_body(sleeper_.wakeup());
        if (body == Body::more || body == Body::end) co_return Fault::none;
        if (body == Body::cut_off) co_return Fault::answer_cut_off;
        if (client_has_left()) co_return Fault::client_left;
        if (sleeper_.expired()) co_return Fault::answer_stalled;
        client_.note_all_taken();
        co_await sleeper_.sleep();
    }
}

}  // namespace tidegate::proxy
