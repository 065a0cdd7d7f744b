// A connection as a stream of bytes: TCP or a Unix socket, in the clear or over TLS. For questions
// that are asked now and then; the path of requests has Connection.
//
// Asio's operations are templates that take the compiler long, those of TLS above all; this unit
// alone instantiates them. One thread. An operation that waits fails when the socket is closed; the
// stream outlives it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "net/asio.hpp"
#include "tls/tls_client.hpp"

namespace tidegate {

class ByteStream {
  public:
    using Endpoint = StreamProtocol::endpoint;

    explicit ByteStream(StreamSocket socket);
    ~ByteStream();
    ByteStream(const ByteStream&) = delete;
    ByteStream& operator=(const ByteStream&) = delete;

    StreamSocket& socket() { return socket_; }
    // Null: in the clear.
    SSL* tls() const;

    Task<error_code> connect(Endpoint endpoint);

    // From now on everything goes over `tls`, as the client; shake_hands() comes first.
    void begin_tls(TlsPtr tls);
    Task<error_code> shake_hands();

    struct Received {
        error_code ec;  // asio::error::eof: the peer has finished sending
        std::size_t bytes = 0;
    };
    // Waits until something has come.
    Task<Received> read_some(std::span<char> into);
    // Sends all of `first`, then all of `second`, together where they fit.
    Task<error_code> write(std::string_view first, std::string_view second = {});

  private:
    struct Tls;

    StreamSocket socket_;
    std::unique_ptr<Tls> tls_;
};

// A connection that is closed when its peer takes too long: for what is off the path of requests,
// where a timer for each connection does no harm.
//
// Belongs to one event loop. Owned by shared pointers: its timer keeps it alive, and a
// coroutine that waits for it has to.
class TimedSocket : public ByteStream, public std::enable_shared_from_this<TimedSocket> {
  public:
    explicit TimedSocket(StreamSocket socket);

    // Closes the socket unless this is called again within `patience`.
    void expect_within(std::chrono::steady_clock::duration patience);
    // Lets the peer be silent for any time, until expect_within() is called again.
    void expect_nothing();

    void close();

    // Tells the peer that no more comes, then closes; for a peer that may still be sending, so that
    // a reset does not take the answer away: the socket reads what it sends and drops it for a
    // while.
    Task<> close_gently(std::chrono::steady_clock::duration patience);

  private:
    Timer timer_;
};

}  // namespace tidegate
