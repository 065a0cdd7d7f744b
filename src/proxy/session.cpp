#include "proxy/session.hpp"

#include <functional>
#include <string_view>
#include <utility>

#include "identity/credentials.hpp"
#include "proxy/forward.hpp"
#include "proxy/heads.hpp"
#include "proxy/street.hpp"

namespace tidegate::proxy {

namespace {

using http::BodyBatch;
using identity::Finding;
using std::chrono::milliseconds;
using std::chrono::system_clock;

// A refused request's body up to this size is read over, so that the connection can go on.
constexpr std::uint64_t kDiscardedMax = 65'536;
// How long, and how much, a client may still send to a connection that is being closed.
constexpr milliseconds kLinger{2'000};
constexpr std::size_t kLingerBytesMax = 1'048'576;
// Requests that are here already are served without waiting; after so many, others get their turn.
constexpr int kRequestsATurn = 32;
// While we drain, what was accepted last has its request on the way; anything else is just idle.
constexpr milliseconds kFreshPatience{500};
// The status that a guess counts with, and one that it does not.
constexpr int kUnauthorized = 401;
constexpr int kRight = 200;

// By whom the places in the queue for password checks are shared: by networks, as the holder of one
// has all its addresses; or, where there is no address, by connections.
std::uint64_t share_of(const std::optional<IpAddress>& client, const Session* connection) {
    constexpr int kOneNetwork = 48;
    if (!client) return reinterpret_cast<std::uintptr_t>(connection);
    const IpAddress network = masked(*client, kOneNetwork);
    const auto* const bytes = reinterpret_cast<const char*>(network.bytes.data());
    return std::hash<std::string_view>{}({bytes, network.bytes.size()});
}

// The request has ended. Once it was sent on, only what the upstream said gives units back: while
// it has not answered it may have acted, whatever we told the client. It may also still be at work,
// though its client has gone: until it has said all, slots of concurrency are kept for a while.
void settle(store::Limiter& limiter, Exchange& exchange) {
    constexpr int kNoAnswer = 0;
    const milliseconds hold = exchange.config().timeouts.hold_aborted;
    switch (exchange.reached) {
        case Reached::nothing:
            return limiter.settle(exchange.decision, exchange.status);
        case Reached::upstream:
            return limiter.settle(exchange.decision, kNoAnswer, hold);
        case Reached::answer:
            return limiter.settle(exchange.decision, exchange.answer.status, hold);
        case Reached::end:
            return limiter.settle(exchange.decision, exchange.answer.status);
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
        if (next == Next::request && !self->exchange_->body.done() &&
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
    exchange_->began_at = std::chrono::system_clock::now();
    exchange_->began = std::chrono::steady_clock::now();
    worker_.request_ids.next(exchange_->request_id);
    exchange_->client = client_.peer().address;  // until identify() knows better
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
                exchange_->fault = Fault::client_left;
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
                exchange_->fault = Fault::head_timeout;
                break;
        }
        if (traits(exchange_->fault).status != 0) co_await reply();
        record(worker_, *exchange_);
        co_return Next::close;
    }
}

// The street of a request. Nothing here knows how the client is spoken to.
Task<> Session::serve_request() {
    Exchange& exchange = *exchange_;
    exchange.generation = worker_.generation;  // its head may have been long on the way
    check_framing(exchange);
    if (exchange.fault == Fault::none) match_route(exchange);
    if (exchange.fault == Fault::none) identify(client_, exchange);
    if (exchange.chain_fault != identity::ChainFault::none) {
        report_chain_fault(worker_, client_.peer(), exchange);
    }
    if (exchange.fault == Fault::none && is_unproved(exchange)) co_await authenticate();
    if (exchange.fault == Fault::none) list_charges(worker_, exchange);
    if (exchange.fault == Fault::none && !exchange.decision.items.empty()) co_await charge();
    if (exchange.fault == Fault::none) co_await forward(worker_, client_, sleeper_, exchange);
    if (exchange.fault != Fault::none && exchange.status == 0) co_await reply();
    if (exchange.decision.needs_settling) settle(worker_.limiter, exchange);
    if (aborted_ && exchange.fault == Fault::client_left) exchange.fault = Fault::stopped;
    record(worker_, exchange);
}

// What becomes of the connection.
Session::Next Session::what_follows() const {
    const Fault fault = exchange_->fault;
    const bool broken_off = fault != Fault::none && traits(fault).status == 0;
    if (broken_off || aborted_) return Next::cut;
    return exchange_->keep_alive ? Next::request : Next::close;
}

// A credential that is not known to be valid. Of several that are the same, one is checked.
Task<> Session::authenticate() {
    Exchange& exchange = *exchange_;
    if (is_turned_away(exchange)) co_return;
    co_await look_at_address();
    if (exchange.fault != Fault::none) co_return;
    if (exchange.who.result == Finding::Result::refused) {
        if (is_guess(exchange.who.fault)) co_await prove();
    } else {
        const CredentialQueue::Place place(worker_.checks, exchange.who.key, sleeper_.wakeup());
        sleeper_.allow_forever();
        while (!place.is_first() && !has_gone()) co_await sleeper_.sleep();
        client_.wake_nobody();
        if (exchange.fault != Fault::none) co_return;
        identity::Authenticator& authenticator = *exchange.generation->authenticator;
        if (!authenticator.recall(exchange.who, system_clock::now())) co_await prove();
    }
    if (exchange.fault == Fault::none) conclude_identity(exchange);
}

// An address that is over its limits whatever its credential is worth is told so before that is
// looked at: else it would have credentials checked without end, as a 401 takes nothing.
Task<> Session::look_at_address() {
    Exchange& exchange = *exchange_;
    if (!list_limits_of_address(exchange)) co_return;
    const SteadyTime asked = std::chrono::steady_clock::now();
    store::Decision& decision = exchange.decision;
    worker_.limiter.look(decision, sleeper_.wakeup(), asked);
    while (decision.result == store::Decision::Result::pending) co_await sleeper_.sleep();
    if (decision.result == store::Decision::Result::limited) {
        exchange.decision_time = std::chrono::steady_clock::now() - asked;
        judge(worker_, exchange);
    } else {
        forget_question(exchange);
    }
}

// Whoever tries too many that are wrong is told so before any effort is made: the attempt is taken
// first, and given back when it was right, so that many at once are no way around. Nor is hanging
// up.
Task<> Session::prove() {
    Exchange& exchange = *exchange_;
    const bool is_counted = list_guess(exchange);
    if (is_counted) co_await charge();
    if (exchange.fault != Fault::none) co_return;
    identity::Authenticator& authenticator = *exchange.generation->authenticator;
    if (exchange.who.result == Finding::Result::unchecked) {
        if (authenticator.is_token(exchange.who)) {
            authenticator.check_token(exchange.who, system_clock::now());
        } else {
            co_await check_password();
        }
    }
    if (!is_counted) co_return;
    const bool was_refused = exchange.who.result == Finding::Result::refused;
    const bool was_guess =
        exchange.fault != Fault::none || (was_refused && is_guess(exchange.who.fault));
    if (exchange.decision.needs_settling) {
        worker_.limiter.settle(exchange.decision, was_guess ? kUnauthorized : kRight);
    }
    forget_question(exchange);
}

Task<> Session::check_password() {
    using Check = PasswordPool::Check;
    identity::Finding& who = exchange_->who;
    identity::BasicLogin login;
    who.fault = login.read(who.credential);
    if (who.fault != identity::CredentialFault::none) {
        who.result = Finding::Result::refused;
        co_return;
    }
    identity::Authenticator& authenticator = *exchange_->generation->authenticator;
    Check check(worker_.executor, sleeper_.wakeup());
    const auto submitted =
        worker_.passwords.submit(check, authenticator.password_method(who).users, login.user(),
                                 login.password(), share_of(exchange_->client, this));
    if (submitted == PasswordPool::Submitted::yes) {
        sleeper_.allow_forever();
        while (check.state() == Check::State::waiting && !has_gone()) co_await sleeper_.sleep();
        client_.wake_nobody();
        if (exchange_->fault != Fault::none) co_return;
    }
    if (check.state() == Check::State::right || check.state() == Check::State::wrong) {
        authenticator.conclude_password(who, login.user(), check.state() == Check::State::right,
                                        system_clock::now());
    } else {
        who.result = Finding::Result::unavailable;
    }
}

// Whether nobody waits for the answer any more: then the fault says so. Else the sleeper is woken
// by a sign of it.
bool Session::has_gone() {
    if (!aborted_ && !client_.has_left(sleeper_.wakeup())) return false;
    exchange_->fault = Fault::client_left;
    return true;
}

Task<> Session::charge() {
    const SteadyTime asked = std::chrono::steady_clock::now();
    store::Decision& decision = exchange_->decision;
    worker_.limiter.decide(decision, sleeper_.wakeup(), asked);
    while (decision.result == store::Decision::Result::pending) co_await sleeper_.sleep();
    exchange_->decision_time = std::chrono::steady_clock::now() - asked;
    judge(worker_, *exchange_);
    if (exchange_->fault == Fault::none && decision.verdict.wait > limit::Micros{0}) {
        co_await await_turn(decision.verdict.wait);
    }
}

// leaky_bucket has the request wait in line. A timer of its own: the wheel's turns are too coarse.
Task<> Session::await_turn(limit::Micros wait) {
    struct Place {
        explicit Place(const Executor& executor) : timer(executor) {}
        Timer timer;
        bool has_come = false;
        bool is_over = false;
    };
    // Shared, as the timer may have fired already when the client leaves, and tells it later.
    const auto place = std::make_shared<Place>(worker_.executor);
    place->timer.expires_after(wait);
    place->timer.async_wait([place, &wakeup = sleeper_.wakeup()](const error_code& ec) {
        if (ec || place->is_over) return;
        place->has_come = true;
        wakeup.wake_later();
    });
    sleeper_.allow_forever();
    while (!place->has_come && !client_.has_left(sleeper_.wakeup())) co_await sleeper_.sleep();
    client_.wake_nobody();
    if (place->has_come) co_return;
    place->is_over = true;
    place->timer.cancel();
    worker_.limiter.leave_line(exchange_->decision);
    exchange_->fault = Fault::client_left;
}

// An answer of our own.
Task<> Session::reply() {
    Exchange& exchange = *exchange_;
    const FaultTraits& fault = traits(exchange.fault);
    if (fault.status == 0) co_return;
    exchange.status =
        exchange.fault == Fault::limited ? exchange.config().response.status : fault.status;
    // Whoever waits for 100 Continue may or may not send the body now: only a new connection is
    // sure to begin with a request.
    const bool body_is_small = exchange.body.done() || (!exchange.framing.expects_continue &&
                                                        exchange.body.left() <= kDiscardedMax);
    exchange.keep_alive = exchange.keep_alive && !fault.close && body_is_small &&
                          !worker_.draining && !client_.has_said_all(exchange);
    IoStatus status = client_.send_fault(exchange);
    if (status == IoStatus::would_block) {
        status =
            co_await client_.send_rest(exchange, sleeper_, exchange.config().timeouts.client_write);
    }
    if (status != IoStatus::ok) {
        exchange.bytes_sent = 0;
        exchange.keep_alive = false;
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
