#include "redis/server_connection.hpp"

#include <array>
#include <utility>

#include "net/name_lookup.hpp"
#include "tls/certificate.hpp"

namespace tidegate::redis {

namespace {

using Fault = ServerConnection::Fault;

// The interval between two looks whether a name was looked up.
constexpr std::chrono::milliseconds kLookupPause{5};
constexpr std::size_t kPieceBytes = 16'384;

Fault fault(std::string message) {
    return {false, false, std::move(message)};
}

}  // namespace

ServerConnection::ServerConnection(Executor executor, std::shared_ptr<const TlsClient> tls,
                                   std::string host)
    : tls_client_(std::move(tls)),
      host_(std::move(host)),
      stream_(StreamSocket(executor)),
      timer_(executor) {}

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
    stream_.socket().close(ignored);
    timer_.cancel();
}

// A name may have addresses where nothing listens.
Task<Fault> ServerConnection::open(std::uint16_t port) {
    const NameLookup lookup(host_, port);
    Timer pause(stream_.socket().get_executor());
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
    stream_.socket().close(ignored);
    const error_code ec = co_await stream_.connect(endpoint);
    // The time may have been over in the same turn of the loop.
    if (!ec && stream_.socket().is_open()) co_return Fault{};
    co_return fault_of(ec);
}

Task<Fault> ServerConnection::encrypt() {
    if (!tls_client_) co_return Fault{};
    TlsPtr tls = tls_client_->connection_to(host_);
    if (!tls) co_return Fault{true, false, "its host name is not valid in TLS"};
    stream_.begin_tls(std::move(tls));
    const error_code ec = co_await stream_.shake_hands();
    if (!ec) co_return Fault{};
    co_return late_ ? fault("no answer to the TLS handshake in time") : fault_of(ec);
}

Fault ServerConnection::fault_of(const error_code& ec) const {
    if (late_) return fault("no answer in time");
    if (stream_.tls() != nullptr) return tls_fault(stream_.tls(), ec, is_heard_);
    return fault(ec == asio::error::eof ? "it closed the connection" : ec.message());
}

Task<ServerConnection::Reply> ServerConnection::ask(std::string command) {
    const error_code unsent = co_await send(std::move(command));
    // The reason why the server has closed may lie there: an alert of TLS, or an error.
    Reply reply = co_await next();
    if (unsent && reply && !reply->is_error()) co_return fault_of(unsent);
    co_return reply;
}

Task<error_code> ServerConnection::send(std::string command) {
    co_return co_await stream_.write(command);
}

Task<ServerConnection::Reply> ServerConnection::next() {
    std::array<char, kPieceBytes> piece;
    while (true) {
        if (auto reply = reader_.next()) co_return std::move(*reply);
        if (reader_.is_broken()) co_return fault("its answer is not Redis's protocol");
        const auto [ec, bytes] = co_await stream_.read_some(piece);
        if (ec) co_return fault_of(ec);
        is_heard_ = true;
        // Bytes that do not fit break the reader, and the next turn reports that.
        reader_.feed({piece.data(), bytes});
    }
}

std::optional<Validity> ServerConnection::certificate_validity() const {
    return peer_validity(stream_.tls());
}

}  // namespace tidegate::redis
