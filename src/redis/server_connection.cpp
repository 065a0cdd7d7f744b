#include "redis/server_connection.hpp"

#include <array>
#include <tuple>
#include <utility>

#include <boost/asio/write.hpp>
#include <openssl/ssl.h>

#include "net/name_lookup.hpp"
#include "tls/certificate.hpp"

namespace tidegate::redis {

namespace {

using Fault = ServerConnection::Fault;

// Between two looks whether a name was looked up.
constexpr std::chrono::milliseconds kLookupPause{5};
constexpr std::size_t kPieceBytes = 16'384;

Fault fault(std::string message) {
    return {false, false, std::move(message)};
}

}  // namespace

ServerConnection::ServerConnection(Executor executor, std::shared_ptr<const TlsClient> tls,
                                   std::string host)
    : tls_client_(std::move(tls)), host_(std::move(host)), socket_(executor), timer_(executor) {}

void ServerConnection::expect_within(std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait([weak = weak_from_this()](const error_code& ec) {
        const auto self = weak.lock();
        // One that was replaced may have been on its way already.
        if (!self || ec || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
        self->late_ = true;
        self->close();
    });
}

void ServerConnection::close() {
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
}

// A name may have addresses where nothing listens.
Task<Fault> ServerConnection::open(std::uint16_t port) {
    const NameLookup lookup(host_, port);
    Timer pause(socket_.get_executor());
    while (!lookup.done()) {
        if (late_) co_return fault("its host name could not be resolved in time");
        pause.expires_after(kLookupPause);
        co_await pause.async_wait(as_values);
    }
    Fault failed = fault("its host name cannot be resolved: " + lookup.error());
    for (const Endpoint& endpoint : lookup.endpoints()) {
        failed = co_await connect(endpoint);
        if (failed.message.empty()) co_return co_await encrypt();
        if (late_) break;
    }
    co_return failed;
}

Task<Fault> ServerConnection::connect(const Endpoint& endpoint) {
    error_code ignored;
    socket_.close(ignored);
    const auto [ec] = co_await socket_.async_connect(endpoint, as_values);
    // The time may have been over in the same turn of the loop.
    if (!ec && socket_.is_open()) co_return Fault{};
    co_return fault_of(ec);
}

Task<Fault> ServerConnection::encrypt() {
    if (!tls_client_) co_return Fault{};
    TlsPtr tls = tls_client_->connection_to(host_);
    if (!tls) co_return Fault{true, false, "its host name is not valid in TLS"};
    tls_.emplace(socket_, tls.release());
    const auto [ec] = co_await tls_->async_handshake(asio::ssl::stream_base::client, as_values);
    if (!ec) co_return Fault{};
    co_return late_ ? fault("no answer to the TLS handshake in time") : fault_of(ec);
}

Fault ServerConnection::fault_of(const error_code& ec) const {
    if (late_) return fault("no answer in time");
    // asio's accessor is not const, though what it gives is a pointer.
    if (tls_) return tls_fault(const_cast<TlsStream&>(*tls_).native_handle(), ec, is_heard_);
    return fault(ec == asio::error::eof ? "it closed the connection" : ec.message());
}

Task<ServerConnection::Reply> ServerConnection::ask(std::string command) {
    const error_code unsent = co_await send(std::move(command));
    // Why the server has closed may lie there: an alert of TLS, or an error.
    Reply reply = co_await next();
    if (unsent && reply && !reply->is_error()) co_return fault_of(unsent);
    co_return reply;
}

Task<error_code> ServerConnection::send(std::string command) {
    const auto bytes = asio::buffer(command);
    error_code ec;
    if (tls_) {
        std::tie(ec, std::ignore) = co_await asio::async_write(*tls_, bytes, as_values);
    } else {
        std::tie(ec, std::ignore) = co_await asio::async_write(socket_, bytes, as_values);
    }
    co_return ec;
}

Task<ServerConnection::Reply> ServerConnection::next() {
    std::array<char, kPieceBytes> piece;
    while (true) {
        if (auto reply = reader_.next()) co_return std::move(*reply);
        if (reader_.is_broken()) co_return fault("its answer is not Redis's protocol");
        const auto room = asio::buffer(piece);
        error_code ec;
        std::size_t bytes = 0;
        if (tls_) {
            std::tie(ec, bytes) = co_await tls_->async_read_some(room, as_values);
        } else {
            std::tie(ec, bytes) = co_await socket_.async_read_some(room, as_values);
        }
        if (ec) co_return fault_of(ec);
        is_heard_ = true;
        // What does not fit breaks the reader, and the next turn says so.
        reader_.feed({piece.data(), bytes});
    }
}

std::optional<std::chrono::system_clock::time_point> ServerConnection::certificate_until() const {
    if (!tls_) return std::nullopt;
    SSL* const tls = const_cast<TlsStream&>(*tls_).native_handle();
    const CertificatePtr certificate(SSL_get1_peer_certificate(tls));
    if (certificate == nullptr) return std::nullopt;
    return valid_until(*certificate);
}

}  // namespace tidegate::redis
