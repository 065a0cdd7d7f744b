#include "admin/server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <list>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "admin/answer.hpp"
#include "base/timestamp.hpp"
#include "http/field.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"
#include "http/problem.hpp"
#include "net/byte_stream.hpp"
#include "net/descriptor.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::admin {

using namespace std::chrono_literals;

namespace {

// The facts of a request that its answer needs.
struct AskedFacts {
    int minor_version = 1;
    bool keep_alive = false;
    bool is_head = false;
};

std::string date_of_now() {
    std::string date;
    append_http_date(std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()),
                     date);
    return date;
}

int status_of(http::HeadFault fault) {
    if (fault == http::HeadFault::too_large) return 431;
    if (fault == http::HeadFault::bad_version) return 505;
    return 400;
}

// The status that refuses a request with a body, or with one of unclear length; 0: it has no body.
int status_of_body(http::FramingFault fault, const http::Framing& framing) {
    if (fault == http::FramingFault::none) return framing.body == http::BodyKind::none ? 0 : 413;
    return fault == http::FramingFault::bad_transfer_encoding ? 413 : 400;
}

std::string head_of(const AdminAnswer& answer, std::size_t body_bytes, const AskedFacts& asked) {
    std::string head = fmt::format("HTTP/1.{} {} {}\r\n", asked.minor_version, answer.status,
                                   http::status_title(answer.status));
    http::append_field("Content-Type", answer.content_type, head);
    http::append_field("Cache-Control", "no-store", head);
    http::append_field("X-Content-Type-Options", "nosniff", head);
    if (answer.page) http::append_field("Content-Security-Policy", kPagePolicy, head);
    http::append_field("Date", date_of_now(), head);
    if (!answer.allow.empty()) http::append_field("Allow", answer.allow, head);
    if (!answer.authenticate.empty()) {
        http::append_field("WWW-Authenticate", answer.authenticate, head);
    }
    if (answer.retry_after_seconds) {
        http::append_field("Retry-After", std::to_string(*answer.retry_after_seconds), head);
    }
    if (answer.exit_code) {
        http::append_field(kExitCodeField, static_cast<std::uint64_t>(*answer.exit_code), head);
    }
    // The default differs (RFC 9112 section 9.3).
    if (asked.keep_alive != (asked.minor_version == 1)) {
        http::append_field("Connection", asked.keep_alive ? "keep-alive" : "close", head);
    }
    http::append_field("Content-Length", body_bytes, head);
    return head + "\r\n";
}

constexpr std::size_t kHeadBytesMax = std::size_t{8} * 1024;
// What the kernel keeps of an answer that its peer does not take; the kernel doubles it.
constexpr int kSendBufferBytes = 64 * 1024;
constexpr auto kWorkPatience = 60s;  // other reloads may be before one; all else gives up sooner
constexpr auto kLingerPatience = 1s;
constexpr auto kAcceptPause = 100ms;
constexpr int kAcceptedAtOnce = 32;
constexpr std::int64_t kRetryAfterSeconds = 1;
constexpr std::string_view kTooMuchWork =
    "Tidegate is working on too many admin requests (reload, rollback, inspect, reset, top, "
    "denials); try "
    "again later.";

using Body = std::shared_ptr<const std::string>;

struct AdminConnection {
    explicit AdminConnection(StreamSocket peer)
        : socket(std::make_shared<TimedSocket>(std::move(peer))) {}

    std::shared_ptr<TimedSocket> socket;
    bool waits_for_peer = true;  // to send a whole request, or to take the answer
    bool at_work = false;        // on a reload, or on what asks the store
    Body answer;                 // that the peer has not taken yet
};

// Loopback or a Unix socket: a peer on this machine.
bool is_local(const StreamSocket& socket) {
    error_code ec;
    const auto peer = socket.remote_endpoint(ec);
    if (ec) return false;
    if (peer.protocol().family() == AF_UNIX) return true;
    asio::ip::tcp::endpoint address;
    if (peer.size() > address.capacity()) return false;
    address.resize(peer.size());
    std::copy_n(reinterpret_cast<const char*>(peer.data()), peer.size(),
                reinterpret_cast<char*>(address.data()));
    const asio::ip::address ip = address.address();
    if (ip.is_v6() && ip.to_v6().is_v4_mapped()) {
        return asio::ip::make_address_v4(asio::ip::v4_mapped, ip.to_v6()).is_loopback();
    }
    return ip.is_loopback();
}

// For the log: without the query, which may hold a secret.
std::string_view path_text(std::string_view target) {
    return target.substr(0, target.find('?'));
}

Body body_of(std::string text) {
    return std::make_shared<const std::string>(std::move(text));
}

}  // namespace

struct AdminServer::Impl : std::enable_shared_from_this<Impl> {
    using Place = std::list<AdminConnection>::iterator;

    Impl(Acceptor opened, AdminSources from, const AdminBounds& within)
        : acceptor(std::move(opened)),
          accept_pause(acceptor.get_executor()),
          sources(std::move(from)),
          bounds(within) {
        acceptor.non_blocking(true);
    }

    void stop();
    // Makes room for one more connection; false when every one is at work.
    bool make_room();
    // From now on `connection` waits for its peer, for `patience` at most.
    void wait_for_peer(Place connection, std::chrono::milliseconds patience);
    // Closes the connection that has waited longest for its peer, of those that `filter` lets pass;
    // false when there is none.
    template <class Filter>
    bool close_longest_waiting(Filter filter);
    // Makes room for one more answer.
    void bound_answers(const Body& newest);
    AdminAnswer answer(const http::RequestHead& head, bool local);
    // Once a minute, as the requests may be many.
    void log_refusal(const AdminRequest& request, std::string_view why);

    void admit(StreamSocket socket);

    // Coroutines take the state by value: it lives as long as they do.
    static Task<> accept_all(std::shared_ptr<Impl> self);
    static Task<> serve(std::shared_ptr<Impl> self, Place connection);
    // One request and its answer; false when it was the connection's last.
    static Task<bool> serve_one(Impl& self, Place connection, MessageReader& reader);
    static Task<Body> metrics(Impl& self);
    // The answer to a request that may take long, or the reason why it has to wait.
    static Task<AdminAnswer> work(Impl& self, Place connection, AdminAnswer asked);
    static Task<bool> refuse(Impl& self, Place connection, int status);
    static Task<bool> send(Impl& self, Place connection, const AdminAnswer& answer, Body body,
                           AskedFacts asked);

    Acceptor acceptor;
    Timer accept_pause;
    AdminSources sources;
    const AdminBounds bounds;
    // Connections that wait for their peers, in the order in which they began to wait.
    std::list<AdminConnection> connections;
    std::shared_ptr<Body> next_metrics;  // for the requests of this turn of the loop
    telemetry::LogInterval log_interval;
    telemetry::LogInterval refusal_interval;
    bool stopped = false;
};

AdminServer::AdminServer(asio::io_context& io, Acceptor acceptor, AdminSources sources,
                         AdminBounds bounds)
    : impl_(std::make_shared<Impl>(std::move(acceptor), std::move(sources), bounds)) {
    spawn_vital(io.get_executor(), Impl::accept_all(impl_));
}

AdminServer::~AdminServer() {
    impl_->stop();
}

void AdminServer::stop() {
    impl_->stop();
}

void AdminServer::Impl::stop() {
    stopped = true;
    // Released first, as the process that takes this one's place may have the socket, too.
    error_code failure;
    if (acceptor.is_open()) const Descriptor closed(acceptor.release(failure));
    accept_pause.cancel();
    for (AdminConnection& connection : connections) connection.socket->close();
}

bool AdminServer::Impl::make_room() {
    if (connections.size() < bounds.connections) return true;
    if (log_interval.is_due(Timer::clock_type::now())) {
        telemetry::log(telemetry::Level::warn,
                       "admin: all {} connections are in use; the listener closes the one that has "
                       "waited longest for its client, for each new one",
                       bounds.connections);
    }
    return close_longest_waiting([](const AdminConnection&) { return true; });
}

void AdminServer::Impl::wait_for_peer(Place connection, std::chrono::milliseconds patience) {
    connection->socket->expect_within(patience);
    connection->waits_for_peer = true;
    connections.splice(connections.end(), connections, connection);
}

template <class Filter>
bool AdminServer::Impl::close_longest_waiting(Filter filter) {
    for (AdminConnection& connection : connections) {
        if (!connection.waits_for_peer || !connection.socket->socket().is_open()) continue;
        if (!filter(connection)) continue;
        connection.socket->close();
        return true;
    }
    return false;
}

void AdminServer::Impl::bound_answers(const Body& newest) {
    const auto others_bytes = [&] {
        std::set<Body> others;  // connections share the text of metrics
        for (const AdminConnection& connection : connections) {
            if (connection.socket->socket().is_open()) others.insert(connection.answer);
        }
        std::size_t bytes = 0;
        for (const Body& other : others) bytes += other && other != newest ? other->size() : 0;
        return bytes;
    };
    const auto is_other = [&](const AdminConnection& connection) {
        return connection.answer && connection.answer != newest;
    };
    while (others_bytes() > bounds.answer_bytes && close_longest_waiting(is_other)) {
    }
}

Task<> AdminServer::Impl::accept_all(std::shared_ptr<Impl> self) {
    while (!self->stopped) {
        auto [ec, socket] = co_await self->acceptor.async_accept(as_values);
        if (self->stopped) co_return;
        if (ec) {
            // No descriptors left, most likely: they come back.
            telemetry::log(telemetry::Level::warn, "admin: cannot accept: {}", ec.message());
            self->accept_pause.expires_after(kAcceptPause);
            co_await self->accept_pause.async_wait(as_values);
            continue;
        }
        self->admit(std::move(socket));
        // Takes the connections that have come meanwhile, too, so that one turn serves their
        // requests.
        for (int more = 1; more < kAcceptedAtOnce; ++more) {
            StreamSocket next = self->acceptor.accept(ec);
            if (ec) break;
            self->admit(std::move(next));
        }
    }
}

void AdminServer::Impl::admit(StreamSocket socket) {
    if (!make_room()) return;
    error_code ignored;
    socket.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
    const Place place = connections.emplace(connections.end(), std::move(socket));
    spawn_vital(acceptor.get_executor(), serve(shared_from_this(), place));
}

Task<> AdminServer::Impl::serve(std::shared_ptr<Impl> self, Place connection) {
    const std::shared_ptr<TimedSocket> socket = connection->socket;
    try {
        MessageReader reader(*socket, kHeadBytesMax);
        while (co_await serve_one(*self, connection, reader)) {
        }
    } catch (const std::exception& error) {
        telemetry::log(telemetry::Level::error, "admin: {}", error.what());
    }
    socket->close();
    self->connections.erase(connection);
}

Task<bool> AdminServer::Impl::serve_one(Impl& self, Place connection, MessageReader& reader) {
    self.wait_for_peer(connection, self.bounds.patience);
    http::RequestHead head;
    const bool is_read = co_await reader.read_head(head);
    if (reader.fault().ec || (is_read && self.stopped)) co_return false;
    if (!is_read) co_return co_await refuse(self, connection, status_of(reader.fault().head));
    connection->waits_for_peer = false;
    http::Framing framing;
    const int status = status_of_body(http::local_request_framing(head, framing), framing);
    if (status != 0) co_return co_await refuse(self, connection, status);

    AdminAnswer answer = self.answer(head, is_local(connection->socket->socket()));
    Body body;
    if (answer.metrics) {
        body = co_await metrics(self);
        if (!body) answer = problem(500);
    } else if (answer.work) {
        answer = co_await work(self, connection, std::move(answer));
    }
    if (self.stopped) co_return false;
    if (!body) body = body_of(std::move(answer.body));
    const AskedFacts asked{head.minor_version, framing.keep_alive, head.method == "HEAD"};
    co_return co_await send(self, connection, answer, std::move(body), asked);
}

void AdminServer::Impl::log_refusal(const AdminRequest& request, std::string_view why) {
    if (!refusal_interval.is_due(Timer::clock_type::now())) return;
    telemetry::log(telemetry::Level::warn, "admin: {} {} is refused: {} (logged once a minute)",
                   request.method, path_text(request.target), why);
}

AdminAnswer AdminServer::Impl::answer(const http::RequestHead& head, bool local) {
    AdminRequest request;
    request.method = head.method;
    request.target = head.target;
    request.local = local;
    request.has_origin = std::any_of(
        head.fields.begin(), head.fields.end(),
        [](const http::Field& field) { return http::equal_ignoring_case(field.name, "origin"); });
    request.origin = http::single_value(head.fields, "origin");
    request.host = http::single_value(head.fields, "host");
    request.authorization = http::single_value(head.fields, "authorization");
    try {
        AdminAnswer answer = answer_to(request, sources);
        if (!answer.refusal.empty()) log_refusal(request, answer.refusal);
        return answer;
    } catch (const std::exception& error) {
        telemetry::log(telemetry::Level::error, "admin: {}: {}", path_text(request.target),
                       error.what());
        return problem(500);
    }
}

// The server makes the text once for all requests that arrive in one turn of the loop, so that a
// crowd of scrapers does not keep `/healthz` waiting. Null when it cannot be made.
Task<Body> AdminServer::Impl::metrics(Impl& self) {
    if (!self.next_metrics) self.next_metrics = std::make_shared<Body>();
    const std::shared_ptr<Body> mine = self.next_metrics;
    co_await asio::post(self.acceptor.get_executor(), as_values);
    if (!*mine && !self.stopped) {
        self.next_metrics.reset();
        try {
            *mine = body_of(self.sources.metrics());
        } catch (const std::exception& error) {
            telemetry::log(telemetry::Level::error, "admin: /metrics: {}", error.what());
        }
    }
    co_return *mine;
}

// Work goes on when its client has left, and keeps its place among `at_work` until it ends.
Task<AdminAnswer> AdminServer::Impl::work(Impl& self, Place connection, AdminAnswer asked) {
    const auto at_work = std::count_if(self.connections.begin(), self.connections.end(),
                                       [](const AdminConnection& other) { return other.at_work; });
    if (static_cast<std::size_t>(at_work) >= self.bounds.at_work) {
        co_return problem(503, kTooMuchWork, kRetryAfterSeconds);
    }
    connection->at_work = true;
    connection->socket->expect_within(kWorkPatience);
    AdminAnswer answer = co_await asked.work();
    connection->at_work = false;
    co_return answer;
}

Task<bool> AdminServer::Impl::refuse(Impl& self, Place connection, int status) {
    AdminAnswer answer = problem(status);
    Body body = body_of(std::move(answer.body));
    co_await send(self, connection, answer, std::move(body), AskedFacts{});
    co_await connection->socket->close_gently(kLingerPatience);
    co_return false;
}

Task<bool> AdminServer::Impl::send(Impl& self, Place connection, const AdminAnswer& answer,
                                   Body body, AskedFacts asked) {
    const std::string head = head_of(answer, body->size(), asked);
    // Content-Length says what GET would bring (RFC 9110 section 9.3.2).
    const std::string_view sent = asked.is_head ? std::string_view() : *body;
    self.bound_answers(body);
    connection->answer = std::move(body);
    self.wait_for_peer(connection, self.bounds.patience);
    const error_code ec = co_await connection->socket->write(head, sent);
    connection->answer.reset();
    co_return !ec && asked.keep_alive;
}

}  // namespace tidegate::admin
