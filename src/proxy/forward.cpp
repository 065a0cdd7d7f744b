#include "proxy/forward.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include <boost/container/static_vector.hpp>

#include "ask/identifiers.hpp"
#include "balance/retry_budget.hpp"
#include "proxy/heads.hpp"
#include "proxy/tunnel.hpp"
#include "proxy/upgrade.hpp"
#include "proxy/upload.hpp"

namespace tidegate::proxy {

namespace {

using ask::Fault;
using http::BodyBatch;
using http::BodyKind;

// Interim answers to one request; each begins the time for the answer anew, which has to end.
constexpr int kInterimMax = 100;

// RFC 9110 section 9.2.2; TRACE never comes here.
bool is_idempotent(std::string_view method) {
    return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" ||
           method == "OPTIONS";
}

// Servers that could not be reached; the configuration has at most ten retries.
using Tried = boost::container::static_vector<upstream::ServerPtr, 11>;

Fault fault_of_connecting(upstream::Pool::ConnectFault fault) {
    using ConnectFault = upstream::Pool::ConnectFault;
    switch (fault) {
        case ConnectFault::none:
            return Fault::none;
        case ConnectFault::timeout:
            return Fault::connect_timeout;
        case ConnectFault::tls:
            return Fault::upstream_tls;
        case ConnectFault::client_left:
            return Fault::client_left;
        case ConnectFault::unreachable:
            break;
    }
    return Fault::upstream_unreachable;
}

// One request and one upstream; lives in the frame of forward().
class Forwarding {
  public:
    Forwarding(WorkerContext& worker, Exchange& exchange)
        : worker_(worker),
          x_(exchange),
          client_(*exchange.client),
          sleeper_(client_.sleeper()),
          pool_(*exchange.generation->upstreams[exchange.decision.route->upstream]),
          stream_(exchange.upstream),
          active_(exchange.decision.client, exchange.config().client_ip.ipv6_prefixes,
                  &Forwarding::on_evicted, this),
          upload_(worker, exchange, active_.body) {}
    Forwarding(const Forwarding&) = delete;
    Forwarding& operator=(const Forwarding&) = delete;
    ~Forwarding() { end_attempt(); }

    Task<Fault> run();
    // After an exception: nothing is running when it returns.
    Task<> break_off();

  private:
    const config::Timeouts& timeouts() const { return x_.config().timeouts; }
    const config::Route& route() const { return *x_.decision.route; }
    http::TrailerBounds trailer_bounds() const {
        const auto& bounds = x_.config().limits_on_requests;
        return {bounds.header_bytes, bounds.headers};
    }
    http::HeadBounds answer_bounds() const;

    Fault choose();
    void turn_to(upstream::Server& server);
    void begin_attempt();
    void end_attempt();
    bool may_retry();
    Task<Fault> connect();
    Task<Fault> wait_for_seat(upstream::Seat& seat);
    void note_outcome(Fault fault);
    Task<Fault> converse();
    Task<Fault> relay_interim();
    Task<Fault> open_tunnel();
    void note_answered();
    Task<Fault> relay_answer();
    Task<Fault> more_of_answer();
    Task<IoStatus> send_rest();
    void finish();
    static void on_evicted(void* self);

    bool client_has_left();
    bool client_has_left_unsent();
    Fault unsent() const;

    WorkerContext& worker_;
    Exchange& x_;
    client::Stream& client_;
    Sleeper& sleeper_;
    upstream::Pool& pool_;
    upstream::Http1Stream& stream_;
    upstream::ActiveRequest active_;
    Upload upload_;
    std::optional<std::uint64_t> key_;    // that the server is chosen by
    upstream::Server* server_ = nullptr;  // the one whose turn it is; the relay holds it
    bool is_in_flight_ = false;           // there, and counted
    upstream::Seat seat_;                 // of a connection that is to be made anew
    std::optional<balance::RetryBudget::Retry> retry_;
    SteadyTime sent_{};
    int interim_answers_ = 0;
};

http::HeadBounds Forwarding::answer_bounds() const {
    const auto& bounds = x_.config().limits_on_requests;
    return {bounds.header_bytes, bounds.headers, bounds.header_bytes};
}

Task<Fault> Forwarding::run() {
    const Fault bad_upgrade = check_upgrade(x_);
    if (bad_upgrade != Fault::none) co_return bad_upgrade;
    const bool idempotent = is_idempotent(x_.facts.head.method);
    if (upload_.needs_hold(idempotent)) {
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
    if (!x_.relay.is_upgrade && pool_.take_idle(*server_, stream_)) begin_attempt();
    for (bool first = true;; first = false) {
        Fault fault = Fault::none;
        if (!stream_) fault = co_await connect();
        if (fault != Fault::none) co_return fault;
        sent_ = steady_now();
        if (x_.relay.is_upgrade) stream_.allow_switch();
        fault = upload_.begin();
        if (fault == Fault::none) fault = co_await converse();
        if (upload_.is_running()) co_await upload_.end();
        upload_.rethrow();
        if (fault == Fault::none) {
            finish();
            co_return fault;
        }
        if (stream_.is_evicted()) {
            const bool can_answer = x_.relay.status == 0 && client_.is_open();
            fault = can_answer ? Fault::body_made_room : Fault::answer_made_room;
        }
        const bool stale =
            stream_.is_reused() && fault == Fault::upstream_broken && !stream_.has_answered();
        if (stale && repeatable && first && may_retry()) {
            seat_ = pool_.keep_seat(stream_);
            continue;
        }
        if (!stale && fault == Fault::upstream_broken && pool_.note_tls_failure(stream_)) {
            fault = Fault::upstream_tls;
        }
        pool_.throw_away(stream_);
        if (!stale) note_outcome(fault);
        if (ask::traits(fault).outcome == telemetry::Outcome::failed) {
            server_->count_failure();
            pool_.count_failure();
        }
        co_return fault;
    }
}

// The first server to try.
Fault Forwarding::choose() {
    if (pool_.settings().balance == config::Balance::hash) {
        key_ = ask::hash_of(pool_.settings().hash_key, x_.config(), x_.facts, x_.decision,
                            x_.hash_key);
    }
    upstream::Server* const server = pool_.choose(key_);
    if (server == nullptr) {
        return pool_.has_server() ? Fault::upstream_down : Fault::upstream_unreachable;
    }
    turn_to(*server);
    return Fault::none;
}

void Forwarding::turn_to(upstream::Server& server) {
    end_attempt();
    server_ = &server;
    x_.relay.server = &server;
}

// The request is about to be sent to the server, or a connection to be made for it.
void Forwarding::begin_attempt() {
    end_attempt();
    server_->begin_request(pool_.is_counted());
    is_in_flight_ = true;
    ++x_.relay.tries;
}

void Forwarding::end_attempt() {
    if (std::exchange(is_in_flight_, false)) server_->end_request(pool_.is_counted());
}

// No, if a fifth of the upstream's requests are on a further attempt already: retries must not add
// to the load of a failing upstream.
bool Forwarding::may_retry() {
    balance::RetryBudget& budget = pool_.group()->retries();
    // Counting the requests in flight costs a look at each server.
    const bool is_below_min = budget.retries() < balance::RetryBudget::kMin;
    if (!retry_) retry_ = budget.try_begin(is_below_min ? 0 : pool_.count_active());
    return retry_.has_value();
}

// What the server did wrong. A status is not: applications mean a 500. Nor is what ended an answer
// that had begun well: the streams of many servers only end when their clients leave.
void Forwarding::note_outcome(Fault fault) {
    upstream::SharedServer& server = server_->shared();
    switch (fault) {
        case Fault::upstream_timeout:
        case Fault::answer_stalled:
            return pool_.group()->note_failure(server, balance::Failure::timeout);
        case Fault::upstream_broken:
        case Fault::answer_cut_off:
            return pool_.group()->note_failure(server, balance::Failure::broken);
        default:
            if (x_.relay.reached >= Reached::answer) pool_.group()->note_success(server);
    }
}

Task<> Forwarding::break_off() {
    if (upload_.is_running()) co_await upload_.end();
    if (stream_) pool_.throw_away(stream_);
}

// A server that was never reached has got nothing, so any request may try the next one. It keeps
// its seat meanwhile, and does not wait again.
Task<Fault> Forwarding::connect() {
    using ConnectFault = upstream::Pool::ConnectFault;
    upstream::Seat seat = seat_ ? std::move(seat_) : pool_.take_seat(active_);
    if (!seat) {
        const Fault fault = co_await wait_for_seat(seat);
        if (fault != Fault::none || stream_) co_return fault;
    }
    Tried tried;
    const std::function<bool()> has_left = [this] { return client_has_left_unsent(); };
    for (int retries = pool_.settings().retries;; --retries) {
        begin_attempt();
        const ConnectFault outcome =
            co_await pool_.connect(*server_, sleeper_, stream_, seat, has_left);
        if (outcome == ConnectFault::none) co_return Fault::none;
        if (outcome == ConnectFault::client_left) co_return Fault::client_left;
        server_->count_failure();
        const Fault fault = fault_of_connecting(outcome);
        if (retries <= 0 || !pool_.has_alternative() || !may_retry()) co_return fault;
        upstream::Server* const next = pool_.choose(key_, server_);
        tried.emplace_back(server_);
        const auto is_next = [&](const upstream::ServerPtr& one) { return one.get() == next; };
        if (next == nullptr || std::any_of(tried.begin(), tried.end(), is_next)) co_return fault;
        turn_to(*next);
    }
}

// Waits in the queue, in turn with the requests of all threads. If a connection comes with the
// seat, the stream is open when this returns, perhaps to another server, and `seat` is empty.
Task<Fault> Forwarding::wait_for_seat(upstream::Seat& seat) {
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
    const auto took = steady_now() - began;
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
    const bool is_bound = pool_.settings().balance == config::Balance::hash;
    pool_.end_wait(wait, *server_, is_bound, stream_, seat);
    if (stream_) {
        turn_to(stream_.server());
        begin_attempt();
    }
    co_return fault;
}

Task<Fault> Forwarding::converse() {
    using Head = upstream::Http1Stream::Head;
    constexpr int kFinal = 200;
    constexpr int kSwitchingProtocols = 101;  // only where the request asked for it
    for (;;) {
        const Head head = stream_.read_head(answer_bounds(), sleeper_.wakeup());
        if (head == Head::broken) co_return Fault::upstream_broken;
        if (head == Head::complete) {
            if (stream_.head().status >= kFinal) co_return co_await relay_answer();
            if (stream_.head().status == kSwitchingProtocols) co_return co_await open_tunnel();
            const Fault fault = co_await relay_interim();
            if (fault != Fault::none) co_return fault;
            continue;
        }
        if (upload_.fault() != Fault::none && upload_.fault() != Fault::upstream_broken) {
            co_return upload_.fault();
        }
        if (client_has_left()) co_return Fault::client_left;
        if (sleeper_.expired()) co_return Fault::upstream_timeout;
        if (upload_.take_end()) sleeper_.allow(route().response_timeout);
        co_await sleeper_.sleep();
    }
}

// Reads from the client only while the upload does not: the upload notices by itself.
bool Forwarding::client_has_left() {
    if (!client_.is_open()) return true;  // the connection was cut off
    if (upload_.is_running()) return false;
    return upload_.fault() == Fault::client_left || client_.has_left(sleeper_.wakeup());
}

// Before the request is sent: while its body is incomplete, nothing is read ahead.
bool Forwarding::client_has_left_unsent() {
    return client_.is_body_done() ? client_has_left() : !client_.is_open();
}

// Why sending to the client failed.
Fault Forwarding::unsent() const {
    return client_.is_taking() ? Fault::client_left : Fault::client_not_reading;
}

Task<Fault> Forwarding::relay_interim() {
    constexpr int kContinue = 100;
    if (++interim_answers_ > kInterimMax) co_return Fault::upstream_broken;
    if (client_.takes_interim()) {
        write_interim_head(client_, stream_.head());
        IoStatus status = client_.send_interim();
        if (status == IoStatus::would_block) status = co_await send_rest();
        if (status != IoStatus::ok) co_return unsent();
    }
    if (stream_.head().status == kContinue) upload_.go_on();
    if (!upload_.is_running()) sleeper_.allow(route().response_timeout);
    stream_.drop_interim();
    co_return Fault::none;
}

// The request goes nowhere else: an answer that takes hours keeps others from no retry.
void Forwarding::note_answered() {
    x_.relay.reached = Reached::answer;
    x_.relay.upstream_time = steady_now() - sent_;
    pool_.count_answer(x_.relay.upstream_time);
    retry_.reset();
}

// Lasts as long as the tunnel. In flight at its server, with the seat of its connection, it counts
// as any other request.
Task<Fault> Forwarding::open_tunnel() {
    if (!is_upgrade_accepted(x_)) co_return Fault::upstream_broken;
    note_answered();
    pool_.group()->note_success(server_->shared());
    co_return co_await run_tunnel(worker_, x_);
}

Task<Fault> Forwarding::relay_answer() {
    note_answered();
    if (passes_for_tunnel(x_, stream_.head().status)) co_return Fault::upgrade_ignored;
    stream_.begin_body();
    // Nor does it hold a body.
    if (!x_.held_body.empty() && upload_.is_complete()) x_.forget_held_body();
    // A body that is still coming in could not be told from the next request.
    client_.keep_alive_if(upload_.is_complete());
    for (unsigned portions = 1;; ++portions) {
        const BodyBatch batch = stream_.take_body(trailer_bounds());
        if (batch.bad && x_.relay.status == 0) co_return Fault::upstream_broken;
        if (batch.done) {
            x_.relay.reached = Reached::end;
            filter_answer_trailers(x_, stream_.trailers());
        }
        if (x_.relay.status == 0) {
            write_answer_head(x_, stream_.head(), stream_.framing(), worker_.date.line());
            x_.relay.status = stream_.head().status;  // from here on the client has seen something
        }
        IoStatus status = client_.send(batch, stream_.trailers());
        if (status == IoStatus::would_block) status = co_await send_rest();
        if (status != IoStatus::ok) co_return unsent();
        x_.relay.bytes_sent += batch.content_bytes;
        stream_.drop_body(batch);
        if (batch.bad) co_return Fault::answer_cut_off;
        if (batch.done) co_return Fault::none;
        if (portions % kPortionsATurn == 0) co_await sleeper_.step_aside();
        if (batch.count == BodyBatch::kPiecesMax) continue;  // there may be more that has come
        const Fault fault = co_await more_of_answer();
        if (fault != Fault::none) co_return fault;
    }
}

// While the client does not take it, the client keeps the connection to the upstream busy.
Task<IoStatus> Forwarding::send_rest() {
    active_.answer.begin_wait(steady_now(), x_.relay.bytes_sent);
    const IoStatus status = co_await client_.send_rest(timeouts().client_write);
    active_.answer.end_wait(steady_now());
    co_return status;
}

// `stream_idle` bounds one silence, not the answer: each byte begins it anew. Time in which the
// client takes nothing is bounded by `client_write` instead.
Task<Fault> Forwarding::more_of_answer() {
    using Body = upstream::Http1Stream::Body;
    sleeper_.allow(route().stream_idle);
    for (;;) {
        const Body body = stream_.read_body(sleeper_.wakeup());
        if (body == Body::more || body == Body::end) co_return Fault::none;
        if (body == Body::cut_off) co_return Fault::answer_cut_off;
        if (client_has_left()) co_return Fault::client_left;
        if (sleeper_.expired()) co_return Fault::answer_stalled;
        co_await sleeper_.sleep();
    }
}

// Another request takes the connection now; this one ends when it wakes.
void Forwarding::on_evicted(void* self) {
    Forwarding& evicted = *static_cast<Forwarding*>(self);
    evicted.pool_.evict(evicted.stream_);
    // An answer that has begun can only be cut off.
    if (evicted.active_.answer.is_waiting()) evicted.client_.reset();
    evicted.sleeper_.wakeup().wake_later();
}

// A body cut short leaves the connection somewhere inside it.
void Forwarding::finish() {
    if (!stream_.is_tunnel()) pool_.group()->note_success(server_->shared());
    if (stream_.is_clean() && upload_.is_complete()) {
        pool_.give_back(stream_);
    } else {
        pool_.throw_away(stream_);
    }
}

}  // namespace

Task<> forward(WorkerContext& worker, Exchange& exchange) {
    Forwarding forwarding(worker, exchange);
    std::exception_ptr failure;
    try {
        exchange.decision.fault = co_await forwarding.run();
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) co_return;
    co_await forwarding.break_off();
    std::rethrow_exception(failure);
}

}  // namespace tidegate::proxy
