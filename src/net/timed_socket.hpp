// A socket that is closed when its peer takes too long: for servers off the hot path, where a
// timer each connection does no harm.
#pragma once

#include <chrono>
#include <memory>
#include <tuple>
#include <utility>

#include "net/asio.hpp"

namespace tidegate {

// Belongs to one event loop. Owned by shared pointers: a waiting coroutine keeps it alive.
class TimedSocket : public std::enable_shared_from_this<TimedSocket> {
  public:
    explicit TimedSocket(StreamSocket socket)
        : socket_(std::move(socket)), timer_(socket_.get_executor()) {}

    StreamSocket& socket() { return socket_; }

    // Closes the socket unless this is called again within `patience`.
    void expect_within(std::chrono::steady_clock::duration patience) {
        timer_.expires_after(patience);
        timer_.async_wait([self = shared_from_this()](error_code ec) {
            // A completion that was queued when the timer was set anew comes without an error.
            if (ec || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
            self->close();
        });
    }

    void close() {
        error_code ignored;
        socket_.close(ignored);
        timer_.cancel();
    }

    // Tells the peer that no more comes, then closes; for a peer that may still be sending, so that
    // a reset does not take the answer away: what it sends is read and thrown away for a while.
    Task<> close_gently(std::chrono::steady_clock::duration patience) {
        error_code ec;
        socket_.shutdown(asio::socket_base::shutdown_send, ec);
        expect_within(patience);
        char rest[4096];
        while (!ec) {
            std::tie(ec, std::ignore) =
                co_await socket_.async_read_some(asio::buffer(rest), as_values);
        }
        close();
    }

  private:
    StreamSocket socket_;
    Timer timer_;
};

}  // namespace tidegate
