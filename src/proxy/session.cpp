#include "proxy/session.hpp"

#include <utility>

#include "ask/route.hpp"
#include "proxy/forward.hpp"
#include "proxy/heads.hpp"
#include "proxy/record.hpp"

namespace tidegate::proxy {

namespace {

using ask::Fault;
using http::BodyBatch;
using std::chrono::milliseconds;

// A refused request's body up to this size is read over, so that the connection can go on.
constexpr std::uint64_t kDiscardedMax = 65'536;
// How long, and how much, a client may still send to a connection that is being closed.
constexpr milliseconds kLinger{2'000};
constexpr std::size_t kLingerBytesMax = 1'048'576;
// Requests that are here already are served without waiting; after so many, others get their turn.
constexpr int kRequestsATurn = 32;
// While we drain, what was accepted last has its request on the way; anything else is just idle.
constexpr milliseconds kFreshPatience{500};
// Once the request was sent on, only what the upstream said gives units back: an upstream that has
// not answered may have acted, whatever the client was told. It may also still be at work though
// the client has left: until its answer is whole, slots of concurrency are kept for a while.
void settle(ask::Engine& engine, Exchange& exchange) {
    constexpr int kNoAnswer = 0;
    const Relay& relay = exchange.relay;
    const milliseconds hold = exchange.config().timeouts.hold_aborted;
    switch (relay.reached) {
        case Reached::nothing:
            return engine.settle(exchange.decision, relay.status);
        case Reached::upstream:
            return engine.settle(exchange.decision, kNoAnswer, hold);
        case Reached::answer:
            return engine.settle(exchange.decision, exchange.upstream.head().status, hold);
        case Reached::end:
            return engine.settle(exchange.decision, exchange.upstream.head().status);
    }
}

}  // namespace

Session::Session(WorkerContext& worker, ConnectionPtr connection, identity::Peer peer,
                 std::uint16_t local_port)
    : worker_(worker),
      client_(std::move(connection), worker.buffers, peer, local_port),
      sleeper_(worker.executor, worker.deadlines) {
    worker_.metrics.client_connected();
}

Session::~Session() {
    // A request that has not come to its end: an exception took it, and its client must not take
    // what it has for an answer.
    if (exchange_) {
        client_.connection().reset();
    } else {
        client_.connection().close();
    }
    worker_.metrics.client_disconnected();
}

Task<> Session::run(std::unique_ptr<Session> self) {
    Next next = Next::request;
    int in_a_row = 0;
    while (next == Next::request) {
        if (!self->client_.has_input()) {
            co_await self->await_input();
            in_a_row = 0;
        } else if (++in_a_row % kRequestsATurn == 0) {
            co_await self->sleeper_.step_aside();
        }
        const bool silent = !self->client_.has_input() && !self->client_.connection().readable();
        const bool too_long = self->sleeper_.expired() && !self->worker_.draining;
        if (silent && too_long) self->worker_.metrics.client_idled_out();
        if (self->aborted_ || silent) co_return;
        self->begin_exchange();
        next = co_await self->read_request();
        if (next == Next::request) {
            self->is_serving_ = true;
            co_await self->serve_request();
            self->is_serving_ = false;
            next = self->what_follows();
        }
        if (next == Next::request && !self->exchange_->client.body.done() &&
            !co_await self->discard_body()) {
            next = Next::close;
        }
        if (next == Next::request) self->client_.finish_request();
        self->end_exchange();
    }
    if (next == Next::cut) {
        self->client_.connection().reset();
    } else {
        co_await self->linger();
    }
}

void Session::on_drain() {
    if (!idle_) return;
    if (fresh_) {
        sleeper_.allow(kFreshPatience);
    } else {
        sleeper_.wakeup().wake_later();
    }
}

void Session::abort() {
    aborted_ = true;
    client_.connection().reset();
    sleeper_.wakeup().wake_later();
}

// Nothing is held meanwhile: no buffer, no exchange.
Task<> Session::await_input() {
    client_.release_buffer();
    idle_ = true;
    sleeper_.allow(worker_.draining ? kFreshPatience
                                    : worker_.generation->config->timeouts.client_idle);
    client_.connection().watch_read(&sleeper_.wakeup());
    while (!client_.connection().readable() && !sleeper_.expired() && !aborted_ &&
           (fresh_ || !worker_.draining)) {
        co_await sleeper_.sleep();
    }
    idle_ = fresh_ = false;
}

void Session::begin_exchange() {
    exchange_ = worker_.exchanges.take();
    exchange_->generation = worker_.generation;
    exchange_->facts.began_at = std::chrono::system_clock::now();
    exchange_->relay.began = std::chrono::steady_clock::now();
    worker_.request_ids.next(exchange_->facts.request_id);
    exchange_->facts.peer = client_.peer();
    exchange_->facts.local_port = client_.local_port();
    exchange_->decision.client = client_.peer().address;  // until the engine knows better
}

void Session::end_exchange() {
    worker_.exchanges.give(std::move(exchange_));
}

Task<Session::Next> Session::read_request() {
    const auto& bounds = exchange_->config().limits_on_requests;
    sleeper_.allow(exchange_->config().timeouts.request_head);
    for (;;) {
        switch (client_.read_head(*exchange_,
                                  {bounds.header_bytes, bounds.headers, bounds.uri_bytes})) {
            case Http1Client::Head::complete:
                co_return Next::request;
            case Http1Client::Head::end:
                // A client that leaves between requests is nothing to speak of.
                if (!client_.has_input()) co_return Next::close;
                exchange_->decision.fault = Fault::client_left;
                break;
            case Http1Client::Head::broken:
                break;
            case Http1Client::Head::more:
                client_.connection().watch_read(&sleeper_.wakeup());
                while (!client_.connection().readable() && !sleeper_.expired() && !aborted_) {
                    co_await sleeper_.sleep();
                }
                if (aborted_) co_return Next::cut;
                if (!sleeper_.expired()) continue;
                if (!client_.has_input()) {
                    worker_.metrics.client_idled_out();
                    co_return Next::close;
                }
                exchange_->decision.fault = Fault::head_timeout;
                break;
        }
        if (ask::traits(exchange_->decision.fault).status != 0) co_await reply();
        record(worker_, *exchange_);
        co_return Next::close;
    }
}

// The way of a request. Nothing here knows how the client is spoken to.
Task<> Session::serve_request() {
    Exchange& exchange = *exchange_;
    ask::Decision& decision = exchange.decision;
    exchange.generation = worker_.generation;  // its head may have been long on the way
    check_framing();
    const ask::Question question{*exchange.generation, exchange.facts,     decision,
                                 sleeper_.wakeup(),    &Session::has_left, this};
    if (decision.goes_on() && !worker_.engine.begin(question)) {
        co_await worker_.engine.finish(question);
    }
    if (decision.route != nullptr) adopt_request_id(exchange.facts);
    if (decision.goes_on()) co_await forward(worker_, client_, sleeper_, exchange);
    if (!decision.goes_on() && exchange.relay.status == 0) co_await reply();
    if (decision.charge.needs_settling) settle(worker_.engine, exchange);
    if (aborted_ && decision.fault == Fault::client_left) decision.fault = Fault::stopped;
    record(worker_, exchange);
}

void Session::check_framing() {
    ClientCodec& codec = exchange_->client;
    ask::check_framing(exchange_->config().limits_on_requests, exchange_->facts, codec.framing,
                       exchange_->decision);
    codec.body.start(codec.framing);
    codec.keep_alive = codec.framing.keep_alive;
}

// The engine's question whether the client has left. Else the sleeper is woken by a sign of it.
bool Session::has_left(void* self) {
    Session& session = *static_cast<Session*>(self);
    return session.aborted_ || session.client_.has_left(session.sleeper_.wakeup());
}

// What becomes of the connection.
Session::Next Session::what_follows() const {
    const Fault fault = exchange_->decision.fault;
    const bool broken_off = fault != Fault::none && ask::traits(fault).status == 0;
    if (broken_off || aborted_) return Next::cut;
    return exchange_->client.keep_alive ? Next::request : Next::close;
}

// An answer of our own.
Task<> Session::reply() {
    Exchange& exchange = *exchange_;
    const ask::FaultTraits& fault = ask::traits(exchange.decision.fault);
    if (fault.status == 0) co_return;
    exchange.relay.status = exchange.decision.fault == Fault::limited
                                ? exchange.config().response.status
                                : fault.status;
    // Whoever waits for 100 Continue may or may not send the body now: only a new connection is
    // sure to begin with a request.
    const bool body_is_small =
        exchange.client.body.done() ||
        (!exchange.client.framing.expects_continue && exchange.client.body.left() <= kDiscardedMax);
    exchange.client.keep_alive = exchange.client.keep_alive && !fault.close && body_is_small &&
                                 !worker_.draining && !client_.has_said_all(exchange);
    IoStatus status = client_.send_fault(exchange);
    if (status == IoStatus::would_block) {
        status =
            co_await client_.send_rest(exchange, sleeper_, exchange.config().timeouts.client_write);
    }
    if (status != IoStatus::ok) {
        exchange.relay.bytes_sent = 0;
        exchange.client.keep_alive = false;
    }
}

// Reads over the rest of a refused request's body. False when it does not come to its end.
Task<bool> Session::discard_body() {
    sleeper_.allow(exchange_->config().timeouts.request_body);
    for (;;) {
        const auto& bounds = exchange_->config().limits_on_requests;
        const BodyBatch batch =
            client_.take_body(*exchange_, {bounds.header_bytes, bounds.headers});
        client_.drop_body(batch);
        if (batch.done) co_return true;
        if (batch.bad || aborted_) co_return false;
        if (batch.count > 0) continue;
        const Http1Client::Body body = client_.read_body(*exchange_, sleeper_.wakeup());
        if (body == Http1Client::Body::more) continue;
        if (body != Http1Client::Body::nothing || sleeper_.expired()) co_return false;
        co_await sleeper_.sleep();
    }
}

// RFC 9112 section 9.6: a close with bytes unread resets the connection and may take our last
// answer with it. So: say the end, read over what still comes, for a while.
Task<> Session::linger() {
    Connection& connection = client_.connection();
    connection.shutdown_send();
    sleeper_.allow(kLinger);
    std::size_t room = kLingerBytesMax;
    std::size_t size = BufferPool::kSmall;
    char* const block = worker_.buffers.take(size);
    for (;;) {
        const IoResult read = connection.read_some({block, size});
        if (read.status == IoStatus::ok && read.bytes < room) {
            room -= read.bytes;
            continue;
        }
        if (read.status != IoStatus::would_block) break;
        connection.watch_read(&sleeper_.wakeup());
        while (!connection.readable() && !sleeper_.expired() && !aborted_) {
            co_await sleeper_.sleep();
        }
        if (sleeper_.expired() || aborted_) break;
    }
    worker_.buffers.give(block, size);
}

}  // namespace tidegate::proxy
