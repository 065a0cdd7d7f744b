#include "admin/server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <list>
#include <tuple>
#include <utility>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "admin/timed_socket.hpp"
#include "telemetry/log.hpp"

namespace tidegate::admin {

namespace beast = boost::beast;
namespace http = beast::http;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kConnectionsMax = 64;
constexpr std::uint32_t kHeadBytesMax = 8 * 1024;
constexpr auto kStepPatience = 10s;
constexpr auto kReloadPatience = 60s;  // others may be before it
constexpr auto kCountsPatience = 60s;  // a bound: their source gives up long before
constexpr auto kLingerPatience = 1s;
constexpr auto kAcceptPause = 100ms;

using Parser = http::request_parser<http::empty_body>;
using Response = http::response<http::string_body>;

struct Connection {
    explicit Connection(StreamSocket peer)
        : socket(std::make_shared<TimedSocket>(std::move(peer))) {}

    std::shared_ptr<TimedSocket> socket;
    bool idle = true;  // nothing of a request has been read
};

// Loopback or a Unix socket: somebody on this machine.
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

// RFC 9112 section 6: a body is announced by one of these two.
bool announces_body(const Parser& parser) {
    const auto& head = parser.get();
    if (head.count(http::field::transfer_encoding) != 0) return true;
    const auto length = parser.content_length();
    return length && *length != 0;
}

int status_of(error_code ec) {
    if (ec == http::error::header_limit || ec == http::error::buffer_overflow) return 431;
    if (ec == http::error::bad_version) return 505;
    return 400;
}

// Whether the peer, and not the connection, is at fault.
bool is_parse_error(error_code ec) {
    return ec.category() == http::make_error_code(http::error::bad_target).category() &&
           ec != http::error::end_of_stream && ec != http::error::partial_message;
}

Response response_for(AdminAnswer answer, unsigned version, bool keep_alive) {
    Response response(static_cast<http::status>(answer.status), version);
    response.set(http::field::content_type, answer.content_type);
    response.set(http::field::cache_control, "no-store");
    if (!answer.allow.empty()) response.set(http::field::allow, answer.allow);
    if (!answer.authenticate.empty()) {
        response.set(http::field::www_authenticate, answer.authenticate);
    }
    response.keep_alive(keep_alive);
    response.body() = std::move(answer.body);
    response.prepare_payload();
    return response;
}

}  // namespace

struct AdminServer::Impl : std::enable_shared_from_this<Impl> {
    using Place = std::list<Connection>::iterator;

    Impl(Acceptor opened, AdminSources from)
        : acceptor(std::move(opened)),
          accept_pause(acceptor.get_executor()),
          sources(std::move(from)) {}

    void stop();
    // Makes room for one more by closing the connection that has idled longest; false when all are
    // at work.
    bool make_room();
    AdminAnswer answer(const Parser& parser, bool local) const;

    // Coroutines take the state by value: it lives as long as they do.
    static Task<> accept_all(std::shared_ptr<Impl> self);
    static Task<> serve(std::shared_ptr<Impl> self, Place connection);
    // One request and its answer; false when it was the connection's last.
    static Task<bool> serve_one(const Impl& self, Connection& connection,
                                beast::flat_buffer& buffer);
    static Task<bool> refuse(Connection& connection, int status);
    static Task<bool> send(Connection& connection, Response& response, bool head_only);

    Acceptor acceptor;
    Timer accept_pause;
    AdminSources sources;
    std::list<Connection> connections;
    bool stopped = false;
};

AdminServer::AdminServer(asio::io_context& io, Acceptor acceptor, AdminSources sources)
    : impl_(std::make_shared<Impl>(std::move(acceptor), std::move(sources))) {
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
    error_code ignored;
    acceptor.close(ignored);
    accept_pause.cancel();
    for (Connection& connection : connections) connection.socket->close();
}

bool AdminServer::Impl::make_room() {
    if (connections.size() < kConnectionsMax) return true;
    for (Connection& connection : connections) {
        if (!connection.idle || !connection.socket->socket().is_open()) continue;
        connection.socket->close();
        return true;
    }
    return false;
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
        if (!self->make_room()) continue;
        const Place place = self->connections.emplace(self->connections.end(), std::move(socket));
        spawn_vital(self->acceptor.get_executor(), serve(self, place));
    }
}

Task<> AdminServer::Impl::serve(std::shared_ptr<Impl> self, Place connection) {
    const std::shared_ptr<TimedSocket> socket = connection->socket;
    try {
        beast::flat_buffer buffer(kHeadBytesMax);
        while (co_await serve_one(*self, *connection, buffer)) {
        }
    } catch (const std::exception& error) {
        telemetry::log(telemetry::Level::error, "admin: {}", error.what());
    }
    socket->close();
    self->connections.erase(connection);
}

Task<bool> AdminServer::Impl::serve_one(const Impl& self, Connection& connection,
                                        beast::flat_buffer& buffer) {
    StreamSocket& socket = connection.socket->socket();
    connection.socket->expect_within(kStepPatience);
    connection.idle = buffer.size() == 0;
    if (connection.idle) {
        auto [ec] = co_await socket.async_wait(asio::socket_base::wait_read, as_values);
        if (ec) co_return false;
        connection.idle = false;
    }

    Parser parser;
    parser.header_limit(kHeadBytesMax);
    auto [ec, bytes] = co_await http::async_read_header(socket, buffer, parser, as_values);
    if (is_parse_error(ec)) co_return co_await refuse(connection, status_of(ec));
    if (ec || self.stopped) co_return false;
    if (announces_body(parser)) co_return co_await refuse(connection, 413);

    const auto& head = parser.get();
    AdminAnswer answer = self.answer(parser, is_local(socket));
    if (answer.reload) {
        connection.socket->expect_within(kReloadPatience);
        answer = answer_to_reload(co_await self.sources.reload());
    } else if (answer.counts) {
        connection.socket->expect_within(kCountsPatience);
        answer = co_await self.sources.counts(std::move(*answer.counts));
    }
    Response response = response_for(std::move(answer), head.version(), head.keep_alive());
    co_return co_await send(connection, response, head.method() == http::verb::head);
}

AdminAnswer AdminServer::Impl::answer(const Parser& parser, bool local) const {
    const auto& head = parser.get();
    AdminRequest request;
    request.method = head.method_string();
    request.target = head.target();
    request.local = local;
    request.has_origin = head.count(http::field::origin) != 0;
    if (head.count(http::field::host) == 1) request.host = head[http::field::host];
    if (head.count(http::field::authorization) == 1) {
        request.authorization = head[http::field::authorization];
    }
    try {
        return answer_to(request, sources);
    } catch (const std::exception& error) {
        // Without the query, which may hold a secret.
        telemetry::log(telemetry::Level::error, "admin: {}: {}",
                       std::string(request.target.substr(0, request.target.find('?'))),
                       error.what());
        return problem(500);
    }
}

Task<bool> AdminServer::Impl::refuse(Connection& connection, int status) {
    Response response = response_for(problem(status), 11, false);
    co_await send(connection, response, false);
    co_await connection.socket->close_gently(kLingerPatience);
    co_return false;
}

Task<bool> AdminServer::Impl::send(Connection& connection, Response& response, bool head_only) {
    StreamSocket& socket = connection.socket->socket();
    connection.socket->expect_within(kStepPatience);
    http::response_serializer<http::string_body> serializer(response);
    error_code ec;
    if (head_only) {
        // Content-Length says what GET would bring (RFC 9110 section 9.3.2).
        serializer.split(true);
        std::tie(ec, std::ignore) =
            co_await http::async_write_header(socket, serializer, as_values);
    } else {
        std::tie(ec, std::ignore) = co_await http::async_write(socket, serializer, as_values);
    }
    co_return !ec && response.keep_alive();
}

}  // namespace tidegate::admin
