// HTTP/2 frame by frame: a test sends any bytes, right or wrong, and what comes is taken apart.
// H2Client is the client that keeps to the rules.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "integration/message.hpp"
#include "integration/socket.hpp"

namespace tidegate::test {

struct H2Frame {
    std::uint8_t type = 0;
    std::uint8_t flags = 0;
    std::uint32_t stream = 0;
    std::string payload{};
    FieldList fields{};  // of HEADERS that one frame holds

    bool is(std::uint8_t kind) const { return type == kind; }
    bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
    bool ends_stream() const { return has(NGHTTP2_FLAG_END_STREAM); }
    // The 32 bits at that byte of the payload.
    std::uint32_t word(std::size_t at) const;
    // Of RST_STREAM and GOAWAY.
    std::uint32_t error() const { return word(is(NGHTTP2_GOAWAY) ? 4 : 0); }
    // Of HEADERS; 0: there is none.
    int status() const;
};

// Bytes of frames.

std::string h2_frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                     std::string_view payload = {});
// `value` in so many bytes, the highest first.
std::string h2_number(std::uint64_t value, int bytes);
using H2Entries = std::vector<std::pair<std::uint16_t, std::uint32_t>>;
std::string h2_settings(const H2Entries& entries = {});
// The 24 bytes that begin a connection, and SETTINGS.
std::string h2_preface(const H2Entries& entries = {});
// A block of literals that touch no table: it may be sent at any time, in any order.
std::string h2_block(const FieldList& fields);
std::string h2_headers(std::uint32_t stream, const FieldList& fields, bool is_end = true);
std::string h2_data(std::uint32_t stream, std::string_view bytes, bool is_end = false);
std::string h2_window_update(std::uint32_t stream, std::uint32_t bytes);
std::string h2_reset(std::uint32_t stream, std::uint32_t error = NGHTTP2_CANCEL);
std::string h2_ping(std::uint8_t flags = 0);
// The pseudo-fields of a request to `example.test`, and `more` behind them. The scheme is that of
// the transport.
FieldList h2_request(const std::string& method = "GET", const std::string& path = "/",
                     const FieldList& more = {});

// A connection with a listener that speaks HTTP/2: where `port` is a ListenerPort over TLS, with
// ALPN `h2`, else in the clear. Throws where the listener chooses another protocol.
Socket connect_h2(std::uint16_t port, const std::string& from = "127.0.0.1");
// What ALPN has chosen; empty: nothing, or in the clear.
std::string alpn_of(SSL* tls);

// Takes the bytes of a server apart.
class H2FrameReader {
  public:
    H2FrameReader();
    ~H2FrameReader();
    H2FrameReader(H2FrameReader&&) noexcept;

    void take(std::string_view bytes) { bytes_ += bytes; }
    std::optional<H2Frame> next();

  private:
    FieldList decode(const H2Frame& frame);

    struct Release {
        void operator()(nghttp2_hd_inflater* inflater) const { nghttp2_hd_inflate_del(inflater); }
    };
    std::unique_ptr<nghttp2_hd_inflater, Release> inflater_;
    std::string bytes_;
};

// A connection without a session behind it: nothing is sent but what the test sends.
class H2Wire {
  public:
    // Sends the preface with `entries` as SETTINGS, and acknowledges the server's.
    explicit H2Wire(std::uint16_t port, const H2Entries& entries = {},
                    const std::string& from = "127.0.0.1");
    // Sends nothing.
    explicit H2Wire(Socket connected);
    ~H2Wire() { socket_.reset(); }
    H2Wire(H2Wire&&) = default;

    // False when the server has gone.
    bool send(std::string_view bytes) const { return socket_.send(bytes); }
    // The next frame of any kind; nothing at the end of the connection. Throws when neither comes.
    std::optional<H2Frame> next(milliseconds patience = kPatience);
    // The next frame of that kind, of that stream unless it is 0; others are passed over. Throws
    // when the connection ends first.
    H2Frame await(std::uint8_t type, std::uint32_t stream = 0, milliseconds patience = kPatience);
    // All frames until the connection ends.
    std::vector<H2Frame> rest();

    // The head of the answer to a whole request on `stream`.
    H2Frame ask(std::uint32_t stream, const FieldList& fields = h2_request());
    Socket& socket() { return socket_; }

  private:
    Socket socket_;
    H2FrameReader reader_;
};

}  // namespace tidegate::test
