// Reads HTTP/1 messages off a byte stream, one after the other, for what is off the path of
// requests: requests to the admin listener and the echo upstream, answers to calls of Tidegate's
// own. As strict as the proxy, by the same code of `http`.
//
// Bounded: a head, and a piece of a body. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "http/framing.hpp"
#include "http/head.hpp"
#include "net/byte_stream.hpp"

namespace tidegate {

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
