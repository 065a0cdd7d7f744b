// A client that sends exactly the bytes it is told to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "integration/message.hpp"
#include "integration/socket.hpp"

namespace tidegate::test {

class RawClient {
  public:
    explicit RawClient(std::uint16_t port, const std::string& from = "127.0.0.1")
        : socket_(Socket::connect(port, from)), reader_(socket_) {}
    RawClient(RawClient&& other) noexcept;
    // Leaves with a reset: an end alone would say that it waits for what it has asked.
    ~RawClient() { socket_.reset(); }

    // False when the peer has gone; what it said before can still be read.
    bool send(std::string_view bytes) const { return socket_.send(bytes); }
    Message response() { return reader_.response(); }
    Message response_to_head() { return reader_.response(true); }
    // send() and response().
    Message ask(std::string_view request);
    // GET `path` on this connection, which stays open.
    Message get(const std::string& path = "/", const std::string& more_fields = "");

    // Everything until the connection ends.
    std::string rest() { return reader_.rest(); }
    // What has arrived, at least a byte; empty at the end.
    std::string some() { return reader_.some(); }
    // The peer closes, and says nothing more before.
    bool closed() { return rest().empty(); }
    bool was_reset() const { return socket_.was_reset(); }
    void finish_sending() const { socket_.finish_sending(); }
    void reset() { socket_.reset(); }

  private:
    Socket socket_;
    MessageReader reader_;
};

// `GET path HTTP/1.1` with Host and `more_fields` (each ended by CRLF).
std::string get_request(const std::string& path, const std::string& more_fields = "");
// `POST path` with `body` and its length.
std::string post_request(const std::string& path, std::string_view body,
                         const std::string& more_fields = "");
// `bytes` as one chunk.
std::string chunk(std::string_view bytes);

// One request on a connection of its own.
Message http_get(std::uint16_t port, const std::string& path = "/",
                 const std::string& more_fields = "", const std::string& from = "127.0.0.1");

}  // namespace tidegate::test
