#include "net/timed_socket.hpp"

#include <utility>

namespace tidegate {

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
