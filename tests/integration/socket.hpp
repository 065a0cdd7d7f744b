// Blocking TCP sockets on loopback, every wait of which ends.
//
// For tests: what cannot happen throws std::runtime_error, what a peer may do is a value.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "free_port.hpp"

namespace tidegate::test {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How long anything may take before the test gives up on it.
inline constexpr milliseconds kPatience{10'000};

// Owns its descriptor. One thread, but for shutdown(), which may end another thread's wait.
class Socket {
  public:
    Socket() = default;
    explicit Socket(int fd) : fd_(fd) {}
    ~Socket() { close(); }
    Socket(Socket&& other) noexcept;
    Socket& operator=(Socket&& other) noexcept;

    // To 127.0.0.1, from the loopback address `from`: 127.0.0.2 is another client. Throws when
    // nobody listens.
    static Socket connect(std::uint16_t port, const std::string& from = "127.0.0.1");
    // As connect(), but nothing when refused.
    static std::optional<Socket> try_connect(std::uint16_t port,
                                             const std::string& from = "127.0.0.1");
    // On 127.0.0.1; port 0 lets the kernel choose.
    static Socket listen(std::uint16_t port = 0);

    // The next connection; nothing when the time is over or the socket was shut down.
    std::optional<Socket> accept(milliseconds patience) const;
    std::uint16_t port() const;

    // Sends everything; false when the peer does not take it any more.
    bool send(std::string_view bytes) const;
    // What has arrived, at most 64 KiB; empty at the end of the stream or after a reset. Throws
    // when `deadline` passes first.
    std::string receive(Clock::time_point deadline = Clock::now() + kPatience);
    // receive() found the connection reset rather than ended.
    bool was_reset() const { return was_reset_; }

    // No more bytes from here; the other direction stays.
    void finish_sending() const;
    void shutdown() const;
    // Once closed, the kernel forgets the connection after a second instead of a minute.
    void forget_soon() const;
    // Closes with a reset instead of an end.
    void reset();
    void close();

  private:
    bool wait(short events, Clock::time_point deadline) const;

    int fd_ = -1;
    bool was_reset_ = false;
};

}  // namespace tidegate::test
