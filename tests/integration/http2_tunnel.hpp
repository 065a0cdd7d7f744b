// WebSockets over HTTP/2 (RFC 8441) as their clients see them.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "integration/http2_world.hpp"
#include "integration/tunnel_world.hpp"

namespace tidegate::test {

inline double open_tunnels(const Http2Proxy& proxy) {
    return open_tunnels(proxy.tidegate());
}
inline double ended(const Http2Proxy& proxy, const std::string& end) {
    return ended(proxy.tidegate(), end);
}

inline H2Request handshake(const std::string& path = "/", const FieldList& more = {}) {
    H2Request request{.method = "CONNECT", .path = path, .protocol = "websocket"};
    request.fields = {{"sec-websocket-version", "13"}};
    request.fields.insert(request.fields.end(), more.begin(), more.end());
    return request;
}

// A tunnel on a stream of a client.
class H2Socket {
  public:
    // Throws if the answer is none to the handshake.
    explicit H2Socket(H2Client& client, const H2Request& request = handshake())
        : client_(client),
          stream_(client.begin(request)),
          reader_([this] { return client_.some(stream_); }) {
        answer_ = client_.await_head(stream_);
        if (answer_.has_head() && answer_.status() == 200) return;
        throw std::runtime_error("no tunnel: " + answer_.start_line);
    }

    const H2Answer& answer() const { return answer_; }
    int stream() const { return stream_; }
    bool send(std::string_view payload, int opcode = kText) {
        return client_.send(stream_, frame_bytes(opcode, payload, true));
    }
    WebSocketFrame next() { return reader_.next(); }
    std::string ask(std::string_view payload) {
        send(payload);
        return next().payload;
    }
    // The server has ended the stream in order.
    bool has_ended() const { return client_.progress(stream_).is_whole; }

  private:
    H2Client& client_;
    int stream_;
    FrameReader reader_;
    H2Answer answer_;
};

}  // namespace tidegate::test
