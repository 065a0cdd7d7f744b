#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "http/websocket.hpp"

namespace tidegate::http::websocket_test {

namespace {

using Step = FrameFollower::Step;
using Opcode = WebSocketFrameHead::Opcode;

constexpr std::string_view kGood =
    "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

WebSocketRequest request(std::string_view fields, std::string_view line = "GET / HTTP/1.1") {
    const std::string bytes = std::string(line) + "\r\nHost: a\r\n" + std::string(fields) + "\r\n";
    RequestHead head;
    REQUIRE(parse_request_head(bytes, {16'384, 100, 16'384}, head) == HeadFault::none);
    Framing framing;
    REQUIRE(request_framing(head, framing) == FramingFault::none);
    return websocket_request(head, framing);
}

std::string replaced(std::string_view text, std::string_view what, std::string_view with) {
    std::string out(text);
    const std::size_t at = out.find(what);
    REQUIRE(at != std::string::npos);
    return out.replace(at, what.size(), with);
}

bool accepted(std::string_view fields, std::string_view line = "HTTP/1.1 101 Switching Protocols") {
    const std::string bytes = std::string(line) + "\r\n" + std::string(fields) + "\r\n";
    ResponseHead head;
    REQUIRE(parse_response_head(bytes, {16'384, 100, 16'384}, head) == HeadFault::none);
    Framing framing;
    REQUIRE(response_framing(head, false, framing) == FramingFault::none);
    return accepts_websocket(head, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

constexpr std::string_view kAnswer =
    "Connection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

// A frame with `size` bytes of payload. `first`: its first byte.
std::string frame(unsigned first, std::size_t size, bool masked) {
    std::string out(1, static_cast<char>(first));
    const unsigned mask = masked ? 0x80 : 0;
    const auto put = [&](unsigned length, int bytes) {
        out += static_cast<char>(mask | length);
        for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(size >> (8 * i) & 0xff);
    };
    if (size < 126) {
        put(static_cast<unsigned>(size), 0);
    } else if (size < 65'536) {
        put(126, 2);
    } else {
        put(127, 8);
    }
    if (masked) out += "mask";
    return out.append(size, 'x');
}

// The sizes of the payloads of all frames, as they are found when the bytes come in such portions.
struct Seen {
    std::vector<std::uint64_t> payloads;
    std::vector<std::uint64_t> messages;  // what each had when its last head was there
    std::size_t bytes = 0;
    bool malformed = false;
    bool at_frame_end = false;
};

Seen follow(std::string_view bytes, FrameSource source, std::size_t portion) {
    FrameFollower follower(source);
    Seen seen;
    for (std::size_t end = 0; end < bytes.size() && !seen.malformed;) {
        end = std::min(end + portion, bytes.size());
        while (seen.bytes < end) {
            const auto [step, size] = follower.follow(bytes.substr(seen.bytes, end - seen.bytes));
            seen.bytes += size;
            if (step == Step::head) {
                seen.payloads.push_back(follower.head().payload_bytes);
                const bool ends = follower.head().is_final && !follower.head().is_control();
                if (ends) seen.messages.push_back(follower.message_bytes());
            }
            seen.malformed = step == Step::malformed;
            if (step == Step::incomplete || seen.malformed) break;
        }
    }
    seen.at_frame_end = follower.is_at_frame_end();
    return seen;
}

bool is_malformed(const std::string& bytes, FrameSource source = FrameSource::server) {
    const Seen whole = follow(bytes, source, bytes.size());
    CHECK(follow(bytes, source, 1).malformed == whole.malformed);
    return whole.malformed;
}

}  // namespace

TEST_CASE("websocket: an extended CONNECT needs version 13 and no key") {
    const auto connect = [](std::string_view fields, std::string_view protocol = "websocket") {
        const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
        RequestHead head;
        REQUIRE(parse_request_head(bytes, {16'384, 100, 16'384}, head) == HeadFault::none);
        return websocket_connect(head, protocol);
    };
    const std::string_view good = "sec-websocket-version: 13\r\n";
    CHECK(connect(good) == WebSocketRequest::handshake);
    CHECK(connect(good, "WebSocket") == WebSocketRequest::handshake);
    CHECK(connect("sec-websocket-version: 13\r\nsec-websocket-key: no key\r\n") ==
          WebSocketRequest::handshake);
    for (const std::string_view other :
         {"", "sec-websocket-version: 8\r\n", "sec-websocket-version: 13, 8\r\n",
          "sec-websocket-version: 13\r\nsec-websocket-version: 13\r\n"}) {
        CAPTURE(other);
        CHECK(connect(other) == WebSocketRequest::other_version);
    }
    for (const std::string_view protocol : {"", "connect-udp", "websockets", "websocket "}) {
        CAPTURE(protocol);
        CHECK(connect(good, protocol) == WebSocketRequest::none);
    }
}

TEST_CASE("websocket: a field that an upstream could take for the key counts as one") {
    const auto is_key = [](std::string_view name) {
        return is_websocket_key({field_name(name), name, "x"});
    };
    CHECK(is_key("sec-websocket-key"));
    CHECK(is_key("Sec-WebSocket-Key"));
    CHECK(is_key("Sec_WebSocket_Key"));
    CHECK_FALSE(is_key("sec-websocket-key1"));
    CHECK_FALSE(is_key("sec-websocket-version"));
}

TEST_CASE("websocket: a handshake is a GET of HTTP/1.1 with both tokens, a key and version 13") {
    CHECK(request(kGood) == WebSocketRequest::handshake);
    CHECK(request(replaced(kGood, "websocket", "h2c, WebSocket")) == WebSocketRequest::handshake);
    CHECK(request(std::string(kGood) + "Content-Length: 0\r\n") == WebSocketRequest::handshake);
    CHECK(request(std::string(kGood) + "Sec-WebSocket-Protocol: chat\r\n") ==
          WebSocketRequest::handshake);
}

TEST_CASE("websocket: a request that asks for no WebSocket is an ordinary one") {
    CHECK(request("") == WebSocketRequest::none);
    CHECK(request(replaced(kGood, "Upgrade: websocket", "Upgrade: h2c")) == WebSocketRequest::none);
    CHECK(request(replaced(kGood, "keep-alive, Upgrade", "keep-alive")) == WebSocketRequest::none);
    CHECK(request(replaced(kGood, "keep-alive, Upgrade", "upgrades")) == WebSocketRequest::none);
    CHECK(request(kGood, "GET / HTTP/1.0") == WebSocketRequest::none);
}

TEST_CASE("websocket: a handshake that lacks something is malformed") {
    CHECK(request(kGood, "POST / HTTP/1.1") == WebSocketRequest::malformed);
    CHECK(request(kGood, "HEAD / HTTP/1.1") == WebSocketRequest::malformed);
    CHECK(request(std::string(kGood) + "Content-Length: 1\r\n") == WebSocketRequest::malformed);
    CHECK(request(std::string(kGood) + "Transfer-Encoding: chunked\r\n") ==
          WebSocketRequest::malformed);
    const std::string key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    CHECK(request(replaced(kGood, key, "")) == WebSocketRequest::malformed);
    CHECK(request(replaced(kGood, key, key + key)) == WebSocketRequest::malformed);
    for (const std::string other :
         {"dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZ===", "dGhlIHNhbXBsZSBub25j",
          "dGhlIHNhbXBsZSBub25jZS4=", "dGhlIHNhbXBs ZSBub25jZ==", "dGhlIHNhbXBsZS-ub25jZQ=="}) {
        CAPTURE(other);
        CHECK(request(replaced(kGood, "dGhlIHNhbXBsZSBub25jZQ==", other)) ==
              WebSocketRequest::malformed);
    }
    // It would not reach the upstream.
    CHECK(request(replaced(kGood, "keep-alive", "sec-websocket-key")) ==
          WebSocketRequest::malformed);
}

TEST_CASE("websocket: a handshake of another version is recognised") {
    const std::string version = "Sec-WebSocket-Version: 13\r\n";
    for (const std::string other : {"8", "013", "13, 8", "1 3", ""}) {
        CAPTURE(other);
        CHECK(request(replaced(kGood, "13", other)) == WebSocketRequest::other_version);
    }
    CHECK(request(replaced(kGood, version, "")) == WebSocketRequest::other_version);
    CHECK(request(replaced(kGood, version, version + version)) == WebSocketRequest::other_version);
}

TEST_CASE("websocket: a 101 is accepted with Upgrade, Connection and the value of the key") {
    CHECK(accepted(kAnswer));
    CHECK(accepted(replaced(kAnswer, "websocket", "WEBSOCKET")));
    CHECK_FALSE(accepted(""));
    CHECK_FALSE(accepted(replaced(kAnswer, "Connection: Upgrade\r\n", "")));
    CHECK_FALSE(accepted(replaced(kAnswer, "Upgrade: websocket\r\n", "")));
    CHECK_FALSE(accepted(replaced(kAnswer, "websocket", "h2c, websocket")));
    CHECK_FALSE(accepted(replaced(kAnswer, "s3pP", "S3pP")));
    CHECK_FALSE(accepted(replaced(kAnswer, "Upgrade\r\n", "Upgrade, Sec-WebSocket-Accept\r\n")));
    const std::string line = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
    CHECK_FALSE(accepted(std::string(kAnswer) + line));
    CHECK_FALSE(accepted(kAnswer, "HTTP/1.0 101 Switching Protocols"));
}

TEST_CASE("websocket: frames are followed alike at any cut, with lengths of every form") {
    for (const bool masked : {false, true}) {
        const FrameSource source = masked ? FrameSource::client : FrameSource::server;
        std::string bytes;
        const std::vector<std::uint64_t> sizes{0, 1, 125, 126, 127, 65'535, 65'536, 3};
        for (const std::uint64_t size : sizes) bytes += frame(0x82, size, masked);
        for (const std::size_t portion : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
            CAPTURE(portion);
            const Seen seen = follow(bytes, source, portion);
            CHECK(seen.payloads == sizes);
            CHECK(seen.messages == sizes);
            CHECK(seen.bytes == bytes.size());
            CHECK(seen.at_frame_end);
            CHECK_FALSE(seen.malformed);
        }
        CHECK_FALSE(follow(bytes.substr(0, bytes.size() - 1), source, 5).at_frame_end);
    }
}

TEST_CASE("websocket: a message is the sum of its frames, between which control frames may come") {
    const std::string bytes = frame(0x01, 10, true) + frame(0x89, 4, true) +
                              frame(0x00, 200, true) + frame(0x8a, 0, true) + frame(0x80, 1, true) +
                              frame(0x82, 7, true);
    const Seen seen = follow(bytes, FrameSource::client, 3);
    CHECK_FALSE(seen.malformed);
    CHECK(seen.messages == std::vector<std::uint64_t>{211, 7});

    // As far as a number goes: half of it, and half, and more.
    FrameFollower follower(FrameSource::server);
    std::string huge = "\x02\x7f\x7f\xff\xff\xff\xff\xff\xff\xff";
    CHECK(follower.follow(huge).step == Step::head);
    CHECK(follower.head().payload_bytes == std::numeric_limits<std::uint64_t>::max() / 2);
    CHECK_FALSE(follower.is_at_frame_end());
}

TEST_CASE("websocket: a frame that an end may not send is malformed, at any cut") {
    CHECK(is_malformed(frame(0x82, 1, false), FrameSource::client));
    CHECK(is_malformed(frame(0x82, 1, true), FrameSource::server));
    CHECK(is_malformed(frame(0x89, 126, false)));
    CHECK_FALSE(is_malformed(frame(0x89, 125, false)));
    CHECK(is_malformed(frame(0x09, 1, false)));                          // fragmented
    CHECK(is_malformed(frame(0x80, 1, false)));                          // continues nothing
    CHECK(is_malformed(frame(0x01, 1, false) + frame(0x81, 1, false)));  // begins in a message
    CHECK_FALSE(is_malformed(frame(0x01, 1, false) + frame(0x80, 1, false)));
    CHECK(is_malformed(frame(0x88, 0, false) + frame(0x81, 1, false)));  // after a Close
    const std::string zeros(8, '\0');
    CHECK(is_malformed(std::string("\x82\x7e\x00\x7d", 4) + zeros));    // 125 in two bytes
    CHECK(is_malformed("\x82\x7f" + zeros.substr(0, 6) + "\xff\xff"));  // 65,535 in eight
    CHECK(is_malformed("\x82\x7f\x80" + zeros.substr(0, 7)));           // 2^63
    // Reserved bits and opcodes are a matter of the two ends.
    CHECK_FALSE(is_malformed(frame(0xc2, 1, false)));
    CHECK_FALSE(is_malformed(frame(0x8b, 1, false)));
}

TEST_CASE("websocket: a Close frame has its code and reason, masked towards a server") {
    using namespace std::string_literals;
    CHECK(close_frame(CloseCode::going_away, "") == "\x88\x02\x03\xe9"s);
    CHECK(close_frame(CloseCode::policy_violation, "no") == "\x88\x04\x03\xf0no"s);
    const std::array<unsigned char, 4> mask{0x01, 0x02, 0x04, 0x08};
    const std::string masked = close_frame(CloseCode::message_too_big, "abc", mask);
    CHECK(masked == "\x88\x85\x01\x02\x04\x08\x02\xf3\x65\x6a\x62"s);
    for (const auto& [bytes, source] :
         {std::pair{masked, FrameSource::client},
          std::pair{close_frame(CloseCode::protocol_error, "abc"), FrameSource::server}}) {
        FrameFollower follower(source);
        CHECK(follower.follow(bytes).step == Step::head);
        CHECK(follower.head().is(Opcode::close));
        CHECK(follower.head().payload_bytes == 5);
        CHECK(follower.has_closed());
    }
}

}  // namespace tidegate::http::websocket_test
