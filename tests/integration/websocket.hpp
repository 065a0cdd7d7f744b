// WebSockets seen from both ends: a client that sends exactly the test's bytes, and a server that
// answers each message with the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "integration/client.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test {

inline constexpr int kText = 1;
inline constexpr int kBinary = 2;
inline constexpr int kClose = 8;
inline constexpr int kPing = 9;
inline constexpr int kPong = 10;

struct WebSocketFrame {
    int opcode = -1;  // -1: the connection ended
    bool is_final = true;
    bool is_masked = false;
    std::string payload{};  // without its mask

    // Of a Close; 0: it has none.
    int close_code() const;
};

// The bytes of a frame; a client's is masked.
std::string frame_bytes(int opcode, std::string_view payload, bool is_masked, bool is_final = true);

// Takes frames out of what `more` gives, which is empty at the end.
class FrameReader {
  public:
    using More = std::function<std::string()>;

    explicit FrameReader(More more) : more_(std::move(more)) {}
    WebSocketFrame next();

  private:
    bool fill(std::size_t size);

    More more_;
    std::string buffer_;
};

// Sec-WebSocket-Accept for that key.
std::string accept_value(const std::string& key);
// The fields of a handshake.
std::string handshake_fields();
// The server's answer to `request`.
std::string switching_answer(const Message& request, const std::string& more_fields = "");

// A client with its handshake behind it.
class WebSocketClient {
  public:
    // Throws if the answer is none to the handshake. `early` goes with the handshake.
    explicit WebSocketClient(std::uint16_t port, const std::string& path = "/",
                             const std::string& more_fields = "", const std::string& early = "");

    const Message& answer() const { return answer_; }
    bool send(std::string_view payload, int opcode = kText) const {
        return client_.send(frame_bytes(opcode, payload, true));
    }
    bool send_bytes(std::string_view bytes) const { return client_.send(bytes); }
    WebSocketFrame next() { return reader_.next(); }
    // send() and what comes next.
    std::string ask(std::string_view payload);
    RawClient& raw() { return client_; }

  private:
    RawClient client_;
    FrameReader reader_;
    Message answer_;
};

// Answers handshakes, and requests that are none with 200. Answers each message with the same, a
// ping with a pong and a Close with a Close, behind which it closes.
void echo_frames(Conversation& conversation);

}  // namespace tidegate::test
