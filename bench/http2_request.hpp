// One request on a new HTTP/2 connection, without I/O: bytes in, bytes out.
//
// Knows as much of HTTP/2 as that takes: it follows frames, acknowledges SETTINGS, and of the
// answer's fields reads the status, which an encoder puts first and, if it is 200, in one byte
// (RFC 7541, appendix A).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bench {

class Http2Request {
  public:
    // GET / over TLS. `authority` has at most 126 bytes.
    explicit Http2Request(std::string_view authority);

    // The next bytes to send: first the connection's beginning and the request, then
    // acknowledgements. Each comes once.
    std::string take_output();

    // Throws when the answer is not a 200 on this connection.
    void receive(std::string_view bytes);

    // The answer has ended, and the server's SETTINGS are acknowledged.
    bool is_done() const { return has_answer_ && has_settings_; }

  private:
    struct Frame {
        std::uint8_t type;
        std::uint8_t flags;
        std::string_view payload;
    };
    void take(const Frame& frame);
    void read_status(const Frame& frame);

    std::string output_;
    std::string input_;  // of a frame that is not complete
    bool has_status_ = false;
    bool has_answer_ = false;
    bool has_settings_ = false;
};

}  // namespace bench
