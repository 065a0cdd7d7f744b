#include "redis/sentinel_connection.hpp"

#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include <boost/asio/write.hpp>

#include "base/quote.hpp"
#include "net/name_lookup.hpp"
#include "net/tls_fault.hpp"
#include "redis/client.hpp"

namespace tidegate::redis {

namespace {

using Answer = SentinelConnection::Answer;
using Fault = SentinelConnection::Fault;

// How often a look-up that is under way is asked whether it is done.
constexpr std::chrono::milliseconds kLookupPause{10};
constexpr std::size_t kPieceBytes = 4'096;

}  // namespace

SentinelConnection::SentinelConnection(Executor executor, const SentinelOptions& options,
                                       const SentinelNode& node)
    : options_(options), node_(node), socket_(executor), timer_(executor) {}

void SentinelConnection::expect_within(std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait([weak = weak_from_this()](const error_code& ec) {
        const auto self = weak.lock();
        // One that was replaced may have been on its way already.
        if (!self || ec || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
        self->late_ = true;
        self->close();
    });
}

void SentinelConnection::close() {
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
}

Task<Answer> SentinelConnection::open(std::shared_ptr<SentinelConnection> self) {
    std::string failed = co_await self->connect();
    if (!failed.empty()) co_return Fault{false, std::move(failed)};
    const SentinelOptions& options = self->options_;
    if (options.tls) {
        Fault fault = co_await self->shake_hands();
        if (!fault.message.empty()) co_return fault;
    }
    if (options.password.empty()) co_return SentinelReply{};
    std::string command;
    if (options.username.empty()) {
        append_resp({"AUTH", options.password}, command);
    } else {
        append_resp({"AUTH", options.username, options.password}, command);
    }
    Answer answer = co_await self->ask(std::move(command));
    if (!answer) answer = Fault{answer.error().denied, "the password: " + answer.error().message};
    co_return answer;
}

// Empty when connected. A name may have addresses where nobody listens.
Task<std::string> SentinelConnection::connect() {
    const NameLookup lookup(node_.host, static_cast<std::uint16_t>(node_.port));
    Timer pause(socket_.get_executor());
    while (!lookup.done()) {
        if (late_) co_return "its name could not be looked up in time";
        pause.expires_after(kLookupPause);
        co_await pause.async_wait(as_values);
    }
    if (lookup.endpoints().empty()) co_return "cannot resolve the name: " + lookup.error();
    error_code last;
    for (const auto& found : lookup.endpoints()) {
        if (late_) break;
        asio::ip::tcp::endpoint endpoint;
        endpoint.resize(found.size());
        std::memcpy(endpoint.data(), found.data(), found.size());
        error_code ignored;
        socket_.close(ignored);
        const auto [ec] = co_await socket_.async_connect(endpoint, as_values);
        // The time may have been over in the same turn of the loop.
        if (!ec && socket_.is_open()) co_return std::string();
        last = ec;
    }
    co_return reason(last);
}

Task<Fault> SentinelConnection::shake_hands() {
    TlsPtr tls = options_.tls->connection_to(node_.host);
    if (!tls) co_return Fault{true, "its name cannot be asked for in TLS"};
    tls_.emplace(socket_, tls.release());
    const auto [ec] = co_await tls_->async_handshake(asio::ssl::stream_base::client, as_values);
    if (!ec) co_return Fault{};
    co_return fault_of(ec);
}

Fault SentinelConnection::fault_of(error_code ec) {
    if (late_ || !tls_) return {false, reason(ec)};
    TlsFault fault = tls_fault(tls_->native_handle(), ec, is_heard_);
    return {fault.refused, std::move(fault.message)};
}

std::string SentinelConnection::reason(error_code ec) const {
    if (late_) return "no answer";
    return ec == asio::error::eof ? "connection closed" : ec.message();
}

Task<Answer> SentinelConnection::ask(std::string command) {
    const error_code unsent = co_await send(std::move(command));
    // Why the sentinel has closed may lie there: an alert of TLS, or an error.
    Answer answer = co_await next();
    if (unsent && answer && answer->kind != SentinelReply::Kind::error) answer = fault_of(unsent);
    if (!answer || answer->kind != SentinelReply::Kind::error) co_return answer;
    // Old servers repeat the words of a command they do not know: one of AUTH's is the password.
    const std::string_view error = answer->text;
    co_return Fault{is_denial(error), quote(error.substr(0, error.find(", with args")))};
}

Task<error_code> SentinelConnection::send(std::string command) {
    const auto bytes = asio::buffer(command);
    error_code ec;
    if (tls_) {
        std::tie(ec, std::ignore) = co_await asio::async_write(*tls_, bytes, as_values);
    } else {
        std::tie(ec, std::ignore) = co_await asio::async_write(socket_, bytes, as_values);
    }
    co_return ec;
}

Task<Answer> SentinelConnection::next() {
    std::array<char, kPieceBytes> piece;
    while (true) {
        if (auto reply = reader_.next()) co_return std::move(*reply);
        if (reader_.is_broken()) co_return Fault{false, "what it says is not a sentinel's answer"};
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
        if (!reader_.feed({piece.data(), bytes})) {
            co_return Fault{false, "what it says is not a sentinel's answer"};
        }
    }
}

}  // namespace tidegate::redis
