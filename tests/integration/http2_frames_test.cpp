// Everything that RFC 9113 and RFC 7541 let a client do with frames and header blocks, and what
// they do not: the ways of HPACK, padding, numbers of streams, sizes of frames.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "integration/http2_world.hpp"

namespace tidegate::test::http2_frames_test {

namespace {

constexpr std::uint8_t kWhole = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;
constexpr std::uint8_t kPadded = NGHTTP2_FLAG_PADDED;

std::string unhex(const std::string& text) {
    std::string bytes;
    for (std::size_t i = 0; i < text.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
    }
    return bytes;
}

std::string whole(std::uint32_t stream, const std::string& block) {
    return h2_frame(NGHTTP2_HEADERS, kWhole, stream, block);
}

// GET of / over http with the authority a.test, which enters the table as its newest entry.
const std::string kAdding = unhex("828684") + "\x41\x06" + "a.test";
// The same once it is there.
const std::string kNaming = unhex("828684be");

std::string padded(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                   const std::string& payload, std::uint8_t padding) {
    return h2_frame(type, flags | kPadded, stream,
                    static_cast<char>(padding) + payload + std::string(padding, '\0'));
}

struct Frames {
    explicit Frames(const std::string& top = "") : proxy(top + unlimited({upstream.url()})) {}

    // The connection ends because of `bytes`, behind which nothing is served.
    void check_ends(const std::string& bytes, std::uint32_t error) {
        CAPTURE(error);
        H2Wire wire(proxy.port());
        wire.send(whole(1, kAdding));
        CHECK(wire.await(NGHTTP2_HEADERS, 1).status() == 200);
        wire.send(bytes + whole(99, kAdding));
        const H2Frame goaway = wire.await(NGHTTP2_GOAWAY);
        CHECK(goaway.error() == error);
        CHECK(goaway.word(0) >= 1);
        CHECK(goaway.word(0) < 99);
        for (const H2Frame& frame : wire.rest()) CHECK_FALSE(frame.is(NGHTTP2_HEADERS));
    }

    Upstream upstream{Upstream::answering([](const Message& request) { return ok(request.body); })};
    Http2Proxy proxy;
};

}  // namespace

TEST_CASE("http2 frames: each way of HPACK to say a field says it") {
    Frames frames;
    H2Wire wire(frames.proxy.port());
    // Appendix C.4 of RFC 7541: with Huffman's code; then with what the first has put into the
    // table.
    wire.send(whole(1, unhex("828684418cf1e3c2e5f23a6ba0ab90f4ff")));
    CHECK(wire.await(NGHTTP2_HEADERS, 1).status() == 200);
    CHECK(frames.upstream.last().field("Host") == "www.example.com");
    wire.send(whole(3, unhex("828684be5886a8eb10649cbf")));
    CHECK(wire.await(NGHTTP2_HEADERS, 3).status() == 200);
    CHECK(frames.upstream.last().field("Host") == "www.example.com");
    CHECK(frames.upstream.last().field("Cache-Control") == "no-cache");
    // Not indexed, never indexed, added; with names from the table and without.
    const std::string literals = std::string("\x00\x03x-a\x01\x31", 7) +
                                 std::string("\x10\x03x-b\x01\x32", 7) + "\x40\x03x-c\x01\x33" +
                                 std::string("\x0f\x2b\x01\x34", 4);  // user-agent: 4
    wire.send(whole(5, unhex("828684bf") + literals));
    CHECK(wire.await(NGHTTP2_HEADERS, 5).status() == 200);
    const Message request = frames.upstream.last();
    CHECK(request.field("X-A") == "1");
    CHECK(request.field("X-B") == "2");
    CHECK(request.field("X-C") == "3");
    CHECK(request.field("User-Agent") == "4");
    // An empty table, and one as large as before, before the block.
    wire.send(whole(7, unhex("203fe11f") + kAdding));
    CHECK(wire.await(NGHTTP2_HEADERS, 7).status() == 200);
    wire.send(whole(9, kNaming));
    CHECK(wire.await(NGHTTP2_HEADERS, 9).status() == 200);
    CHECK(frames.upstream.last().field("Host") == "a.test");
}

TEST_CASE("http2 frames: a block that HPACK cannot read ends the connection") {
    Frames frames;
    for (const std::string& block : {unhex("80"),                  // index 0
                                     unhex("bf"),                  // an index that is not there
                                     unhex("ffffffffffffffff0f"),  // an integer without end
                                     unhex("7f"),                  // cut in an index
                                     unhex("4085"),                // cut in a length
                                     unhex("3fe21f"),              // a table of more than 4,096
                                     unhex("20be"),                // of a table that is empty now
                                     unhex("828684be20"),          // a table's size behind a field
                                     unhex("008184ffffffff")}) {
        CAPTURE(block);
        frames.check_ends(whole(3, block), NGHTTP2_COMPRESSION_ERROR);
    }
    frames.proxy.check_alive();
}

TEST_CASE("http2 frames: padding and priorities of frames are passed over") {
    Frames frames;
    H2Wire wire(frames.proxy.port());
    wire.send(padded(NGHTTP2_HEADERS, kWhole, 1, kAdding, 0));
    CHECK(wire.await(NGHTTP2_HEADERS, 1).status() == 200);
    wire.send(padded(NGHTTP2_HEADERS, kWhole, 3, kNaming, 255));
    CHECK(wire.await(NGHTTP2_HEADERS, 3).status() == 200);
    const std::string dependency = h2_number(0x80000001, 4) + "\x10";
    wire.send(h2_frame(NGHTTP2_HEADERS, kWhole | NGHTTP2_FLAG_PRIORITY, 5, dependency + kNaming));
    CHECK(wire.await(NGHTTP2_HEADERS, 5).status() == 200);
    wire.send(h2_headers(7, h2_request("POST"), false) + padded(NGHTTP2_DATA, 0, 7, "the ", 200) +
              padded(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 7, "body", 0));
    CHECK(wire.await(NGHTTP2_DATA, 7).payload == "the body");
    // Unknown flags and frames, and the reserved bit of numbers.
    wire.send(h2_frame(0x42, 0xff, 9, "x") + h2_frame(NGHTTP2_HEADERS, kWhole | 0xc2, 9, kNaming));
    CHECK(wire.await(NGHTTP2_HEADERS, 9).status() == 200);
    frames.check_ends(h2_frame(NGHTTP2_HEADERS, kWhole | kPadded, 3, "\x09" + kNaming),
                      NGHTTP2_PROTOCOL_ERROR);
}

TEST_CASE("http2 frames: padding takes room in windows, and gives it back") {
    Frames frames;
    H2Wire wire(frames.proxy.port());
    wire.send(h2_headers(1, h2_request("POST"), false));
    std::string many;
    for (int i = 0; i < 530; ++i) many += padded(NGHTTP2_DATA, 0, 1, "x", 255);
    // Each time a little more than half of the stream's window, which is when it is opened again.
    // In all that is more than the connection's.
    for (int round = 0; round < 12; ++round) {
        wire.send(many);
        wire.await(NGHTTP2_WINDOW_UPDATE, 1);
    }
    wire.send(h2_data(1, "", true));
    std::size_t bytes = 0;
    while (bytes < 6'360) bytes += wire.await(NGHTTP2_DATA, 1).payload.size();
    CHECK(bytes == 6'360);
}

TEST_CASE("http2 frames: numbers of streams are odd, and grow") {
    Frames frames;
    frames.check_ends(whole(2, kAdding), NGHTTP2_PROTOCOL_ERROR);
    frames.check_ends(whole(0, kAdding), NGHTTP2_PROTOCOL_ERROR);
    frames.check_ends(whole(5, kAdding) + whole(3, kAdding), NGHTTP2_PROTOCOL_ERROR);
    frames.check_ends(whole(1, kAdding), NGHTTP2_STREAM_CLOSED);
    frames.check_ends(h2_data(7, "x"), NGHTTP2_PROTOCOL_ERROR);
    frames.check_ends(h2_reset(7), NGHTTP2_PROTOCOL_ERROR);
    frames.check_ends(h2_window_update(7, 1), NGHTTP2_PROTOCOL_ERROR);
    frames.proxy.check_alive();
}

TEST_CASE("http2 frames: sizes, streams and values that a frame may not have end the connection") {
    Frames frames;
    const auto ends = [&](const std::string& bytes, std::uint32_t error) {
        CAPTURE(bytes.substr(0, 16));
        frames.check_ends(bytes, error);
    };
    ends(h2_frame(NGHTTP2_SETTINGS, 0, 0, "12345"), NGHTTP2_FRAME_SIZE_ERROR);
    ends(h2_frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "123456"), NGHTTP2_FRAME_SIZE_ERROR);
    ends(h2_frame(NGHTTP2_SETTINGS, 0, 1), NGHTTP2_PROTOCOL_ERROR);
    ends(h2_settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0x80000000}}),
         NGHTTP2_FLOW_CONTROL_ERROR);
    ends(h2_settings({{NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 16'383}}), NGHTTP2_PROTOCOL_ERROR);
    ends(h2_settings({{NGHTTP2_SETTINGS_ENABLE_PUSH, 2}}), NGHTTP2_PROTOCOL_ERROR);
    ends(h2_frame(NGHTTP2_PING, 0, 0, "1234567"), NGHTTP2_FRAME_SIZE_ERROR);
    ends(h2_frame(NGHTTP2_PING, 0, 1, "12345678"), NGHTTP2_PROTOCOL_ERROR);
    ends(h2_frame(NGHTTP2_GOAWAY, 0, 0, "1234567"), NGHTTP2_FRAME_SIZE_ERROR);
    ends(h2_frame(NGHTTP2_GOAWAY, 0, 1, "12345678"), NGHTTP2_PROTOCOL_ERROR);
    ends(h2_frame(NGHTTP2_WINDOW_UPDATE, 0, 0, "123"), NGHTTP2_FRAME_SIZE_ERROR);
    ends(h2_window_update(0, 0), NGHTTP2_PROTOCOL_ERROR);
    ends(h2_frame(NGHTTP2_RST_STREAM, 0, 1, "123"), NGHTTP2_FRAME_SIZE_ERROR);
    ends(h2_frame(NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, h2_number(2, 4)),
         NGHTTP2_PROTOCOL_ERROR);
    ends(h2_headers(3, h2_request("POST"), false) +
             h2_frame(NGHTTP2_DATA, 0, 3, std::string(16'385, 'x')),
         NGHTTP2_FRAME_SIZE_ERROR);
    // The client has acknowledged all SETTINGS.
    ends(h2_frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0), NGHTTP2_PROTOCOL_ERROR);
    ends(h2_frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, kNaming),
         NGHTTP2_PROTOCOL_ERROR);
    frames.proxy.check_alive();
}

TEST_CASE("http2 frames: answers keep to the sizes of frames and tables that the client allows") {
    const std::string large(20'000, 'v');
    const Upstream upstream(ok(std::string(100'000, 'x'), "X-Large: " + large + "\r\n"));
    Http2Proxy proxy(unlimited({upstream.url()}));
    for (const H2Entries& settings :
         {H2Entries{}, H2Entries{{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0}},
          H2Entries{{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 65'536},
                    {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 1'000'000}}}) {
        H2Client client(proxy.port(), {.settings = settings});
        for (int i = 0; i < 5; ++i) {
            const H2Answer answer = client.get();
            CHECK(answer.field("x-large") == large);
            CHECK(answer.body.size() == 100'000);
            CHECK(answer.chunks >= 7);  // no more than 16 KiB each
        }
        CHECK(client.fault() == "");
    }
}

}  // namespace tidegate::test::http2_frames_test
