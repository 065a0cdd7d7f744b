#include "proxy/forward.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <string_view>
#include <utility>

#include "ask/identifiers.hpp"
#include "balance/retry_budget.hpp"
#include "base/described_enum.hpp"
#include "proxy/tunnel.hpp"

namespace tidegate::proxy {

namespace {

using std::chrono::milliseconds;

// RFC 9110 section 9.2.2; TRACE never comes here.
bool is_idempotent(std::string_view method) {
    return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" ||
           method == "OPTIONS";
}

constexpr EnumTable<upstream::ConnectFault, Fault> kConnectFaults(
    {{upstream::ConnectFault::none, Fault::none},
     {upstream::ConnectFault::unreachable, Fault::upstream_unreachable},
     {upstream::ConnectFault::refused, Fault::upstream_refused},
     {upstream::ConnectFault::timeout, Fault::connect_timeout},
     {upstream::ConnectFault::tls, Fault::upstream_tls},
     {upstream::ConnectFault::no_http2, Fault::upstream_no_http2},
     {upstream::ConnectFault::client_left, Fault::client_left}});

}  // namespace

Task<Fault> Forwarder::run() {
    const Fault bad_upgrade = check_upgrade(x_);
    if (bad_upgrade != Fault::none) co_return bad_upgrade;
    if (needs_http2() && !pool_.settings().has_http2()) co_return Fault::upstream_no_grpc;
    if (x_.facts.is_http2 && x_.facts.peer.trusted) client_.count_body_for(active_.key());
    // It may have left with its request, or while the store decided. No upload runs yet that would
    // notice.
    const bool has_left = client_.is_body_done() ? client_.has_left(sleeper_.wakeup())
                                                 : client_.has_hung_up(sleeper_.wakeup());
    if (has_left) co_return Fault::client_left;
    const bool idempotent = is_idempotent(x_.facts.head.method);
    if (upload_.needs_hold(idempotent || pool_.may_refuse_unprocessed())) {
        const Fault fault = co_await upload_.hold();
        if (fault != Fault::none) co_return fault;
    }
    // The server may just have closed a connection that was idle. A request that got no answer and
    // does no harm twice is sent once more, on a new connection.
    is_repeatable_ = idempotent && upload_.is_repeatable();
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
        fault = upload_.begin(may_need_body_again());
        if (fault == Fault::none) fault = co_await converse();
        if (upload_.is_running()) co_await upload_.end();
        upload_.rethrow();
        if (may_read_on(fault)) co_await read_on();
        if (fault == Fault::none && stream_) finish();
        // Without the stream there is nothing to end at the server: it is a tunnel's now, or the
        // answer had come whole.
        if (fault == Fault::none || !stream_) co_return fault;
        if (stream_.is_evicted()) {
            const bool can_answer = x_.relay.status == 0 && client_.is_open();
            fault = can_answer ? Fault::body_made_room : Fault::answer_made_room;
        }
        const RetryReason reason = retry_reason(fault);
        if (may_send_again(reason)) {
            seat_ = pool_.keep_seat(stream_);
            if (x_.trace != nullptr) x_.trace->fail_try(fault);
            if (reason != RetryReason::stale) turn_elsewhere();
            needs_fresh_ = reason != RetryReason::refused;
            continue;
        }
        if (reason == RetryReason::unprocessed || reason == RetryReason::refused)
            fault = Fault::upstream_refused;
        if (reason == RetryReason::none && fault == Fault::upstream_broken) fault = name_broken();
        pool_.abort(stream_);
        if (reason != RetryReason::stale) note_outcome(fault);
        if (ask::traits(fault).outcome == telemetry::Outcome::failed) {
            server_->count_failure();
            pool_.count_failure();
        }
        co_return fault;
    }
}

Forwarder::RetryReason Forwarder::retry_reason(Fault fault) const {
    if (fault != Fault::upstream_broken) return RetryReason::none;
    if (stream_.is_unprocessed())
        return stream_.is_refused() ? RetryReason::refused : RetryReason::unprocessed;
    return stream_.is_reused() && !stream_.has_answered() ? RetryReason::stale : RetryReason::none;
}

// Only retries that add to the load of a server ask the budget. Others cost nothing, and all
// requests on a connection that the server ends may need one at once.
bool Forwarder::may_send_again(RetryReason reason) {
    // A server that ends each connection after some requests has taken others on it.
    constexpr int kUnprocessedMax = 10;
    if (reason == RetryReason::none) return false;
    if (reason == RetryReason::stale) return is_repeatable_ && !std::exchange(was_stale_, true);
    if (pool_.settings().retries == 0 || !upload_.is_repeatable()) return false;
    if (reason == RetryReason::refused) return !std::exchange(was_refused_, true) && may_retry();
    return ++unprocessed_ == 1 || (stream_.is_behind_others() && unprocessed_ <= kUnprocessedMax);
}

// Whether a reason may come up, on this connection, to send the request once more after all of it
// was sent.
bool Forwarder::may_need_body_again() const {
    if (stream_.is_http2() && pool_.settings().retries > 0) return true;
    return is_repeatable_ && !was_stale_ && stream_.is_reused();
}

Task<> Forwarder::break_off() {
    if (upload_.is_running()) co_await upload_.end();
    if (stream_) pool_.abort(stream_);
}

// Reads from the client only while the upload does not: the upload notices by itself.
bool Forwarder::client_has_left() {
    if (!client_.is_open()) return true;  // the connection was cut off
    if (upload_.is_reading()) return false;
    if (upload_.is_running()) return client_.has_hung_up(sleeper_.wakeup());
    return upload_.fault() == Fault::client_left || client_.has_left(sleeper_.wakeup());
}

// The same before the request is sent: while its body is incomplete, nothing is read ahead.
bool Forwarder::client_has_left_unsent() {
    return client_.is_body_done() ? client_has_left() : client_.has_hung_up(sleeper_.wakeup());
}

// Another request takes the connection now; this one ends when it wakes.
void Forwarder::on_evicted(void* self) {
    Forwarder& evicted = *static_cast<Forwarder*>(self);
    evicted.pool_.evict(evicted.stream_);
    // An answer that has begun can only be cut off.
    if (evicted.active_.answer.is_waiting()) evicted.client_.reset();
    evicted.sleeper_.wakeup().wake_later();
}

std::uint64_t Forwarder::answer_bytes(const void* self) {
    return static_cast<const Forwarder*>(self)->client_.taken_bytes();
}

// A body cut short leaves the connection somewhere inside it.
void Forwarder::finish() {
    pool_.group()->note_success(server_->shared());
    if (stream_.is_clean() && upload_.is_complete()) {
        pool_.give_back(stream_);
    } else {
        pool_.throw_away(stream_);
    }
}

// The first server to try.
Fault Forwarder::choose() {
    if (pool_.settings().balance == config::Balance::hash) {
        key_ = ask::hash_of(pool_.settings().hash_key, x_.config(), x_.facts, x_.decision,
                            x_.upstream->hash_key);
    }
    upstream::Server* const server = pool_.choose(key_, unreachable_, needs_http2());
    if (server == nullptr) {
        return pool_.has_server(needs_http2()) ? Fault::upstream_down : Fault::upstream_unreachable;
    }
    turn_to(*server);
    return Fault::none;
}

void Forwarder::turn_to(upstream::Server& server) {
    end_attempt();
    server_ = &server;
    x_.relay.server = &server;
}

// Turns to another server. If none may be chosen, the same one may take the request on another
// connection.
void Forwarder::turn_elsewhere() {
    balance::Tried tried = unreachable_;
    tried.add(server_->shared().state);
    if (!pool_.has_untried(tried, needs_http2())) return;
    upstream::Server* const next = pool_.choose(key_, tried, needs_http2());
    if (next != nullptr) turn_to(*next);
}

// After a server that could not be reached. False: the request has tried all there are, or as many
// as `retries` allows.
bool Forwarder::turn_to_untried() {
    if (retries_left_ == 0 || !pool_.has_untried(unreachable_, needs_http2())) return false;
    upstream::Server* const next = pool_.choose(key_, unreachable_, needs_http2());
    if (next == nullptr || unreachable_.has(next->shared().state)) return false;
    --retries_left_;
    turn_to(*next);
    return true;
}

// An attempt that another one may follow has half of what is left: so the last one has time, too,
// and addresses that take no connection do not add up.
milliseconds Forwarder::connect_patience() const {
    if (retries_left_ == 0) return connect_left_;
    balance::Tried tried = unreachable_;
    tried.add(server_->shared().state);
    const bool may_follow = pool_.has_untried(tried, needs_http2());
    return may_follow ? std::max(connect_left_ / 2, milliseconds{1}) : connect_left_;
}

// The fault of a connection that broke before the answer: why, if the pool knows.
Fault Forwarder::name_broken() {
    if (pool_.note_tls_failure(stream_)) return Fault::upstream_tls;
    return pool_.note_no_http2(stream_) ? Fault::upstream_no_http2 : Fault::upstream_broken;
}

// The request is about to be sent to the server, or a connection to be made for it.
void Forwarder::begin_attempt(SteadyTime now) {
    end_attempt();
    server_->begin_request(pool_.is_counted());
    is_in_flight_ = true;
    ++x_.relay.tries;
    if (x_.trace != nullptr) x_.trace->begin_try(x_.relay.server, now);
}

void Forwarder::end_attempt() {
    if (!std::exchange(is_in_flight_, false)) return;
    server_->end_request(pool_.is_counted());
}

// False if a fifth of the upstream's requests are retries already: retries must not add to the load
// of a failing upstream.
bool Forwarder::may_retry() {
    balance::RetryBudget& budget = pool_.group()->retries();
    // Counting the requests in flight costs a look at each server.
    const bool is_below_min = budget.retries() < balance::RetryBudget::kMin;
    if (!retry_) retry_ = budget.try_begin(is_below_min ? 0 : pool_.count_active());
    return retry_.has_value();
}

// Notes the faults that count against the server. A status does not: applications mean a 500. Nor
// does the end of an answer that had begun well: the streams of many servers only end when their
// clients leave.
void Forwarder::note_outcome(Fault fault) {
    upstream::SharedServer& server = server_->shared();
    switch (fault) {
        case Fault::upstream_timeout:
            // A millisecond says nothing about the server, or any client could have it ejected.
            if (upload_.has_callers_deadline()) return;
            [[fallthrough]];
        case Fault::answer_stalled:
            return pool_.group()->note_failure(server, balance::ServerFailure::timeout);
        case Fault::upstream_broken:
        case Fault::answer_cut_off:
            return pool_.group()->note_failure(server, balance::ServerFailure::broken);
        default:
            if (x_.relay.reached >= Reached::answer) pool_.group()->note_success(server);
    }
}

// A server that was never reached has got nothing, so any request may try the next one. It keeps
// its seat meanwhile, and does not wait again.
Task<Fault> Forwarder::connect() {
    using ConnectFault = upstream::Pool::ConnectFault;
    upstream::Seat seat = seat_ ? std::move(seat_) : pool_.take_seat(active_);
    if (!seat) {
        const Fault fault = co_await wait_for_seat(seat);
        if (fault != Fault::none || stream_) co_return fault;
    }
    const std::function<bool()> has_left = [this] { return client_has_left_unsent(); };
    for (;;) {
        const SteadyTime began = steady_now();
        begin_attempt(began);
        const upstream::Pool::ConnectTerms terms{connect_patience(), needs_fresh_};
        const ConnectFault outcome =
            co_await pool_.connect(*server_, sleeper_, stream_, seat, has_left, terms);
        if (outcome == ConnectFault::none) co_return Fault::none;
        if (outcome == ConnectFault::client_left) co_return Fault::client_left;
        server_->count_failure();
        const Fault fault = kConnectFaults[outcome];
        // Timers fire a little late: that takes nothing from the attempts that follow.
        connect_left_ -=
            std::min(std::chrono::floor<milliseconds>(steady_now() - began), terms.patience);
        unreachable_.add(server_->shared().state);
        // Only a server that is there, and takes no requests, says that it has too much to do.
        const bool may_turn = outcome != ConnectFault::refused || may_retry();
        if (!may_turn || connect_left_ <= milliseconds{0}) co_return fault;
        if (!turn_to_untried()) co_return fault;
        if (x_.trace != nullptr) x_.trace->fail_try(fault);
        // An idle connection costs less than a new one, and a server may take only one at a time.
        if (x_.relay.is_upgrade || needs_fresh_) continue;
        if (!pool_.take_idle(*server_, stream_, seat)) continue;
        begin_attempt(steady_now());
        co_return Fault::none;
    }
}

// Waits in the queue, in turn with the requests of all threads. If a connection comes with the
// seat, the stream is open when this returns, perhaps to another server, and `seat` is empty.
Task<Fault> Forwarder::wait_for_seat(upstream::Seat& seat) {
    upstream::SeatWait wait = pool_.make_wait(sleeper_.wakeup(), active_);
    const SteadyTime began = steady_now();
    if (!pool_.begin_wait(wait)) co_return Fault::upstream_exhausted;
    Fault fault = Fault::none;
    sleeper_.allow(pool_.queue_wait());
    while (fault == Fault::none && !wait.accept()) {
        if (wait.is_pushed_out() || sleeper_.expired()) {
            fault = Fault::upstream_exhausted;
        } else if (client_has_left_unsent()) {
            fault = Fault::client_left;
        } else {
            co_await sleeper_.sleep();
        }
    }
    const SteadyTime ended = steady_now();
    const auto took = ended - began;
    x_.relay.queue_time += took;
    pool_.count_wait(took);
    if (fault != Fault::none) {
        pool_.leave_queue(wait);
        co_return fault;
    }
    seat = upstream::Seat(pool_.group()->seats());
    // The server may have become unhealthy meanwhile.
    if (upstream::Pool::is_out(*server_)) fault = choose();
    if (fault != Fault::none) {
        pool_.leave_queue(wait);
        co_return fault;
    }
    pool_.end_wait(wait, *server_, reuse(), stream_, seat);
    if (stream_) {
        turn_to(stream_.server());
        begin_attempt(ended);
    }
    co_return fault;
}

// A handshake gets a new connection, as it does where no request waits; so does a retry that needs
// one.
upstream::Pool::Reuse Forwarder::reuse() const {
    using Reuse = upstream::Pool::Reuse;
    if (x_.relay.is_upgrade || needs_fresh_) return Reuse::none;
    const bool is_bound = pool_.settings().balance == config::Balance::hash || x_.relay.is_grpc;
    return is_bound ? Reuse::own_server : Reuse::any_server;
}

Task<> forward(WorkerContext& worker, Exchange& exchange) {
    Forwarder forwarder(worker, exchange);
    std::exception_ptr failure;
    try {
        exchange.decision.fault = co_await forwarder.run();
    } catch (...) {
        failure = std::current_exception();
    }
    if (exchange.trace != nullptr && !exchange.decision.goes_on()) exchange.trace->end_try();
    if (!failure) co_return;
    co_await forwarder.break_off();
    std::rethrow_exception(failure);
}

}  // namespace tidegate::proxy
