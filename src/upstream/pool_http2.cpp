// How a pool shares connections in HTTP/2 among requests.
#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "net/task.hpp"
#include "telemetry/log.hpp"
#include "upstream/pool.hpp"

namespace tidegate::upstream {

bool Pool::take_shared(Server& server, Stream& stream) {
    while (const Http2ConnectionPtr first = server.find_http2()) {
        first->catch_up();
        if (first->has_room()) break;
    }
    Http2ConnectionPtr found = server.find_http2();
    // The stream takes the seat over.
    if (found == nullptr || !group_->seats().try_take()) return false;
    stream.open(server, std::move(found));
    return true;
}

// One request makes a connection, and as many as it will have room for wait for it. If the client
// of that request leaves meanwhile, one of the others begins anew.
Task<ConnectFault> Pool::share(Server& server, Sleeper& sleeper, Stream& stream, Seat& seat,
                               const std::function<bool()>& has_left, ConnectTerms terms) {
    const SteadyTime until = steady_now() + terms.patience;
    const auto left = [until] {
        return std::max(std::chrono::ceil<std::chrono::milliseconds>(until - steady_now()),
                        std::chrono::milliseconds{1});
    };
    for (;;) {
        if (Http2ConnectionPtr found = server.find_http2(terms.is_fresh)) {
            seat.release();
            stream.open(server, std::move(found));
            co_return ConnectFault::none;
        }
        // The server's SETTINGS may have come meanwhile.
        const std::size_t room =
            server.streams_said() > 0 ? server.streams_said() : http2_.settings.streams;
        Http2AttemptPtr attempt;
        for (const Http2AttemptPtr& one : server.attempts()) {
            if (one->requests < room) attempt = one;
        }
        if (attempt == nullptr) {
            Http2ConnectionPtr made;
            const Failure failure = co_await make_shared(server, sleeper, has_left, left(), made);
            if (failure.kind != ConnectFault::none) co_return failure.kind;
            // The request that made it uses it, even if another has room by now: an unused one
            // would outlive a server that was retired meanwhile, which it knows.
            if (made->has_room()) {
                seat.release();
                stream.open(server, std::move(made));
                co_return ConnectFault::none;
            }
            // The server has closed it already, or has said that it takes no requests.
            const ConnectFault why =
                made->is_over() ? ConnectFault::unreachable : ConnectFault::refused;
            made->close();
            if (server.find_http2(terms.is_fresh) == nullptr) co_return why;
            continue;
        }
        sleeper.allow(left());
        ++attempt->requests;
        Http2Waiter waiter(sleeper.wakeup());
        attempt->waiters.push_back(waiter);
        while (!attempt->outcome && !sleeper.expired()) {
            if (has_left()) co_return ConnectFault::client_left;
            co_await sleeper.sleep();
        }
        if (!attempt->outcome) co_return ConnectFault::timeout;
        const ConnectFault outcome = *attempt->outcome;
        if (outcome != ConnectFault::none && outcome != ConnectFault::client_left) {
            co_return outcome;
        }
        if (steady_now() >= until) co_return ConnectFault::timeout;
    }
}

// However this ends, the attempt wakes the requests that wait for it.
Task<Pool::Failure> Pool::make_shared(Server& server, Sleeper& sleeper,
                                      const std::function<bool()>& has_left,
                                      std::chrono::milliseconds patience,
                                      Http2ConnectionPtr& made) {
    struct Announced {
        ~Announced() {
            std::erase(of->attempts(), attempt);
            attempt->end(outcome);
        }
        ServerPtr of;
        Http2AttemptPtr attempt{new Http2Attempt};
        ConnectFault outcome = ConnectFault::client_left;
    };
    Announced announced{ServerPtr(&server)};
    server.attempts().push_back(announced.attempt);
    Reached reached = co_await reach(server, sleeper, has_left, patience);
    announced.outcome = reached.failure.kind;
    if (reached.failure.kind != ConnectFault::none) {
        note_connect_failure(server, reached.failure);
        co_return std::move(reached.failure);
    }
    made = Http2ConnectionPtr(new Http2Connection(http2_, server, std::move(reached.connection)));
    server.http2().push_back(made);
    spawn(executor_, Http2Connection::run(made), [](const std::exception_ptr& failure) {
        if (!failure) return;
        telemetry::log(telemetry::Level::error, "a connection to an upstream has failed: {}",
                       message_of(failure));
    });
    co_return Failure{};
}

Seat Pool::keep_shared_seat(Stream& stream) {
    Seat kept = stream.http2().evict() ? Seat(group_->seats()) : Seat();
    end_stream(stream);
    return kept;
}

// Of a request that has ended, or was evicted: the seat is free, unless another request has it.
void Pool::end_stream(Stream& stream) {
    Http2Stream& http2 = stream.http2();
    if (!http2) return;
    const ServerPtr server(&http2.server());
    const Http2ConnectionPtr connection = http2.connection();
    const bool has_seat = http2.evict();
    // Another request would wait as long in vain.
    if (http2.is_forlorn(steady_now())) connection->retire();
    if (TlsChannel* const tls = connection->tls()) server->remember(tls->take_session());
    http2.release();
    if (has_seat) group_->seats().give_back();
    close_if_unwanted(*server, *connection);
}

void Pool::close_if_unwanted(Server& server, Http2Connection& connection) {
    if (!connection.is_idle() || connection.is_over()) return;
    std::size_t idle = 0;
    for (const ServerPtr& one : all_.servers) {
        for (const Http2ConnectionPtr& other : one->http2()) idle += other->is_idle() ? 1U : 0U;
    }
    const bool is_unwanted = stopped_ || idle > idle_max_ || server.is_retired() ||
                             is_out(server) || connection.is_leaving() || connection.takes_none();
    if (is_unwanted) connection.close();
}

void Pool::sweep_shared(Server& server, SteadyTime now) {
    // Closing takes a connection off the list.
    const std::vector<Http2ConnectionPtr> all = server.http2();
    for (const Http2ConnectionPtr& connection : all) {
        if (!connection->is_idle()) continue;
        if (connection->idle_since() + settings().idle_timeout <= now || is_out(server)) {
            connection->close();
        } else {
            connection->rest(now);
        }
    }
}

void Pool::close_shared(Server& server, bool only_idle) {
    const std::vector<Http2ConnectionPtr> all = server.http2();
    for (const Http2ConnectionPtr& connection : all) {
        if (!only_idle || connection->is_idle()) {
            connection->close();
        } else {
            connection->retire();
        }
    }
}

}  // namespace tidegate::upstream
