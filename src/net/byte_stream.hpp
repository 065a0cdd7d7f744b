// A connection as a stream of bytes: TCP or a Unix socket, in the clear or over TLS; and HTTP/1
// messages on it. For questions that are asked now and then; the path of requests has Connection.
//
// Asio's operations are templates that take the compiler long, those of TLS above all; this unit
// alone instantiates them. One thread. An operation that waits fails when the socket is closed; the
// stream outlives it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "http/framing.hpp"
#include "http/head.hpp"
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

// Reads HTTP/1 messages off a byte stream, one after the other, for what is off the path of
// requests: requests to the admin listener and the echo upstream, answers to calls of Tidegate's
// own. As strict as the proxy, by the same code of `http`.
//
// Bounded: a head, and a piece of a body. One thread.

// Why there is no message, or no more of it.
struct MessageFault {
    error_code ec;  // of the connection, which has ended or failed; none: the sender's bytes
    http::HeadFault head = http::HeadFault::none;
    http::FramingFault framing = http::FramingFault::none;
    bool is_too_long = false;  // the body; what is none of these is a broken chunk
};

// Says what is wrong with the bytes, as a sentence.
std::string_view describe(const MessageFault& fault);
// A clause about the sender of an answer.
std::string reason_of(const MessageFault& fault);

class MessageReader {
  public:
    // `stream` outlives this.
    MessageReader(ByteStream& stream, std::size_t head_bytes_max);

    // False: fault() says why there is no head. The views of `head` stay until the next.
    Task<bool> read_head(http::RequestHead& head);
    Task<bool> read_head(http::ResponseHead& head);

    // Then the body, if it is wanted. Its next content, or its end; its views stay until the next
    // call. `bad`: fault() says why no end may follow.
    void begin_body(const http::Framing& framing) { body_.start(framing); }
    Task<http::BodyBatch> read_body();
    // All of an answer's that has no more than `bytes_max`. False: fault() says why not.
    Task<bool> read_body(http::ResponseHead& head, std::size_t bytes_max, std::string& text);

    const MessageFault& fault() const { return fault_; }
    // The sender has sent something, whatever it was.
    bool is_heard() const { return is_heard_; }

  private:
    // Takes a head off the front of what comes.
    Task<bool> take_head();
    Task<bool> receive();

    ByteStream& stream_;
    const http::HeadBounds bounds_;
    std::string head_;
    std::string buffer_;          // what has come behind it
    std::size_t body_bytes_ = 0;  // of that, the last batch
    http::BodyReader body_;
    MessageFault fault_;
    bool is_heard_ = false;
};

}  // namespace tidegate
