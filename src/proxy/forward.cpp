#include "proxy/forward.hpp"

#include <exception>
#include <string_view>
#include <utility>

#include "proxy/forwarding.hpp"
#include "proxy/upgrade.hpp"

namespace tidegate::proxy {

namespace {

// RFC 9110 section 9.2.2; TRACE never comes here.
bool is_idempotent(std::string_view method) {
    return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" ||
           method == "OPTIONS";
}

}  // namespace

Task<Fault> Forwarding::run() {
    const Fault bad_upgrade = check_upgrade(x_);
    if (bad_upgrade != Fault::none) co_return bad_upgrade;
    if (needs_http2() && !pool_.settings().has_http2()) co_return Fault::upstream_no_grpc;
    if (x_.facts.is_http2 && x_.facts.peer.trusted) client_.count_body_for(active_.key());
    // With its request, or while the store decided. No upload runs yet that could tell.
    const bool has_left = client_.is_body_done() ? client_.has_left(sleeper_.wakeup())
                                                 : client_.has_hung_up(sleeper_.wakeup());
    if (has_left) co_return Fault::client_left;
    const bool idempotent = is_idempotent(x_.facts.head.method);
    if (upload_.needs_hold(idempotent || pool_.may_refuse_unprocessed())) {
        const Fault fault = co_await upload_.hold();
        if (fault != Fault::none) co_return fault;
    }
    // The server may just have closed a connection that was idle. A request that got no answer and
    // does no harm twice goes once more, on a new connection.
    const bool repeatable = idempotent && upload_.is_repeatable();
    if (!pool_.admit(active_)) co_return Fault::upstream_exhausted;
    const Fault no_server = choose();
    if (no_server != Fault::none) co_return no_server;
    // A connection that becomes a tunnel is lost to the pool.
    if (!x_.relay.is_upgrade && pool_.take_idle(*server_, stream_)) {
        sent_ = steady_now();
        begin_attempt(sent_);
    }
    for (;;) {
        Fault fault = Fault::none;
        if (!stream_) {
            fault = co_await connect();
            if (fault != Fault::none) co_return fault;
            sent_ = steady_now();
        }
        if (x_.relay.is_upgrade) stream_.allow_switch();
        fault = upload_.begin();
        if (fault == Fault::none) fault = co_await converse();
        if (upload_.is_running()) co_await upload_.end();
        upload_.rethrow();
        if (fault == Fault::none && stream_) finish();
        // Without the stream there is nothing to end at the server: it is a tunnel's now, or the
        // answer had come whole.
        if (fault == Fault::none || !stream_) co_return fault;
        if (stream_.is_evicted()) {
            const bool can_answer = x_.relay.status == 0 && client_.is_open();
            fault = can_answer ? Fault::body_made_room : Fault::answer_made_room;
        }
        const Again again = why_again(fault);
        if (may_go_again(again, repeatable)) {
            seat_ = pool_.keep_seat(stream_);
            if (x_.trace != nullptr) x_.trace->fail_try(fault);
            if (again != Again::stale) turn_elsewhere();
            needs_fresh_ = again != Again::refused;
            continue;
        }
        if (again == Again::unprocessed || again == Again::refused) fault = Fault::upstream_refused;
        if (again == Again::no && fault == Fault::upstream_broken) fault = name_broken();
        pool_.abort(stream_);
        if (again != Again::stale) note_outcome(fault);
        if (ask::traits(fault).outcome == telemetry::Outcome::failed) {
            server_->count_failure();
            pool_.count_failure();
        }
        co_return fault;
    }
}

Forwarding::Again Forwarding::why_again(Fault fault) const {
    if (fault != Fault::upstream_broken) return Again::no;
    if (stream_.is_unprocessed()) return stream_.is_refused() ? Again::refused : Again::unprocessed;
    return stream_.is_reused() && !stream_.has_answered() ? Again::stale : Again::no;
}

// Only what adds to the load of a server asks the budget. The rest costs nothing, and so many
// requests at once may need it as were on a connection that the server ends.
bool Forwarding::may_go_again(Again why, bool repeatable) {
    // A server that ends each connection after some requests has taken others on it.
    constexpr int kUnprocessedMax = 10;
    if (why == Again::no) return false;
    if (why == Again::stale) return repeatable && !std::exchange(was_stale_, true);
    if (pool_.settings().retries == 0 || !upload_.is_repeatable()) return false;
    if (why == Again::refused) return !std::exchange(was_refused_, true) && may_retry();
    return ++unprocessed_ == 1 || (stream_.is_behind_others() && unprocessed_ <= kUnprocessedMax);
}

Task<> Forwarding::break_off() {
    if (upload_.is_running()) co_await upload_.end();
    if (stream_) pool_.abort(stream_);
}

// Reads from the client only while the upload does not: the upload notices by itself.
bool Forwarding::client_has_left() {
    if (!client_.is_open()) return true;  // the connection was cut off
    if (upload_.is_reading()) return false;
    if (upload_.is_running()) return client_.has_hung_up(sleeper_.wakeup());
    return upload_.fault() == Fault::client_left || client_.has_left(sleeper_.wakeup());
}

// Before the request is sent: while its body is incomplete, nothing is read ahead.
bool Forwarding::client_has_left_unsent() {
    return client_.is_body_done() ? client_has_left() : client_.has_hung_up(sleeper_.wakeup());
}

// Another request takes the connection now; this one ends when it wakes.
void Forwarding::on_evicted(void* self) {
    Forwarding& evicted = *static_cast<Forwarding*>(self);
    evicted.pool_.evict(evicted.stream_);
    // An answer that has begun can only be cut off.
    if (evicted.active_.answer.is_waiting()) evicted.client_.reset();
    evicted.sleeper_.wakeup().wake_later();
}

std::uint64_t Forwarding::answer_bytes(const void* self) {
    return static_cast<const Forwarding*>(self)->client_.taken_bytes();
}

// A body cut short leaves the connection somewhere inside it.
void Forwarding::finish() {
    pool_.group()->note_success(server_->shared());
    if (stream_.is_clean() && upload_.is_complete()) {
        pool_.give_back(stream_);
    } else {
        pool_.throw_away(stream_);
    }
}

Task<> forward(WorkerContext& worker, Exchange& exchange) {
    Forwarding forwarding(worker, exchange);
    std::exception_ptr failure;
    try {
        exchange.decision.fault = co_await forwarding.run();
    } catch (...) {
        failure = std::current_exception();
    }
    if (exchange.trace != nullptr && !exchange.decision.goes_on()) exchange.trace->end_try();
    if (!failure) co_return;
    co_await forwarding.break_off();
    std::rethrow_exception(failure);
}

}  // namespace tidegate::proxy
