// Clients that cost more than they pay for, over HTTP/2: each is stopped, takes little memory, and
// delays no other client.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/http2_world.hpp"

namespace tidegate::test::http2_hostile_test {

namespace {

constexpr std::uint32_t kFrames = 20'000;
constexpr long kMebibytes = 16;  // what such a client may take
constexpr milliseconds kProcessorTime{300};
constexpr std::uint8_t kEndHeaders = NGHTTP2_FLAG_END_HEADERS;
constexpr std::uint8_t kEndStream = NGHTTP2_FLAG_END_STREAM;

// A Tidegate, others that it serves, and its attacker. The upstream answers 200 but to /slow, which
// it never answers.
struct Attacked {
    explicit Attacked(const std::string& more = "") : proxy(more + simple(upstream.url())) {}

    // `make` is stopped for abuse, sooner or later: beside others and, to measure what it takes,
    // alone.
    void check_given_up(const std::function<std::string(std::uint32_t)>& make,
                        const std::string& first = "") {
        {
            Others others(proxy.port());
            const MemoryBound memory(proxy.tidegate());
            check_one_given_up(make, first);
            memory.check(kMebibytes);
            others.check();
        }
        const ProcessorBound processor(proxy.tidegate());
        check_one_given_up(make, first);
        CHECK_SOON(proxy.ended("abuse") == 2);
        processor.check(kProcessorTime);
        proxy.check_alive();
    }

    void check_one_given_up(const std::function<std::string(std::uint32_t)>& make,
                            const std::string& first) {
        H2Wire wire(proxy.port());
        wire.send(first);
        const Flooded flooded = flood(wire, kFrames, make);
        CHECK(flooded.has_ended);
        CHECK(flooded.goaway() == NGHTTP2_ENHANCE_YOUR_CALM);
    }

    Upstream upstream{[](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (request.target() == "/slow") return conversation.wait_for_end();
            if (!conversation.send(ok())) return;
        }
    }};
    Http2Proxy proxy;
};

auto each(const std::string& bytes) {
    return [bytes](std::uint32_t) { return bytes; };
}

// A request whose body stays open, on stream 1.
std::string open_request() {
    return h2_headers(1, h2_request("POST"), false);
}

FieldList with_field(const std::string& name, const std::string& value) {
    return h2_request("GET", "/", {{name, value}});
}

}  // namespace

TEST_CASE("http2 hostile: rapid resets are given up, and take no more of the upstream") {
    // Each request would be in service for long.
    Attacked attacked;
    attacked.check_given_up([](std::uint32_t i) {
        return h2_headers(stream_of(i), h2_request("GET", "/slow")) + h2_reset(stream_of(i));
    });
}

TEST_CASE("http2 hostile: of requests that are reset at once, no more than `streams` are served") {
    Upstream upstream(ok());
    Http2Proxy proxy("http2: {streams: 5}\nupstream: " + upstream.url() + "\nlimits: [100/h]\n");
    {
        H2Wire wire(proxy.port());
        std::string bytes;
        for (std::uint32_t i = 0; i < 40; ++i) {
            bytes += h2_headers(stream_of(i), h2_request()) + h2_reset(stream_of(i));
        }
        // The PING is answered once all that was before it has been looked at.
        wire.send(bytes + h2_ping());
        wire.await(NGHTTP2_PING);
    }
    // They have been counted, the others have not.
    CHECK_SOON(proxy.tidegate().metric("tidegate_http2_streams_refused_total") == 35);
    CHECK(proxy.tidegate().access_log(5).size() == 5);
    CHECK(upstream.requests() <= 5);
    auto client = RawClient(proxy.port());
    CHECK(client.get().field("RateLimit").find("r=94") != std::string::npos);
}

TEST_CASE("http2 hostile: resets of the proxy that the client provokes count as the client's") {
    // Less than what may be on its way at once, or it would be the number of streams that ends it.
    Attacked attacked("http2: {abuse: {burst: 50, per: 10/s}}\n");
    SUBCASE("by a malformed head") {
        attacked.check_given_up([](std::uint32_t i) {
            return h2_headers(stream_of(i), with_field("connection", "close"));
        });
    }
    SUBCASE("by a head that is empty") {
        attacked.check_given_up([](std::uint32_t i) {
            return h2_frame(NGHTTP2_HEADERS, kEndHeaders | kEndStream, stream_of(i));
        });
    }
    SUBCASE("by a window that overflows") {
        attacked.check_given_up([](std::uint32_t i) {
            // The reset counts once it is sent. Without that, too many streams were open at once.
            if (i % 20 == 19) std::this_thread::sleep_for(milliseconds{10});
            return h2_headers(stream_of(i), h2_request("POST"), false) +
                   h2_window_update(stream_of(i), 0x7fffffff);
        });
    }
    SUBCASE("by more content than announced") {
        attacked.check_given_up([](std::uint32_t i) {
            const FieldList fields = h2_request("POST", "/", {{"content-length", "1"}});
            return h2_headers(stream_of(i), fields, false) + h2_data(stream_of(i), "ab");
        });
    }
    SUBCASE("by trailers that do not end the request") {
        attacked.check_given_up([](std::uint32_t i) {
            return h2_headers(stream_of(i), h2_request("POST"), false) +
                   h2_headers(stream_of(i), {{"a", "b"}}, false);
        });
    }
}

TEST_CASE("http2 hostile: frames that serve no request are given up") {
    Attacked attacked;
    SUBCASE("SETTINGS") {
        attacked.check_given_up(each(h2_settings()));
    }
    SUBCASE("SETTINGS that say much") {
        H2Entries many;
        for (std::uint16_t i = 0; i < 100; ++i) many.emplace_back(NGHTTP2_SETTINGS_ENABLE_PUSH, 0);
        attacked.check_given_up(each(h2_settings(many)));
    }
    SUBCASE("PING") {
        attacked.check_given_up(each(h2_ping()));
    }
    SUBCASE("answers to no PING") {
        attacked.check_given_up(each(h2_ping(NGHTTP2_FLAG_ACK)));
    }
    SUBCASE("PRIORITY") {
        attacked.check_given_up([](std::uint32_t i) {
            return h2_frame(NGHTTP2_PRIORITY, 0, stream_of(i) + 2, h2_number(0, 4) + "\x10");
        });
    }
    SUBCASE("PRIORITY_UPDATE") {
        attacked.check_given_up(each(h2_frame(0x10, 0, 0, h2_number(1, 4) + "u=1")));
    }
    SUBCASE("unknown frames") {
        attacked.check_given_up(each(h2_frame(0xfa, 0, 0, "what")));
    }
    SUBCASE("empty DATA") {
        attacked.check_given_up(each(h2_data(1, "")), open_request());
    }
    SUBCASE("DATA of nothing but padding") {
        const std::string padding = '\x07' + std::string(7, '\0');
        attacked.check_given_up(each(h2_frame(NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, padding)),
                                open_request());
    }
    SUBCASE("WINDOW_UPDATE of a connection") {
        attacked.check_given_up(each(h2_window_update(0, 1)));
    }
    SUBCASE("WINDOW_UPDATE of a stream") {
        attacked.check_given_up(each(h2_window_update(1, 1)), open_request());
    }
    SUBCASE("resets of a stream that is gone") {
        attacked.check_given_up(each(h2_reset(1)), h2_headers(1, h2_request()));
    }
}

TEST_CASE("http2 hostile: the proxy stops reading from a client that floods and reads nothing") {
    Attacked attacked;
    for (const std::string& frame : {h2_ping(), h2_settings()}) {
        Others others(attacked.proxy.port());
        const MemoryBound memory(attacked.proxy.tidegate());
        {
            H2Wire wire(attacked.proxy.port());
            std::string many;
            for (int i = 0; i < 1'000; ++i) many += frame;
            std::atomic<bool> is_over{false};
            std::thread sender([&] {
                while (wire.send(many)) {
                }
                is_over = true;
            });
            CHECK_SOON(is_over.load());
            wire.socket().shutdown();
            sender.join();
        }
        memory.check(kMebibytes);
        others.check();
    }
    attacked.proxy.check_alive();
}

TEST_CASE("http2 hostile: a header block of frames without end is given up") {
    Attacked attacked;
    const std::string head =
        h2_frame(NGHTTP2_HEADERS, kEndStream, 1, h2_block(h2_request("GET", "/cut")));
    SUBCASE("that are empty") {
        attacked.check_given_up(each(h2_frame(NGHTTP2_CONTINUATION, 0, 1)), head);
    }
    SUBCASE("that are small") {
        attacked.check_given_up(each(h2_frame(NGHTTP2_CONTINUATION, 0, 1, h2_block({{"a", "b"}}))),
                                head);
    }
    SUBCASE("that are large") {
        const std::string large = h2_block({{"a", std::string(16'000, 'b')}});
        attacked.check_given_up(each(h2_frame(NGHTTP2_CONTINUATION, 0, 1, large)), head);
    }
    CHECK(attacked.upstream.last().target() != "/cut");
}

TEST_CASE("http2 hostile: a header block that does not get on ends its connection in its time") {
    Attacked attacked("timeouts: {request_head: 500ms, client_idle: 1h}\n");
    Others others(attacked.proxy.port());
    const std::string block = h2_block(h2_request());
    const auto begin = Clock::now();
    H2Wire half(attacked.proxy.port());
    half.send(h2_frame(NGHTTP2_HEADERS, kEndStream, 1, block));
    H2Wire cut(attacked.proxy.port());
    cut.send(h2_headers(1, h2_request()).substr(0, 20));
    // Bytes that drip are no progress.
    H2Wire dripping(attacked.proxy.port());
    std::thread drip([&] {
        for (const char byte : h2_headers(1, h2_request())) {
            if (!dripping.send({&byte, 1})) return;
            std::this_thread::sleep_for(milliseconds{50});
        }
    });
    for (H2Wire* const wire : {&half, &cut, &dripping}) {
        CHECK(wire->await(NGHTTP2_GOAWAY).error() == NGHTTP2_ENHANCE_YOUR_CALM);
    }
    CHECK(Clock::now() - begin >= milliseconds{480});
    CHECK(Clock::now() - begin < milliseconds{1'500} + slack());
    CHECK(dripping.rest().empty());
    drip.join();
    CHECK_SOON(attacked.proxy.ended("head_timeout") == 3);
    others.check();
}

TEST_CASE("http2 hostile: SETTINGS that are never acknowledged end the connection after 10 s") {
    Attacked attacked;
    H2Wire wire(connect_h2(attacked.proxy.port()));
    const auto begin = Clock::now();
    wire.send(h2_preface() + h2_headers(1, h2_request()));
    CHECK(wire.await(NGHTTP2_HEADERS, 1).status() == 200);
    const H2Frame goaway = wire.await(NGHTTP2_GOAWAY, 0, milliseconds{13'000});
    CHECK(goaway.error() == NGHTTP2_SETTINGS_TIMEOUT);
    CHECK(Clock::now() - begin > milliseconds{9'500});
    CHECK(wire.rest().empty());
    CHECK_SOON(attacked.proxy.ended("settings_timeout") == 1);
    attacked.proxy.check_alive();
}

TEST_CASE("http2 hostile: a field of the table that a block names a thousandfold is no bomb") {
    Attacked attacked;
    Others others(attacked.proxy.port());
    const MemoryBound memory(attacked.proxy.tidegate());
    // 4,000 bytes in a table of 4 KiB; `\xbe` is its newest entry.
    const std::string fill =
        h2_block(h2_request()) + h2_indexed_literal("x-bomb", std::string(4'000, 'b'));
    {
        H2Wire wire(attacked.proxy.port());
        wire.send(h2_long_headers(1, fill));
        CHECK(wire.await(NGHTTP2_HEADERS, 1).status() == 200);
        // More than a head may have: the stream's fault alone.
        wire.send(h2_long_headers(3, h2_block(h2_request()) + std::string(12, '\xbe')));
        CHECK(wire.await(NGHTTP2_HEADERS, 3).status() == 431);
        wire.send(h2_long_headers(5, h2_block(h2_request()) + '\xbe'));
        CHECK(wire.await(NGHTTP2_HEADERS, 5).status() == 200);
    }
    const auto send_bombs = [&] {
        for (int i = 0; i < 20; ++i) {
            H2Wire wire(attacked.proxy.port());
            wire.send(h2_long_headers(1, fill + std::string(100'000, '\xbe')));
            CHECK(wire.await(NGHTTP2_GOAWAY).error() == NGHTTP2_ENHANCE_YOUR_CALM);
        }
    };
    send_bombs();
    memory.check(kMebibytes);
    others.check();
    const ProcessorBound processor(attacked.proxy.tidegate());
    send_bombs();
    processor.check(kProcessorTime);
    attacked.proxy.check_alive();
}

TEST_CASE("http2 hostile: a head that is too large is 431, and past four times that the end") {
    Attacked attacked("limits_on_requests: {header_bytes: 16KiB}\n");
    Others others(attacked.proxy.port());
    const MemoryBound memory(attacked.proxy.tidegate());
    H2Wire wire(attacked.proxy.port());
    const auto large = [](std::size_t size) {
        const FieldList fields(size / 1'000, {"x-large", std::string(1'000, 'x')});
        return h2_block(h2_request("GET", "/", fields));
    };
    wire.send(h2_long_headers(1, large(20'000)));
    CHECK(wire.await(NGHTTP2_HEADERS, 1).status() == 431);
    CHECK(attacked.proxy.tidegate().metric(
              "tidegate_request_faults_total{fault=\"client: head too large\"}") == 1);
    // The connection goes on, and its table is the one that the client expects.
    wire.send(h2_long_headers(
        3, h2_block(h2_request()) + h2_indexed_literal("x-a", std::string(30'000, 'x'))));
    CHECK(wire.await(NGHTTP2_HEADERS, 3).status() == 431);
    CHECK(wire.ask(5).status() == 200);
    wire.send(h2_long_headers(7, large(70'000)));
    CHECK(wire.await(NGHTTP2_GOAWAY).error() == NGHTTP2_ENHANCE_YOUR_CALM);
    memory.check(kMebibytes);
    others.check();
    attacked.proxy.check_alive();
}

TEST_CASE("http2 hostile: bytes behind the preface that are not HTTP/2 end the connection") {
    Attacked attacked;
    const std::string body(70'000, 'x');
    for (const std::string& bytes :
         {h2_frame(NGHTTP2_DATA, 0, 0, "x"), h2_frame(NGHTTP2_HEADERS, kEndHeaders, 2, "x"),
          h2_number(0xffffff, 3) + std::string(6, '\0') + body,
          h2_frame(NGHTTP2_CONTINUATION, kEndHeaders, 1, "x"),
          h2_frame(NGHTTP2_PUSH_PROMISE, kEndHeaders, 1, h2_number(2, 4)),
          h2_frame(NGHTTP2_SETTINGS, 0, 0, "12345"), h2_frame(NGHTTP2_PING, 0, 0, "short"),
          h2_frame(NGHTTP2_HEADERS, kEndHeaders, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
          h2_window_update(0, 0x7fffffff), body}) {
        CAPTURE(bytes.substr(0, 12));
        H2Wire wire(attacked.proxy.port());
        wire.send(bytes);
        const H2Frame goaway = wire.await(NGHTTP2_GOAWAY);
        CHECK(goaway.error() != NGHTTP2_NO_ERROR);
        CHECK(wire.rest().empty());
    }
    CHECK_SOON(attacked.proxy.ended("protocol_error") >= 9);
    attacked.proxy.check_alive();
    CHECK(attacked.upstream.requests() == 2);
}

}  // namespace tidegate::test::http2_hostile_test
