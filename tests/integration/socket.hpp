// Blocking TCP sockets on loopback, every wait of which ends. The bytes may go over TLS: then the
// end of sending is a close_notify, and a connection that ends without one is truncated.
//
// For tests: an impossible error throws std::runtime_error, an action of the peer is a value.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "free_port.hpp"
#include "integration/transport.hpp"

namespace tidegate::test {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How long anything may take before the test gives up on it.
inline constexpr milliseconds kPatience{30'000};

class TlsLayer;

// Owns its descriptor. One thread, but for shutdown(), which may end another thread's wait, and for
// one that sends while another receives.
class Socket {
  public:
    Socket();
    explicit Socket(int fd);
    ~Socket();
    Socket(Socket&& other) noexcept;
    Socket& operator=(Socket&& other) noexcept;

    // To 127.0.0.1, from the loopback address `from`: 127.0.0.2 is another client. Throws when
    // nothing listens there. Shakes hands with a ListenerPort that speaks TLS; if the listener
    // closes instead, this socket is closed, too.
    static Socket connect(std::uint16_t port, const std::string& from = "127.0.0.1");
    // As connect(), but nothing when refused, and never over TLS.
    static std::optional<Socket> try_connect(std::uint16_t port,
                                             const std::string& from = "127.0.0.1");
    // On a loopback address; port 0 lets the kernel choose.
    static Socket listen(std::uint16_t port = 0, const std::string& on = "127.0.0.1");

    // The next connection; nothing when the time is over or the socket was shut down.
    std::optional<Socket> accept(milliseconds patience) const;
    std::uint16_t port() const;

    // From now on everything goes over `tls`, as a client. False when the handshake fails: then
    // nothing can be sent or received any more, and fault() says why. Throws when it does not end.
    bool begin_tls(SslPtr tls);
    // Null: in the clear. While no other thread uses this.
    SSL* tls() const;
    // Why TLS has failed; empty where it has not.
    std::string fault() const;

    // Sends everything; false when the peer does not take it any more.
    bool send(std::string_view bytes) const;
    // What has arrived, at most 64 KiB; empty at the end of the stream or after a reset. Throws
    // when `deadline` passes first.
    std::string receive(Clock::time_point deadline = Clock::now() + kPatience);
    // receive() found the connection reset rather than ended.
    bool was_reset() const { return was_reset_; }
    // receive() found the end without close_notify: the peer may not have sent all.
    bool was_truncated() const { return was_truncated_; }

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
    bool send_raw(std::string_view bytes) const;
    std::string receive_raw(Clock::time_point deadline);

    int fd_ = -1;
    bool was_reset_ = false;
    bool was_truncated_ = false;
    std::unique_ptr<TlsLayer> tls_;
};

}  // namespace tidegate::test
