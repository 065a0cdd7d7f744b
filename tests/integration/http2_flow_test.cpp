// Windows, clients and upstreams that do not read, and frames in the smallest pieces, over HTTP/2.
#include <atomic>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/http2_world.hpp"

namespace tidegate::test::http2_flow_test {

namespace {

constexpr std::size_t kMebibyte = 1'048'576;
constexpr std::uint32_t kWindowMax = 0x7fffffff;

// Answers a GET of /N with N bytes.
std::string so_many(const Message& request) {
    const std::string target = request.target();
    const bool is_number = target.find_first_not_of("0123456789", 1) == std::string::npos;
    return ok(is_number && target.size() > 1 ? std::string(std::stoul(target.substr(1)), 'x')
                                             : "ok");
}

// Answers GETs; of other requests it reads the head alone, until the test is over.
class ReadsNothing {
  public:
    ReadsNothing() : upstream_([this](Conversation& conversation) { serve(conversation); }) {}
    ~ReadsNothing() { is_over_ = true; }
    ReadsNothing(const ReadsNothing&) = delete;
    ReadsNothing& operator=(const ReadsNothing&) = delete;

    const Upstream& upstream() const { return upstream_; }
    int uploads() const { return uploads_; }

  private:
    void serve(Conversation& conversation) {
        Message request;
        while (conversation.read_head(request)) {
            if (request.method() != "GET") {
                ++uploads_;
                await_quietly([this] { return is_over_.load(); });
                return;
            }
            if (!conversation.send(ok())) return;
        }
    }

    std::atomic<bool> is_over_{false};
    std::atomic<int> uploads_{0};
    Upstream upstream_;  // ends first, as its threads use the rest
};

// A whole request with a body and trailers, and the preface of its connection.
std::string request_bytes() {
    return h2_preface() + h2_frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0) +
           h2_long_headers(1, h2_block(h2_request("GET", "/first")), 20) +
           h2_headers(3, h2_request("POST", "/upload"), false) + h2_data(3, "the body") +
           h2_headers(3, {{"x-trailer", "1"}});
}

}  // namespace

TEST_CASE("http2 flow: a window of one byte gets an answer byte by byte") {
    const Upstream upstream(Upstream::answering(so_many));
    Http2Proxy proxy(simple(upstream.url()));
    H2Client client(proxy.port(), {.stream_window = 1});
    const H2Answer answer = client.get("/300");
    CHECK(answer.body.size() == 300);
    CHECK(answer.is_whole);
    CHECK(answer.chunks == 300);
    CHECK_FALSE(client.goaway());
}

TEST_CASE("http2 flow: an answer whose window opens byte by byte without end is given up") {
    const Upstream upstream(Upstream::answering(so_many));
    Http2Proxy proxy(simple(upstream.url()));
    Others others(proxy.port());
    {
        H2Wire wire(proxy.port(), {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}});
        wire.send(h2_headers(1, h2_request("GET", "/1000000")));
        CHECK(wire.await(NGHTTP2_HEADERS, 1).status() == 200);
        const Flooded flooded =
            flood(wire, 50'000, [](std::uint32_t) { return h2_window_update(1, 1); });
        CHECK(flooded.has_ended);
        CHECK(flooded.goaway() == NGHTTP2_ENHANCE_YOUR_CALM);
    }
    others.check();
    proxy.check_alive();
}

TEST_CASE("http2 flow: DATA never exceeds a window, whichever way it is opened and shut") {
    const Upstream upstream(Upstream::answering(so_many));
    Http2Proxy proxy(simple(upstream.url()));
    H2Wire wire(proxy.port(), {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}});
    wire.send(h2_headers(1, h2_request("GET", "/200000")));
    CHECK(wire.await(NGHTTP2_HEADERS, 1).status() == 200);
    // Through a window that is shut comes nothing but the answer to a PING.
    wire.send(h2_ping());
    CHECK(wire.next()->is(NGHTTP2_PING));
    wire.send(h2_window_update(1, 10));
    CHECK(wire.await(NGHTTP2_DATA, 1).payload.size() == 10);
    wire.send(h2_settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100}}));
    CHECK(wire.await(NGHTTP2_DATA, 1).payload.size() == 100);
    // Below zero, and up again: 5 bytes more than were taken.
    wire.send(h2_settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}}) + h2_window_update(1, 50));
    wire.send(h2_ping());
    wire.await(NGHTTP2_PING);
    wire.send(h2_window_update(1, 55));
    CHECK(wire.await(NGHTTP2_DATA, 1).payload.size() == 5);
    // Now it is the connection's window that is the smaller one.
    wire.send(h2_window_update(1, 190'000));
    std::size_t bytes = 115;
    while (bytes < 65'535) {
        const H2Frame frame = wire.await(NGHTTP2_DATA, 1);
        CHECK(frame.payload.size() <= 16'384);
        bytes += frame.payload.size();
    }
    CHECK(bytes == 65'535);
    wire.send(h2_ping());
    CHECK(wire.next()->is(NGHTTP2_PING));
    wire.send(h2_window_update(0, 200'000) + h2_window_update(1, 10'000));
    while (bytes < 200'000) bytes += wire.await(NGHTTP2_DATA, 1).payload.size();
    CHECK(bytes == 200'000);
}

TEST_CASE("http2 flow: one stream whose window is shut holds up no other") {
    const Upstream upstream(Upstream::answering(so_many));
    Http2Proxy proxy("timeouts: {client_write: 1h}\n" + simple(upstream.url()));
    const MemoryBound memory(proxy.tidegate());
    H2Client client(proxy.port(),
                    {.stream_window = 10'000, .connection_window = 1'000'000, .is_reading = false});
    const int large = client.begin({.path = "/20000000"});
    CHECK(client.run_until([&] { return client.so_far(large).body.size() == 10'000; }));
    for (int i = 0; i < 20; ++i) CHECK(client.get("/5000").body.size() == 5'000);
    CHECK(client.so_far(large).body.size() == 10'000);
    client.consume(large, 10'000);
    CHECK(client.run_until([&] { return client.so_far(large).body.size() == 20'000; }));
    CHECK(client.get("/0").is_whole);
    memory.check(16);
}

TEST_CASE("http2 flow: a stream that its client does not read ends in client_write, alone") {
    const Upstream upstream(Upstream::answering(so_many));
    Http2Proxy proxy("timeouts: {client_write: 500ms}\n" + simple(upstream.url()));
    H2Client client(proxy.port(), {.stream_window = 1'000, .is_reading = false});
    const auto begin = Clock::now();
    const H2Answer answer = client.get("/100000");
    CHECK(answer.status() == 200);
    CHECK(answer.broken);
    CHECK(answer.reset.has_value());
    CHECK(answer.body.size() == 1'000);
    CHECK(Clock::now() - begin < milliseconds{1'500} + slack());
    CHECK(client.get("/500").is_whole);
    CHECK(proxy.tidegate().access_log(1).at(0).at("error") == "client: not reading");
}

TEST_CASE("http2 flow: clients that never read are cut off, and take little memory until then") {
    const Upstream upstream(Upstream::answering(so_many));
    Http2Proxy proxy("timeouts: {client_write: 2s}\n" +
                     unlimited({upstream.url()}, "max_connections: 1000"));
    CHECK(H2Client(proxy.port()).get().status() == 200);
    Others others(proxy.port());
    const MemoryBound memory(proxy.tidegate());
    {
        std::list<H2Wire> wires;
        for (int i = 0; i < 4; ++i) {
            H2Wire& wire = wires.emplace_back(
                proxy.port(), H2Entries{{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindowMax}});
            std::string asked = h2_window_update(0, kWindowMax - 65'535);
            for (std::uint32_t n = 0; n < 50; ++n) {
                asked += h2_headers(stream_of(n), h2_request("GET", "/1000000"));
            }
            wire.send(asked);
        }
        CHECK_SOON(proxy.ended("not_reading") == 4);
    }
    // What a stream has taken from its upstream is little more than one read.
    memory.check(48);
    others.check();
    proxy.check_alive();
    for (const auto& line : proxy.tidegate().access_log(200)) {
        if (line.at("path") == "/1000000" && line.at("outcome") == "aborted") return;
    }
    CHECK_MESSAGE(false, "no request of theirs is logged as aborted");
}

TEST_CASE("http2 flow: uploads to an upstream that does not read stay within `buffered`") {
    const ReadsNothing server;
    constexpr int kClients = 40;
    constexpr int kStreams = 4;
    Http2Proxy proxy(
        "http2: {buffered: 4MiB}\n" +
        unlimited({server.upstream().url()}, "max_connections: 1000, request_buffer: off"));
    Others others(proxy.port());
    const MemoryBound memory(proxy.tidegate());
    {
        std::list<H2Client> clients;
        const std::string body(2 * kMebibyte, 'x');
        for (int i = 0; i < kClients; ++i) {
            H2Client& client = clients.emplace_back(proxy.port());
            // Unbounded, the proxy would hold 1 MiB of each connection.
            for (int n = 0; n < kStreams; ++n) {
                client.begin({.method = "POST", .path = "/upload", .body = body});
            }
            client.run_for(milliseconds{20});
        }
        for (H2Client& client : clients) client.run_for(milliseconds{20});
        CHECK(server.uploads() >= kStreams);
        CHECK(http_get(proxy.port()).status() == 200);
        CHECK(H2Client(proxy.port()).get().status() == 200);
        memory.check(24);
    }
    others.check();
    proxy.check_alive();
}

TEST_CASE("http2 flow: an upload goes on as its upstream reads, and arrives whole") {
    std::atomic<bool> go{false};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        await_quietly([&] { return go.load(); });
        std::size_t bytes = 0;
        while (bytes < 16 * kMebibyte) bytes += conversation.some().size();
        conversation.send(ok(std::to_string(bytes)));
        conversation.wait_for_end();
    });
    Http2Proxy proxy(unlimited({upstream.url()}, "request_buffer: off"));
    const MemoryBound memory(proxy.tidegate());
    H2Client client(proxy.port());
    const int stream = client.begin({.method = "POST",
                                     .fields = {{"content-length", std::to_string(16 * kMebibyte)}},
                                     .body = std::string(16 * kMebibyte, 'x')});
    client.run_for(milliseconds{500});
    // What is on its way is what windows and sockets hold.
    CHECK(client.unsent(stream) > 0);
    memory.check(8);
    go = true;
    CHECK(client.answer(stream).body == std::to_string(16 * kMebibyte));
}

TEST_CASE("http2 flow: more than a window allows is a fault of its stream, or its connection") {
    const ReadsNothing server;
    Http2Proxy proxy("http2: {stream_window: 64KiB, connection_window: 128KiB}\n" +
                     unlimited({server.upstream().url()},
                               "max_connections: 1, queue: {wait: 10s}, request_buffer: off"));
    H2Wire wire(proxy.port());
    const std::string piece(16'384, 'x');
    wire.send(h2_headers(1, h2_request("POST"), false));
    CHECK_SOON(server.uploads() == 1);
    // This one waits for the only seat, and nothing of its body is taken.
    wire.send(h2_headers(3, h2_request("POST"), false));
    for (int i = 0; i < 6; ++i) wire.send(h2_data(3, piece));
    // nghttp2 may take it for the stream's or the connection's fault (RFC 9113 section 5.2.2).
    std::optional<H2Frame> frame = wire.next();
    while (frame && !frame->is(NGHTTP2_RST_STREAM) && !frame->is(NGHTTP2_GOAWAY)) {
        frame = wire.next();
    }
    REQUIRE(frame);
    CHECK(frame->error() == NGHTTP2_FLOW_CONTROL_ERROR);
}

TEST_CASE("http2 flow: a request that comes byte by byte is the same request") {
    const Upstream upstream(Upstream::answering(
        [](const Message& request) { return ok(request.target() + " " + request.body); }));
    Http2Proxy proxy(simple(upstream.url()));
    H2Wire wire(connect_h2(proxy.port()));
    for (const char byte : request_bytes()) wire.send({&byte, 1});
    std::string bodies;
    while (bodies.size() < std::string("/first /upload the body").size()) {
        bodies += wire.await(NGHTTP2_DATA).payload;
    }
    CHECK(bodies.find("/first ") != std::string::npos);
    CHECK(bodies.find("/upload the body") != std::string::npos);
}

TEST_CASE("http2 flow: a connection may end at any byte of a request") {
    const Upstream upstream(ok());
    Http2Proxy proxy(unlimited({upstream.url()}));
    const std::string bytes = request_bytes();
    for (std::size_t size = 0; size <= bytes.size(); ++size) {
        CAPTURE(size);
        Socket cut = connect_h2(proxy.port());
        cut.send(bytes.substr(0, size));
        if (size % 2 == 0) {
            cut.finish_sending();
        } else {
            cut.reset();
        }
    }
    proxy.check_alive();
    // An upload that was cut is nowhere whole.
    for (const Message& request : upstream.seen()) {
        if (request.target() == "/upload" && !request.broken) CHECK(request.body == "the body");
    }
}

}  // namespace tidegate::test::http2_flow_test
