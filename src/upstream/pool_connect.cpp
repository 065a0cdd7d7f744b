// How a pool makes a connection to a server, in the clear or over TLS, and how requests share one
// in HTTP/2.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "net/descriptor.hpp"
#include "net/task.hpp"
#include "net/tls_fault.hpp"
#include "telemetry/error_log.hpp"
#include "tls/tls_client.hpp"
#include "upstream/pool.hpp"

namespace tidegate::upstream {

namespace {

// A server that vanished silently must not keep requests waiting on a shared connection: what it
// has not acknowledged for so long ends the connection. (Many servers punish pings.)
constexpr int kUserTimeoutMs = 30'000;

// Begins to connect a new `descriptor` without waiting. Returns 0, EINPROGRESS, or the error.
int begin_connect(const SharedServer& server, Descriptor& descriptor) {
    const StreamProtocol::endpoint& endpoint = server.endpoint;
    const int family = endpoint.protocol().family();
    descriptor = Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!descriptor) return errno;
    const int on = 1;
    if (family != AF_UNIX) {
        ::setsockopt(descriptor.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (server.is_http2) {
            ::setsockopt(descriptor.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs,
                         sizeof kUserTimeoutMs);
        }
    }
    const int outcome =
        ::connect(descriptor.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size()));
    return outcome == 0 ? 0 : errno;
}

constexpr const char* kNoHttp2 = "it does not offer HTTP/2 (ALPN h2)";

}  // namespace

Task<Pool::ConnectFault> Pool::connect(Server& server, Sleeper& sleeper, Stream& stream, Seat& seat,
                                       const std::function<bool()>& has_left, ConnectTerms terms) {
    if (server.speaks_http2()) {
        co_return co_await share(server, sleeper, stream, seat, has_left, terms);
    }
    Reached reached = co_await reach(server, sleeper, has_left, terms.patience);
    if (reached.failure.kind == ConnectFault::none) {
        seat.release();
        stream.open(server, std::move(reached.connection), false);
    } else {
        note_connect_failure(server, reached.failure);
    }
    co_return reached.failure.kind;
}

Task<Pool::Reached> Pool::reach(Server& server, Sleeper& sleeper,
                                const std::function<bool()>& has_left,
                                std::chrono::milliseconds patience) {
    // However this ends, the connection closes unless the caller takes it over.
    struct Attempt {
        ~Attempt() {
            if (connection) pool.close(connection);
        }
        Pool& pool;
        ConnectionPtr connection;
    };
    Descriptor descriptor;
    int error = begin_connect(server.shared(), descriptor);
    Attempt attempt{*this, new Connection(readiness_, std::move(descriptor))};
    ConnectionPtr& connection = attempt.connection;
    metrics_.connections.opened.add();
    const bool is_tls = !server.shared().tls_host.empty();
    if (error == EINPROGRESS || is_tls) sleeper.allow(patience);
    if (error == EINPROGRESS) {
        connection->watch_write(&sleeper.wakeup());
        while (!connection->writable() && !sleeper.expired()) {
            if (has_left()) co_return Reached{{ConnectFault::client_left}};
            co_await sleeper.sleep();
        }
        error = connection->writable() ? connection->connect_error() : ETIMEDOUT;
    }
    Failure failure = failure_of(error);
    if (is_tls && error == 0)
        failure = co_await shake_hands(*connection, server, sleeper, has_left);
    if (failure.kind != ConnectFault::none) co_return Reached{std::move(failure)};
    co_return Reached{{}, std::move(connection)};
}

void Pool::note_connect_failure(Server& server, const Failure& failure) {
    if (failure.kind == ConnectFault::client_left) return;
    metrics_.count_upstream_failure(metrics_slot_);
    group_->note_failure(server.shared(), balance::ServerFailure::connect, failure.error,
                         failure.tls_why);
}

Pool::Failure Pool::failure_of(int error) {
    if (error == 0) return {};
    return {error == ETIMEDOUT ? ConnectFault::timeout : ConnectFault::unreachable, error};
}

// Within what is left of the time of reach().
Task<Pool::Failure> Pool::shake_hands(Connection& connection, Server& server, Sleeper& sleeper,
                                      const std::function<bool()>& has_left) {
    const bool is_http2 = server.shared().is_http2;
    TlsPtr tls =
        tls_->connection_to(server.shared().tls_host, server.take_session(),
                            is_http2 ? TlsClient::Offer::http2 : TlsClient::Offer::nothing);
    if (tls == nullptr)
        co_return Failure{ConnectFault::tls, 0, "its host name is not valid in TLS"};
    connection.begin_tls(std::move(tls), TlsSide::client);
    for (;;) {
        const IoStatus status = connection.shake_hands();
        if (status == IoStatus::ok) {
            if (!is_http2 || connection.tls()->speaks_http2()) co_return Failure{};
            co_return Failure{ConnectFault::no_http2, 0, kNoHttp2};
        }
        if (status != IoStatus::would_block) {
            if (is_http2 && refuses_protocol(connection.tls()->error())) {
                co_return Failure{ConnectFault::no_http2, 0, kNoHttp2};
            }
            co_return Failure{ConnectFault::tls, 0, tls_fault(*connection.tls(), false).message};
        }
        connection.watch_read(&sleeper.wakeup());
        while (!connection.readable() && !sleeper.expired()) {
            if (has_left()) co_return Failure{ConnectFault::client_left};
            co_await sleeper.sleep();
        }
        if (!connection.readable()) {
            co_return Failure{ConnectFault::timeout, 0,
                              "it does not end the TLS handshake in time"};
        }
    }
}

bool Pool::note_tls_failure(const Stream& stream) {
    if (stream.is_reused() || stream.has_answered()) return false;
    const TlsChannel* const tls =
        stream.is_http2() ? stream.http2().connection()->tls() : stream.http1().connection()->tls();
    if (tls == nullptr) return false;
    const TlsFault fault = tls_fault(*tls, false);
    if (!fault.refused) return false;
    group_->note_failure(stream.server().shared(), balance::ServerFailure::broken, 0,
                         fault.message);
    return true;
}

bool Pool::note_no_http2(const Stream& stream) {
    if (!stream.is_http2() || !stream.http2().is_foreign()) return false;
    group_->note_failure(stream.server().shared(), balance::ServerFailure::broken, 0,
                         "it does not speak HTTP/2");
    return true;
}

// Session tickets come with the first answer.
void Pool::remember_session(Http1Stream& stream) {
    if (TlsChannel* const tls = stream.connection()->tls()) {
        stream.server().remember(tls->take_session());
    }
}

void Pool::close(const ConnectionPtr& connection) {
    // Over TLS the server gets a close_notify. A request states its own length, so that a request
    // which was cut off does not look whole by it.
    if (connection->tls() != nullptr && !connection->is_broken()) connection->shutdown_send();
    connection->close();
    metrics_.connections.closed.add();
}

void Pool::forget(const ConnectionPtr& connection) {
    close(connection);
    if (!keeps_seats_) group_->seats().give_back();
}

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
