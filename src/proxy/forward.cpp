#include "proxy/forward.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "proxy/heads.hpp"
#include "proxy/upload.hpp"

namespace tidegate::proxy {

namespace {

using ask::Fault;
using http::BodyBatch;
using http::BodyKind;

// Interim answers to one request; each begins the time for the answer anew, which has to end.
constexpr int kInterimMax = 100;

SteadyTime now() {
    return std::chrono::steady_clock::now();
}

// RFC 9110 section 9.2.2.
bool is_idempotent(std::string_view method) {
    return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" ||
           method == "OPTIONS" || method == "TRACE";
}

// One request and one upstream; lives in the frame of forward().
class Forwarding {
  public:
    Forwarding(WorkerContext& worker, Http1Client& client, Sleeper& sleeper, Exchange& exchange)
        : worker_(worker),
          client_(client),
          sleeper_(sleeper),
          x_(exchange),
          pool_(*exchange.generation->upstreams[exchange.decision.route->upstream]),
          active_(exchange.decision.client, exchange.config().client_ip.ipv6_prefixes,
                  &Forwarding::on_evicted, this),
          upload_(worker, client, sleeper, exchange, pool_.settings(), active_.body) {}

    Task<Fault> run();
    // After an exception: nothing is running when it returns.
    Task<> break_off();

  private:
    const config::Timeouts& timeouts() const { return x_.config().timeouts; }
    http::TrailerBounds trailer_bounds() const {
        const auto& bounds = x_.config().limits_on_requests;
        return {bounds.header_bytes, bounds.headers};
    }
    http::HeadBounds answer_bounds() const;

    Task<Fault> connect(upstream::Server& server);
    Task<Fault> converse();
    Task<Fault> relay_interim(std::size_t head_bytes);
    Task<Fault> relay_answer(std::size_t head_bytes);
    Task<Fault> more_of_answer();
    Task<IoStatus> send_rest();
    void finish();
    static void on_evicted(void* self);

    enum class Read : std::uint8_t { got, nothing, end, broken };
    Read read_answer();
    bool client_has_left();
    Fault unsent() const;

    WorkerContext& worker_;
    Http1Client& client_;
    Sleeper& sleeper_;
    Exchange& x_;
    upstream::Pool& pool_;
    upstream::Lease lease_;
    upstream::ActiveRequest active_;
    Upload upload_;
    http::HeadScanner scanner_;
    SteadyTime sent_{};
    int interim_answers_ = 0;
    bool answer_began_ = false;   // a byte of it has come
    bool may_hold_more_ = false;  // the last read took all there was room for
};

http::HeadBounds Forwarding::answer_bounds() const {
    const auto& bounds = x_.config().limits_on_requests;
    return {bounds.header_bytes, bounds.headers, bounds.header_bytes};
}

Task<Fault> Forwarding::run() {
    // A connection that was idle may have been closed under us just now. What was never answered
    // and does no harm twice is sent again, once, on a fresh connection.
    const bool repeatable =
        x_.client.framing.body == BodyKind::none && is_idempotent(x_.facts.head.method);
    if (!pool_.admit(active_)) co_return Fault::upstream_exhausted;
    upstream::Server* server = &pool_.next_server();
    lease_ = pool_.take_idle(*server);
    for (bool first = true;; first = false) {
        Fault fault = Fault::none;
        if (!lease_) fault = co_await connect(*server);
        if (fault != Fault::none) co_return fault;
        const bool reused = lease_.reused;
        server = lease_.server;
        x_.relay.upstream_address = server->address();
        sent_ = now();
        fault = upload_.begin(lease_);
        if (fault == Fault::none) fault = co_await converse();
        if (upload_.is_running()) co_await upload_.end();
        upload_.rethrow();
        if (fault == Fault::none) {
            finish();
            co_return fault;
        }
        if (lease_.withdrawn) {
            const bool can_answer = x_.relay.status == 0 && client_.is_open();
            fault = can_answer ? Fault::body_made_room : Fault::answer_made_room;
        }
        pool_.throw_away(lease_);
        const bool stale = reused && fault == Fault::upstream_broken && !answer_began_;
        if (!stale || !repeatable || !first) {
            if (ask::traits(fault).outcome == telemetry::Outcome::failed) {
                worker_.metrics.count_upstream_failure(pool_.metrics_slot());
            }
            co_return fault;
        }
        x_.upstream.buffer.release();
        scanner_.reset();
    }
}

Task<> Forwarding::break_off() {
    if (upload_.is_running()) co_await upload_.end();
    if (lease_) pool_.throw_away(lease_);
}

// Nothing has been sent to a server that was never reached: any request may try the next.
Task<Fault> Forwarding::connect(upstream::Server& server) {
    upstream::Server* tried = &server;
    for (int retries = pool_.settings().retries;; --retries) {
        Fault fault = Fault::upstream_unreachable;
        x_.relay.upstream_address = tried->address();
        switch (co_await pool_.connect(*tried, sleeper_, lease_, active_)) {
            case upstream::Pool::ConnectFault::none:
                co_return Fault::none;
            case upstream::Pool::ConnectFault::exhausted:
                co_return Fault::upstream_exhausted;
            case upstream::Pool::ConnectFault::timeout:
                fault = Fault::connect_timeout;
                break;
            case upstream::Pool::ConnectFault::unreachable:
                break;
        }
        if (retries <= 0 || !pool_.has_alternative(*tried)) co_return fault;
        tried = &pool_.next_server(tried);
    }
}

Task<Fault> Forwarding::converse() {
    for (;;) {
        const std::size_t head_bytes = scanner_.scan(x_.upstream.buffer.data(), answer_bounds());
        if (scanner_.fault() != http::HeadFault::none) co_return Fault::upstream_broken;
        if (head_bytes != 0) {
            if (http::parse_response_head(x_.upstream.buffer.data().substr(0, head_bytes),
                                          answer_bounds(),
                                          x_.relay.answer) != http::HeadFault::none ||
                http::response_framing(x_.relay.answer, x_.facts.head.method == "HEAD",
                                       x_.upstream.framing) != http::FramingFault::none ||
                x_.relay.answer.status == 101) {
                co_return Fault::upstream_broken;  // no upgrade was asked for
            }
            if (x_.relay.answer.status >= 200) co_return co_await relay_answer(head_bytes);
            const Fault fault = co_await relay_interim(head_bytes);
            if (fault != Fault::none) co_return fault;
            continue;
        }
        switch (read_answer()) {
            case Read::got:
                continue;
            case Read::end:
            case Read::broken:
                co_return Fault::upstream_broken;
            case Read::nothing:
                break;
        }
        if (upload_.fault() != Fault::none && upload_.fault() != Fault::upstream_broken) {
            co_return upload_.fault();
        }
        if (client_has_left()) co_return Fault::client_left;
        if (sleeper_.expired()) co_return Fault::upstream_timeout;
        co_await sleeper_.sleep();
    }
}

Forwarding::Read Forwarding::read_answer() {
    Connection& connection = *lease_.connection;
    if (!connection.readable()) {
        connection.watch_read(&sleeper_.wakeup());
        return Read::nothing;
    }
    if (x_.upstream.buffer.space().empty()) {
        x_.upstream.buffer.make_room(x_.upstream.buffer.size() < x_.upstream.buffer.capacity()
                                         ? x_.upstream.buffer.capacity()
                                         : x_.upstream.buffer.capacity() * 2);
    }
    const std::span<char> space = x_.upstream.buffer.space();
    const IoResult read = connection.read_some(space);
    switch (read.status) {
        case IoStatus::ok:
            x_.upstream.buffer.commit(read.bytes);
            answer_began_ = true;
            may_hold_more_ = read.bytes == space.size();
            return Read::got;
        case IoStatus::would_block:
            connection.watch_read(&sleeper_.wakeup());
            return Read::nothing;
        case IoStatus::end:
            return Read::end;
        case IoStatus::failed:
            break;
    }
    return Read::broken;
}

// Reads only while nothing else does: the upload finds out by itself, also of an end inside the
// body.
bool Forwarding::client_has_left() {
    if (!client_.is_open()) return true;  // the session was cut off
    if (upload_.is_running()) return false;
    return upload_.fault() == Fault::client_left || client_.has_left(sleeper_.wakeup());
}

// Why the client could not be sent what was there for it.
Fault Forwarding::unsent() const {
    return client_.is_taking() ? Fault::client_left : Fault::client_not_reading;
}

Task<Fault> Forwarding::relay_interim(std::size_t head_bytes) {
    if (++interim_answers_ > kInterimMax) co_return Fault::upstream_broken;
    IoStatus status = client_.send_interim(x_);
    if (status == IoStatus::would_block) status = co_await send_rest();
    if (status != IoStatus::ok) co_return unsent();
    if (x_.relay.answer.status == 100) upload_.go_on();
    if (!upload_.is_running()) sleeper_.allow(pool_.settings().response_timeout);
    x_.upstream.buffer.consume(head_bytes);
    scanner_.reset();
    co_return Fault::none;
}

Task<Fault> Forwarding::relay_answer(std::size_t head_bytes) {
    x_.relay.reached = Reached::answer;
    x_.relay.upstream_time = now() - sent_;
    worker_.metrics.count_upstream(pool_.metrics_slot(), x_.relay.upstream_time);
    x_.upstream.body.start(x_.upstream.framing);
    remember_answer_options(x_);
    // A body that is still coming in could not be told from the next request.
    x_.client.keep_alive = x_.client.keep_alive && !worker_.draining && upload_.is_complete() &&
                           !client_.has_said_all(x_);
    std::size_t consumed = head_bytes;
    for (unsigned portions = 1;; ++portions) {
        const BodyBatch batch =
            x_.upstream.body.take(x_.upstream.buffer.data().substr(consumed), trailer_bounds());
        if (batch.bad && x_.relay.status == 0) co_return Fault::upstream_broken;
        if (batch.done) {
            x_.relay.reached = Reached::end;
            filter_answer_trailers(x_, x_.upstream.body.trailers());
        }
        IoStatus status = client_.send_answer(x_, batch);
        if (status == IoStatus::would_block) status = co_await send_rest();
        if (status != IoStatus::ok) co_return unsent();
        x_.relay.bytes_sent += batch.content_bytes;
        x_.upstream.buffer.consume(consumed + batch.consumed);
        consumed = 0;
        if (batch.bad) co_return Fault::answer_cut_off;
        if (batch.done) co_return Fault::none;
        if (portions % kPortionsATurn == 0) co_await sleeper_.step_aside();
        if (batch.count == BodyBatch::kPiecesMax) continue;  // there may be more in the buffer
        const Fault fault = co_await more_of_answer();
        if (fault != Fault::none) co_return fault;
    }
}

// While the client does not take it, the client keeps the connection to the upstream busy.
Task<IoStatus> Forwarding::send_rest() {
    active_.answer.begin_wait(now(), x_.relay.bytes_sent);
    const IoStatus status = co_await client_.send_rest(x_, sleeper_, timeouts().client_write);
    active_.answer.end_wait(now());
    co_return status;
}

Task<Fault> Forwarding::more_of_answer() {
    // A body that goes on is read in large portions; the head's views are not needed any more.
    if (x_.upstream.buffer.empty() && x_.upstream.body.left() > BufferPool::kSmall) {
        if (x_.upstream.buffer.capacity() < BufferPool::kLarge) x_.upstream.buffer.release();
        x_.upstream.buffer.space(BufferPool::kLarge);
    }
    sleeper_.allow(pool_.settings().response_timeout);
    for (;;) {
        switch (read_answer()) {
            case Read::got:
                co_return Fault::none;
            case Read::end:
                co_return x_.upstream.body.end_of_input() ? Fault::none : Fault::answer_cut_off;
            case Read::broken:  // a reset ends no body, not even one that only the end delimits
                co_return Fault::answer_cut_off;
            case Read::nothing:
                break;
        }
        if (client_has_left()) co_return Fault::client_left;
        if (sleeper_.expired()) co_return Fault::answer_stalled;
        co_await sleeper_.sleep();
    }
}

// Another request takes the connection now; this one ends when it wakes.
void Forwarding::on_evicted(void* self) {
    Forwarding& evicted = *static_cast<Forwarding*>(self);
    evicted.pool_.withdraw(evicted.lease_);
    // An answer that has begun can only be cut off.
    if (evicted.active_.answer.is_waiting()) evicted.client_.connection().reset();
    evicted.sleeper_.wakeup().wake_later();
}

void Forwarding::finish() {
    // Bytes behind the answer were not asked for, and a body cut short leaves the connection
    // somewhere inside it.
    const bool clean = x_.upstream.framing.keep_alive && x_.upstream.buffer.empty() &&
                       !may_hold_more_ && upload_.is_complete();
    if (clean) {
        pool_.give_back(lease_);
    } else {
        pool_.throw_away(lease_);
    }
}

}  // namespace

Task<> forward(WorkerContext& worker, Http1Client& client, Sleeper& sleeper, Exchange& exchange) {
    Forwarding forwarding(worker, client, sleeper, exchange);
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
