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

// RFC 9110 section 9.2.2.
bool is_idempotent(std::string_view method) {
    return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" ||
           method == "OPTIONS" || method == "TRACE";
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

    Task<Fault> connect(upstream::Server& server);
    Task<Fault> converse();
    Task<Fault> relay_interim();
    Task<Fault> relay_answer();
    Task<Fault> more_of_answer();
    Task<IoStatus> send_rest();
    void finish();
    static void on_evicted(void* self);

    bool client_has_left();
    Fault unsent() const;

    WorkerContext& worker_;
    Exchange& x_;
    client::Http1Stream& client_;
    Sleeper& sleeper_;
    upstream::Pool& pool_;
    upstream::Http1Stream& stream_;
    upstream::ActiveRequest active_;
    Upload upload_;
    SteadyTime sent_{};
    int interim_answers_ = 0;
};

http::HeadBounds Forwarding::answer_bounds() const {
    const auto& bounds = x_.config().limits_on_requests;
    return {bounds.header_bytes, bounds.headers, bounds.header_bytes};
}

Task<Fault> Forwarding::run() {
    // The server may just have closed a connection that was idle. A request that got no answer and
    // does no harm twice goes once more, on a new connection.
    const bool repeatable =
        client_.framing().body == BodyKind::none && is_idempotent(x_.facts.head.method);
    if (!pool_.admit(active_)) co_return Fault::upstream_exhausted;
    upstream::Server* server = &pool_.next_server();
    pool_.take_idle(*server, stream_);
    for (bool first = true;; first = false) {
        Fault fault = Fault::none;
        if (!stream_) fault = co_await connect(*server);
        if (fault != Fault::none) co_return fault;
        x_.relay.upstream_address = stream_.server().address();
        sent_ = steady_now();
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
        pool_.throw_away(stream_);
        const bool stale =
            stream_.is_reused() && fault == Fault::upstream_broken && !stream_.has_answered();
        if (!stale || !repeatable || !first) {
            if (ask::traits(fault).outcome == telemetry::Outcome::failed) {
                worker_.metrics.count_upstream_failure(pool_.metrics_slot());
            }
            co_return fault;
        }
    }
}

Task<> Forwarding::break_off() {
    if (upload_.is_running()) co_await upload_.end();
    if (stream_) pool_.throw_away(stream_);
}

// A server that was never reached has got nothing: any request may try the next one.
Task<Fault> Forwarding::connect(upstream::Server& server) {
    upstream::Server* tried = &server;
    for (int retries = pool_.settings().retries;; --retries) {
        Fault fault = Fault::upstream_unreachable;
        x_.relay.upstream_address = tried->address();
        switch (co_await pool_.connect(*tried, sleeper_, stream_, active_)) {
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
    using Head = upstream::Http1Stream::Head;
    constexpr int kFinal = 200;
    for (;;) {
        const Head head = stream_.read_head(answer_bounds(), sleeper_.wakeup());
        if (head == Head::broken) co_return Fault::upstream_broken;
        if (head == Head::complete) {
            if (stream_.head().status >= kFinal) co_return co_await relay_answer();
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

Task<Fault> Forwarding::relay_answer() {
    x_.relay.reached = Reached::answer;
    x_.relay.upstream_time = steady_now() - sent_;
    worker_.metrics.count_upstream(pool_.metrics_slot(), x_.relay.upstream_time);
    stream_.begin_body();
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
    if (evicted.active_.answer.is_waiting()) evicted.client_.reset_connection();
    evicted.sleeper_.wakeup().wake_later();
}

// A body cut short leaves the connection somewhere inside it.
void Forwarding::finish() {
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
