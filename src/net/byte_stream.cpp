#include "net/byte_stream.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <boost/asio/ssl/stream.hpp>

namespace tidegate {

struct ByteStream::Tls {
    asio::ssl::stream<StreamSocket&> stream;
};

ByteStream::ByteStream(StreamSocket socket) : socket_(std::move(socket)) {}

ByteStream::~ByteStream() = default;

SSL* ByteStream::tls() const {
    return tls_ ? tls_->stream.native_handle() : nullptr;
}

Task<error_code> ByteStream::connect(Endpoint endpoint) {
    const auto [ec] = co_await socket_.async_connect(endpoint, as_values);
    co_return ec;
}

void ByteStream::begin_tls(TlsPtr tls) {
    tls_.reset(new Tls{{socket_, tls.release()}});
}

Task<error_code> ByteStream::shake_hands() {
    const auto [ec] =
        co_await tls_->stream.async_handshake(asio::ssl::stream_base::client, as_values);
    co_return ec;
}

Task<ByteStream::Received> ByteStream::read_some(std::span<char> into) {
    const asio::mutable_buffer room(into.data(), into.size());
    Received received;
    if (tls_) {
        std::tie(received.ec, received.bytes) =
            co_await tls_->stream.async_read_some(room, as_values);
    } else {
        std::tie(received.ec, received.bytes) = co_await socket_.async_read_some(room, as_values);
    }
    co_return received;
}

Task<error_code> ByteStream::write(std::string_view first, std::string_view second) {
    std::array<asio::const_buffer, 2> left{asio::buffer(first), asio::buffer(second)};
    error_code ec;
    while (!ec && asio::buffer_size(left) != 0) {
        std::size_t sent = 0;
        if (tls_) {
            std::tie(ec, sent) = co_await tls_->stream.async_write_some(left, as_values);
        } else {
            std::tie(ec, sent) = co_await socket_.async_write_some(left, as_values);
        }
        const std::size_t of_first = std::min(sent, left[0].size());
        left[0] += of_first;
        left[1] += sent - of_first;
    }
    co_return ec;
}

TimedSocket::TimedSocket(StreamSocket socket)
    : ByteStream(std::move(socket)), timer_(ByteStream::socket().get_executor()) {}

void TimedSocket::expect_within(std::chrono::steady_clock::duration patience) {
    timer_.expires_after(patience);
    timer_.async_wait([self = shared_from_this()](error_code ec) {
        // A completion that was queued when the timer was set anew comes without an error.
        if (ec || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
        self->close();
    });
}

void TimedSocket::expect_nothing() {
    timer_.expires_at(std::chrono::steady_clock::time_point::max());
}

void TimedSocket::close() {
    error_code ignored;
    socket().close(ignored);
    timer_.cancel();
}

Task<> TimedSocket::close_gently(std::chrono::steady_clock::duration patience) {
    error_code ec;
    socket().shutdown(asio::socket_base::shutdown_send, ec);
    expect_within(patience);
    char rest[4096];
    while (!ec) {
        const Received received = co_await read_some(rest);
        ec = received.ec;
    }
    close();
}

}  // namespace tidegate
