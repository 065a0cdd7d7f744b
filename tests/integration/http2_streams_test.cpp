// Streams of one HTTP/2 connection: how many are served at once and in all, and how answers end.
#include <atomic>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/http2_world.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::http2_streams_test {

TEST_CASE("http2 streams: those over `streams` are refused, uncounted and unlogged") {
    GatedUpstream gated;
    Http2Proxy proxy("http2: {streams: 5}\n" + simple(gated.upstream().url(), "6/h"));
    // The client has not acknowledged the SETTINGS that say so. One that has breaks the rules, and
    // nghttp2 ends its connection.
    H2Wire wire(connect_h2(proxy.port()));
    wire.send(h2_preface());
    for (std::uint32_t i = 0; i < 5; ++i) wire.send(h2_headers(stream_of(i), h2_request()));
    CHECK_SOON(gated.waiting() == 5);
    for (std::uint32_t i = 5; i < 15; ++i) {
        wire.send(h2_headers(stream_of(i), h2_request()));
        CHECK(wire.await(NGHTTP2_RST_STREAM, stream_of(i)).error() == NGHTTP2_REFUSED_STREAM);
    }
    CHECK_SOON(proxy.tidegate().metric("tidegate_http2_streams_refused_total") == 10);
    gated.open();
    for (int i = 0; i < 5; ++i) CHECK(wire.await(NGHTTP2_HEADERS).status() == 200);
    // The sixth, and the first that is too many.
    CHECK(wire.ask(stream_of(15)).status() == 200);
    CHECK(wire.ask(stream_of(16)).status() == 429);
    CHECK(proxy.tidegate().access_log(7).size() == 7);
}

TEST_CASE("http2 streams: a client that waits for its turn never sees a refusal") {
    const Upstream upstream(ok());
    Http2Proxy proxy("http2: {streams: 5}\n" + unlimited({upstream.url()}));
    H2Client client(proxy.port());
    CHECK(client.run_until([&] { return client.has_settings(); }));
    CHECK(client.server_setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS) == 5);
    std::vector<int> streams;
    for (int i = 0; i < 500; ++i) streams.push_back(client.begin({}));
    for (const int stream : streams) CHECK(client.answer(stream).status() == 200);
    CHECK(client.count(NGHTTP2_RST_STREAM) == 0);
}

TEST_CASE("http2 streams: a connection that has had 10,000 streams ends in order") {
    const Upstream upstream(ok());
    Http2Proxy proxy(unlimited({upstream.url()}));
    const MemoryBound memory(proxy.tidegate());
    std::vector<H2Frame> goaways;
    std::size_t well = 0;
    {
        H2Wire wire(proxy.port());
        // Frames until that is so, or the connection ends.
        const auto hear = [&](const auto& holds) {
            while (!holds()) {
                const std::optional<H2Frame> frame = wire.next();
                if (!frame) return false;
                if (frame->is(NGHTTP2_GOAWAY)) goaways.push_back(*frame);
                if (frame->is(NGHTTP2_PING)) wire.send(h2_ping(NGHTTP2_FLAG_ACK));
                const bool is_answer = frame->is(NGHTTP2_HEADERS) || frame->is(NGHTTP2_DATA);
                if (is_answer && frame->ends_stream()) ++well;
            }
            return true;
        };
        for (std::uint32_t i = 0; i < 10'000; i += 100) {
            std::string asked;
            for (std::uint32_t n = i; n < i + 100; ++n) {
                asked += h2_headers(stream_of(n), h2_request());
            }
            wire.send(asked);
            CHECK(hear([&] { return well == i + 100; }));
        }
        CHECK_FALSE(hear([] { return false; }));
        CHECK_FALSE(wire.socket().was_reset());
    }
    CHECK(well == 10'000);
    REQUIRE(goaways.size() == 2);
    CHECK(goaways[0].error() == NGHTTP2_NO_ERROR);
    CHECK(goaways[0].word(0) == kLastOfAll);
    CHECK(goaways[1].error() == NGHTTP2_NO_ERROR);
    CHECK(goaways[1].word(0) == stream_of(9'999));
    memory.check(16);
    proxy.check_alive();
}

TEST_CASE("http2 streams: an answer that breaks off is reset, and never ended") {
    const Upstream breaking([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        const bool is_chunked = request.target() == "/chunked";
        conversation.send(is_chunked ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                                           chunk("begin")
                                     : "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin");
    });
    Http2Proxy proxy(unlimited({breaking.url()}));
    H2Client client(proxy.port());
    for (const char* const path : {"/length", "/chunked"}) {
        CAPTURE(path);
        const int stream = client.begin({.path = path});
        const H2Answer answer = client.answer(stream);
        CHECK(answer.status() == 200);
        CHECK(std::string("begin").starts_with(answer.body));
        CHECK_FALSE(answer.is_whole);
        CHECK(answer.reset == NGHTTP2_INTERNAL_ERROR);
    }
    CHECK_FALSE(client.goaway());
    CHECK(client.fault() == "");
}

TEST_CASE("http2 streams: a client's reset ends its request alone, and a cut body is never whole") {
    std::atomic<int> whole{0};
    std::atomic<int> cut{0};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        do {
            if (!conversation.read_head(request)) return;
        } while (request.method() == "GET" && conversation.send(ok()));
        std::string body;
        for (auto some = conversation.some(); !some.empty(); some = conversation.some()) {
            body += some;
        }
        ++(body.find("\r\n0\r\n") != std::string::npos ? whole : cut);
    });
    Http2Proxy proxy(unlimited({upstream.url()}, "request_buffer: off"));
    H2Client client(proxy.port());
    for (int i = 0; i < 10; ++i) {
        const int stream = client.begin({.method = "POST", .body = "begin", .stays_open = true});
        CHECK_SOON(upstream.requests() == 2 * i + 1);
        client.reset(stream);
        CHECK_SOON(cut == i + 1);
        CHECK(client.get().status() == 200);
    }
    CHECK(whole == 0);
    CHECK(proxy.tidegate().access_log(20).at(0).at("error") == "client: left");
    // The one of the GETs, at most.
    CHECK_SOON(proxy.tidegate().metric("tidegate_upstream_connections") <= 1);
}

TEST_CASE("http2 streams: interim answers and trailers go through") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            conversation.send(
                "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                chunk("body") + "0\r\nX-Sum: 1\r\n\r\n");
        }
    });
    Http2Proxy proxy(unlimited({upstream.url()}));
    H2Client client(proxy.port());
    const H2Answer answer = client.get();
    CHECK(answer.body == "body");
    CHECK(answer.is_whole);
    REQUIRE(answer.interim.size() == 1);
    CHECK(answer.interim[0].status() == 103);
    CHECK_FALSE(answer.has("transfer-encoding"));
    CHECK(answer.trailers == FieldList{{"x-sum", "1"}});
}

TEST_CASE("http2 streams: the PROXY protocol comes before the preface, in one piece or two") {
    const Upstream upstream(ok());
    const std::uint16_t port = free_port();
    const Tidegate tidegate("listen: {address: '127.0.0.1:" + std::to_string(port) +
                            "', http: [h2, http1], proxy_protocol: {from: [127.0.0.1]}}\n" +
                            simple(upstream.url()));
    const std::string header = "PROXY TCP4 203.0.113.7 127.0.0.1 51234 443\r\n";
    for (const bool is_one : {true, false}) {
        H2Wire wire(connect_h2(port));
        wire.send(is_one ? header + h2_preface() : header);
        if (!is_one) wire.send(h2_preface());
        CHECK(wire.ask(1).status() == 200);
        CHECK(upstream.last().field("X-Forwarded-For") == "203.0.113.7");
    }
}

}  // namespace tidegate::test::http2_streams_test
