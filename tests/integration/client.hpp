// A client that sends exactly the bytes that the test gives it. Where tests run over HTTP/2, it
// sends the same requests to a ListenerPort in HTTP/2: see H2Translator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "integration/message.hpp"
#include "integration/socket.hpp"

namespace tidegate::test {

class H2Translator;

class RawClient {
  public:
    explicit RawClient(std::uint16_t port, const std::string& from = "127.0.0.1");
    // In HTTP/1.
    explicit RawClient(Socket connected);
    RawClient(RawClient&& other) noexcept;
    // Leaves with a reset: after an end alone it would wait for its answers.
    ~RawClient();

    // False when the peer has gone; what it sent before can still be read.
    bool send(std::string_view bytes) const;
    Message response();
    Message response_to_head();
    // send() and response().
    Message ask(std::string_view request);
    // GET `path` on this connection, which stays open.
    Message get(const std::string& path = "/", const std::string& more_fields = "");

    // Everything until the connection ends; in HTTP/2 until all requests are answered.
    std::string rest();
    // What has arrived, at least a byte; empty at the end.
    std::string some();
    // The peer closes, and sends nothing more before.
    bool closed() { return rest().empty(); }
    bool was_reset() const;
    bool was_truncated() const;
    void finish_sending() const;
    void reset();
    // See Socket.
    SSL* tls() const { return socket().tls(); }
    std::string fault() const { return socket().fault(); }

  private:
    const Socket& socket() const;

    Socket socket_;
    MessageReader reader_;
    std::unique_ptr<H2Translator> http2_;  // null: socket_ carries HTTP/1
};

// `GET path HTTP/1.1` with Host and `more_fields` (each ended by CRLF).
std::string get_request(const std::string& path, const std::string& more_fields = "");
// `POST path` with `body` and its length.
std::string post_request(const std::string& path, std::string_view body,
                         const std::string& more_fields = "");
// `bytes` as one chunk.
std::string chunk(std::string_view bytes);

// `fields` as a client of this transport sends or sees them: in HTTP/2 names are in lower case.
FieldList as_carried(FieldList fields);

// One request on a connection of its own.
Message http_get(std::uint16_t port, const std::string& path = "/",
                 const std::string& more_fields = "", const std::string& from = "127.0.0.1");

}  // namespace tidegate::test
