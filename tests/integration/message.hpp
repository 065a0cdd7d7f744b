// HTTP/1 messages for a strict reader: a message of the proxy is judged, not tolerated.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "integration/socket.hpp"

namespace tidegate::test {

// The bytes are not the message they should be.
struct MalformedMessage : std::runtime_error {
    using std::runtime_error::runtime_error;
};

using FieldList = std::vector<std::pair<std::string, std::string>>;

struct Message {
    std::string start_line;
    FieldList fields;  // in the order and spelling they came
    std::string body;
    FieldList trailers;
    std::size_t chunks = 0;    // data chunks of a chunked body
    bool until_close = false;  // the body had no length: the end of the connection ended it
    bool broken = false;       // the connection ended before the body did

    int status() const;          // of a response
    std::string method() const;  // of a request
    std::string target() const;  // of a request

    bool has(std::string_view name) const { return count(name) > 0; }
    std::size_t count(std::string_view name) const;
    // All values of that field, joined by ", "; empty when there is none.
    std::string field(std::string_view name) const;
};

// Reads messages off one connection. `socket` must outlive it.
class MessageReader {
  public:
    explicit MessageReader(Socket& socket) : socket_(&socket) {}

    // Throws MalformedMessage; an end before the first byte too.
    Message response(bool to_head_request = false);
    // False at the end of the connection, with nothing begun.
    bool request(Message& message);
    // Start line and fields only: the body stays to be read with `body`.
    bool request_head(Message& message);
    void body(Message& message);

    // What comes until the connection ends.
    std::string rest();
    // At least one byte, or nothing at the end.
    std::string some();
    bool buffered() const { return !buffer_.empty(); }
    void moved_to(Socket& socket) { socket_ = &socket; }

  private:
    bool fill();
    std::string line();
    void head(Message& message);
    bool take(std::size_t size, std::string& out);
    void chunked_body(Message& message);

    Socket* socket_;
    std::string buffer_;
};

bool same_name(std::string_view a, std::string_view b);

}  // namespace tidegate::test
