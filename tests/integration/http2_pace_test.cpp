// Clients of HTTP/2 that take their answers as slowly as they can, and what that takes from others.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/grpc_world.hpp"
#include "integration/h2_upstream.hpp"
#include "integration/http2_tunnel.hpp"
#include "integration/http2_world.hpp"
#include "integration/soon.hpp"
#include "integration/tunnel_world.hpp"

namespace tidegate::test::http2_pace_test {

namespace {

const H2Entries kShut{{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}};
const std::string kPatience500 = "timeouts: {client_write: 500ms}\n";

// One connection at a time, and a request that finds none is refused at once.
const std::string kOneSeat = "max_connections: 1, queue: off";

// Opens the window of stream 1 by `bytes` every `pause`, until the stream or `time` has ended. How
// the stream was reset, if it was.
std::optional<std::uint32_t> drip(H2Wire& wire, std::uint32_t bytes, milliseconds pause,
                                  milliseconds time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end) {
        wire.send(h2_window_update(1, bytes));
        const auto next = Clock::now() + pause;
        while (Clock::now() < next) {
            std::optional<H2Frame> frame;
            try {
                frame = wire.next(milliseconds{20});
            } catch (const std::exception&) {
                continue;  // nothing has come
            }
            if (!frame) return std::nullopt;
            if (frame->is(NGHTTP2_RST_STREAM)) return frame->error();
        }
    }
    return std::nullopt;
}

FieldList call_fields() {
    return h2_request("POST", "/a.B/C", {{"content-type", "application/grpc"}, {"te", "trailers"}});
}

}  // namespace

TEST_CASE("http2 pace: an answer that is taken byte by byte breaks off after client_write") {
    const Upstream large(ok(std::string(1'000'000, 'x')));
    const H2Upstream calls(always({.fields = {{"content-type", "application/grpc"}},
                                   .body = grpc_frame(std::string(30'000, 'y')),
                                   .trailers = {{"grpc-status", "0"}}}));
    struct Kind {
        std::string yaml;
        FieldList request;
        bool is_own = false;  // the proxy's own answer
    };
    for (const Kind& kind :
         {Kind{simple(large.url()), h2_request()}, Kind{simple(calls.url()), call_fields()},
          Kind{simple(large.url(), "1/h"), h2_request(), true}}) {
        CAPTURE(kind.yaml);
        const bool is_call = kind.request == call_fields();
        Http2Proxy proxy(kPatience500 + kind.yaml);
        if (kind.is_own) CHECK(http_get(proxy.port()).status() == 200);
        H2Wire wire(proxy.port(), kShut);
        wire.send(h2_headers(1, kind.request, !is_call));
        if (is_call) wire.send(h2_data(1, grpc_frame("x"), true));
        const auto begin = Clock::now();
        CHECK(drip(wire, 1, milliseconds{100}, milliseconds{10'000}) == NGHTTP2_INTERNAL_ERROR);
        CHECK(Clock::now() - begin < milliseconds{2'000} + slack());
        if (kind.is_own) continue;
        CHECK(proxy.tidegate().access_log(1).at(0).at("error") == "client: not reading");
    }
}

TEST_CASE("http2 pace: a client that takes four KiB in client_write has its answer, however slow") {
    const Upstream upstream(ok(std::string(40'960, 'x')));
    Http2Proxy proxy("timeouts: {client_write: 1s}\n" + simple(upstream.url()));
    H2Wire wire(proxy.port(), kShut);
    wire.send(h2_headers(1, h2_request()));
    std::size_t bytes = 0;
    bool has_ended = false;
    for (std::size_t i = 1; i <= 20; ++i) {
        std::this_thread::sleep_for(milliseconds{150});
        wire.send(h2_window_update(1, 2'048));
        while (bytes < i * 2'048) {
            const H2Frame frame = wire.await(NGHTTP2_DATA, 1);
            bytes += frame.payload.size();
            has_ended = frame.ends_stream();
        }
    }
    CHECK(has_ended);
    CHECK(bytes == 40'960);
}

TEST_CASE("http2 pace: where the upstream is slow, a client has client_write for each portion") {
    std::atomic<int> taken{0};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n");
        for (int i = 0; i < 8; ++i) {
            await_quietly([&] { return taken >= i; });
            conversation.send("x");
        }
        conversation.wait_for_end();
    });
    Http2Proxy proxy("timeouts: {client_write: 800ms}\n" + simple(upstream.url()));
    H2Wire wire(proxy.port(), kShut);
    wire.send(h2_headers(1, h2_request()));
    wire.await(NGHTTP2_HEADERS, 1);
    for (int i = 0; i < 8; ++i) {
        std::this_thread::sleep_for(milliseconds{300});
        wire.send(h2_window_update(1, 1));
        CHECK(wire.await(NGHTTP2_DATA, 1).payload == "x");
        std::this_thread::sleep_for(milliseconds{50});
        ++taken;
    }
}

TEST_CASE("http2 pace: a WebSocket whose client takes it byte by byte is stalled") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(switching_answer(request));
        // Less than a portion of the tunnel, and far more.
        conversation.send(frame_bytes(
            kBinary, std::string(request.target() == "/few" ? 500 : 500'000, 'x'), false));
        conversation.wait_for_end();
    });
    for (const std::string path : {"/few", "/many"}) {
        CAPTURE(path);
        Http2Proxy proxy(websockets(upstream, "", kPatience500));
        H2Wire wire(proxy.port(), kShut);
        FieldList fields = h2_request("CONNECT", path, {{"sec-websocket-version", "13"}});
        fields.insert(fields.begin() + 1, {":protocol", "websocket"});
        wire.send(h2_headers(1, fields, false));
        CHECK(wire.await(NGHTTP2_HEADERS, 1).status() == 200);
        drip(wire, 1, milliseconds{100}, milliseconds{3'000});
        CHECK_SOON(ended(proxy.tidegate(), "stalled") == 1);
    }
}

TEST_CASE("http2 pace: a WebSocket on which the upstream is silent waits for no client") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(switching_answer(request));
        FrameReader frames([&] { return conversation.some(); });
        for (auto frame = frames.next(); frame.opcode >= 0; frame = frames.next()) {
            if (!conversation.send(frame_bytes(kBinary, "answer", false))) return;
        }
    });
    Http2Proxy proxy(websockets(upstream, "", "timeouts: {client_write: 200ms}\n"));
    H2Client client(proxy.port());
    H2Socket socket(client);
    for (int i = 0; i < 3; ++i) {
        client.run_for(milliseconds{500});
        CHECK(socket.ask("question") == "answer");
    }
    CHECK(ended(proxy.tidegate(), "stalled") == 0);
}

TEST_CASE("http2 pace: an answer that has come whole holds no connection, whoever takes it") {
    const Upstream plain(Upstream::answering([](const Message& request) {
        if (request.target() == "/long") return ok(std::string(50'000, 'x') + "hello");
        if (request.target() == "/trailers") {
            return std::string(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                "5\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n");
        }
        return ok("hello");
    }));
    const Upstream closing(Upstream::answering([](const Message&) {
        return std::string(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
    }));
    const H2Upstream calls(always({.fields = {{"content-type", "application/grpc"}},
                                   .body = grpc_frame("hello"),
                                   .trailers = {{"grpc-status", "0"}, {"x-sum", "5"}}}));
    struct Kind {
        std::string url;
        FieldList request;
        bool has_trailers = false;
    };
    for (const Kind& kind :
         {Kind{plain.url(), h2_request("GET", "/")}, Kind{plain.url(), h2_request("GET", "/long")},
          Kind{plain.url(), h2_request("GET", "/trailers"), true},
          Kind{closing.url(), h2_request("GET", "/")}, Kind{calls.url(), call_fields(), true}}) {
        CAPTURE(kind.url);
        CAPTURE(kind.has_trailers);
        const bool is_call = kind.request == call_fields();
        Http2Proxy proxy(unlimited({kind.url}, kOneSeat));
        H2Wire slow(proxy.port(), kShut);
        slow.send(h2_headers(1, kind.request, !is_call));
        if (is_call) slow.send(h2_data(1, grpc_frame("x"), true));
        CHECK(slow.await(NGHTTP2_HEADERS, 1).status() == 200);
        // The buffers that the answer was in are others' now.
        for (int i = 0; i < 20; ++i) {
            H2Client other(proxy.port());
            const H2Answer answer =
                is_call ? other.ask(grpc_call("/a.B/C", "x")) : other.get("/other");
            CHECK(answer.status() == 200);
            CHECK(answer.body.ends_with("hello"));
        }
        slow.send(h2_window_update(1, 60'000));
        std::string body;
        while (!body.ends_with("hello")) body += slow.await(NGHTTP2_DATA, 1).payload;
        CHECK((body.size() > 50'000) == (kind.request == h2_request("GET", "/long")));
        if (!kind.has_trailers) continue;
        const H2Frame trailers = slow.await(NGHTTP2_HEADERS, 1);
        CHECK(trailers.ends_stream());
        CHECK(trailers.fields.back() == std::pair<std::string, std::string>("x-sum", "5"));
    }
}

TEST_CASE("http2 pace: a few addresses with slow answers keep no upstream from others") {
    const std::string large = ok(std::string(4'000'000, 'x'));
    const Upstream upstream(Upstream::answering(
        [&](const Message& request) { return request.target() == "/large" ? large : ok(); }));
    Http2Proxy proxy("timeouts: {client_write: 1min}\n" +
                     unlimited({upstream.url()}, "max_connections: 8, queue: {wait: 20s}"));
    std::vector<std::unique_ptr<H2Wire>> slow;
    for (int i = 0; i < 8; ++i) {
        slow.push_back(
            std::make_unique<H2Wire>(proxy.port(), kShut, "127.0.0." + std::to_string(10 + i)));
        slow.back()->send(h2_headers(1, h2_request("GET", "/large")));
        CHECK(slow.back()->await(NGHTTP2_HEADERS, 1).status() == 200);
    }
    for (int i = 0; i < 4; ++i) CHECK(http_get(proxy.port()).status() == 200);
    CHECK_SOON(proxy.tidegate().metric(
                   "tidegate_request_faults_total{fault=\"client: slow, made room\"}") >= 1);
}

TEST_CASE("http2 pace: uploads without room to send make room for others, and end in time") {
    const std::string greedy = "127.0.0.9";
    std::atomic<bool> is_over{false};
    const Upstream stuck([&](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.hold_until([&] { return is_over.load(); });
    });
    const Upstream upstream(ok());
    // What takes the room: another body of their connection, or those of other connections.
    for (const bool is_own_connection : {true, false}) {
        CAPTURE(is_own_connection);
        Http2Proxy proxy(
            "http2: {buffered: 98304, stream_window: 65535, connection_window: 65535}\n"
            "timeouts: {request_body: 500ms, request_body_total: 5s}\n"
            "upstreams: {api: {servers: [" +
            upstream.url() + "], max_connections: 4, queue: off}, stuck: {servers: [" +
            stuck.url() +
            "]}}\nroutes:\n  - {match: {path: /stuck}, upstream: stuck, policies: []}\n"
            "  - {upstream: api, policies: []}\n");
        // One of them fills the window of its connection, two of them `buffered`.
        std::vector<std::unique_ptr<H2Client>> fillers;
        for (int i = 0; i < (is_own_connection ? 1 : 2); ++i) {
            fillers.push_back(std::make_unique<H2Client>(proxy.port(), H2Options{}, greedy));
            H2Client& filler = *fillers.back();
            const int stream = filler.begin({.method = "POST",
                                             .path = "/stuck",
                                             .body = std::string(12'000'000, 'x'),
                                             .stays_open = true});
            std::size_t unsent = 0;
            do {
                unsent = filler.unsent(stream);
                filler.run_for(milliseconds{300});
            } while (filler.unsent(stream) < unsent);
            REQUIRE(unsent > 0);
        }
        H2Client own(proxy.port(), {}, greedy);
        H2Client& client = is_own_connection ? *fillers[0] : own;
        std::vector<int> uploads;
        for (int i = 0; i < 4; ++i) {
            uploads.push_back(client.begin({.method = "POST", .body = "x", .stays_open = true}));
        }
        client.run_for(milliseconds{1'500});
        const auto count_ended = [&] {
            return std::count_if(uploads.begin(), uploads.end(), [&](int stream) {
                return client.so_far(stream).has_head() || client.progress(stream).is_closed;
            });
        };
        CHECK(count_ended() == 0);
        CHECK(H2Client(proxy.port(), {}, greedy).get().status() == 503);
        for (int i = 0; i < 3; ++i) CHECK(http_get(proxy.port()).status() == 200);
        CHECK(client.run_until([&] { return count_ended() == 1; }));
        CHECK_SOON(proxy.tidegate().metric(
                       "tidegate_request_faults_total{fault=\"client: slow body, made room\"}") ==
                   1);
        // request_body_total is over.
        CHECK(client.run_until([&] { return count_ended() == 4; }));
        for (const int stream : uploads) CHECK(client.so_far(stream).status() == 408);
        CHECK_SOON(proxy.tidegate().metric(
                       "tidegate_request_faults_total{fault=\"client: slow body\"}") == 3);
    }
    is_over = true;
}

TEST_CASE("http2 pace: an address that fills `buffered` leaves room for others, and time to all") {
    std::atomic<bool> may_read{false};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        if (request.target() == "/stuck") conversation.hold_until([&] { return may_read.load(); });
        while (!conversation.some().empty()) {
        }
    });
    const Upstream reading(Upstream::answering(
        [](const Message& request) { return ok(std::to_string(request.body.size())); }));
    Http2Proxy proxy(
        "http2: {buffered: 4MiB, stream_window: 1MiB, connection_window: 4MiB}\n"
        "timeouts: {request_body: 2s}\nlimits_on_requests: {body_rate: off}\n"
        "upstreams: {api: {servers: [" +
        upstream.url() + "], request_buffer: off}, other: {servers: [" + reading.url() +
        "], request_buffer: off}}\n"
        "routes:\n  - {match: {path: /other}, upstream: other, policies: []}\n"
        "  - {upstream: api, policies: []}\n");
    const std::string greedy = "127.0.0.9";
    H2Client stuck[2]{H2Client(proxy.port(), {}, greedy), H2Client(proxy.port(), {}, greedy)};
    // All the time: a client that has room, and is silent for `request_body`, is slow.
    std::vector<std::jthread> senders;
    for (H2Client& client : stuck) {
        senders.emplace_back([&client](const std::stop_token& over) {
            while (!over.stop_requested()) client.run_for(milliseconds{100});
        });
    }
    std::vector<int> streams[2];
    for (int i = 0; i < 6; ++i) {
        streams[i % 2].push_back(stuck[i % 2].begin({.method = "POST",
                                                     .path = "/stuck",
                                                     .body = std::string(8'000'000, 'x'),
                                                     .stays_open = true}));
    }
    const auto unsent = [&] {
        std::size_t bytes = 0;
        for (const int i : {0, 1}) {
            for (const int stream : streams[i]) bytes += stuck[i].unsent(stream);
        }
        return bytes;
    };
    // What the kernels on the way to the upstream do not take stays with the worker. A busy machine
    // can rest for a second.
    for (std::size_t before = 0; before != unsent();) {
        before = unsent();
        for (int turn = 0; turn < 20; ++turn) {
            for (H2Client& client : stuck) client.run_for(milliseconds{50});
        }
    }
    // The upstream takes what comes of this one, and its client gets no room for more.
    H2Client owed(proxy.port(), {}, greedy);
    const int waiting =
        owed.begin({.method = "POST", .path = "/other", .body = std::string(3'000'000, 'x')});
    owed.run_for(milliseconds{3'000});
    CHECK(owed.unsent(waiting) > 0);
    H2Client other(proxy.port());
    const std::string body(2'000'000, 'y');
    CHECK(other.ask({.method = "POST", .path = "/other", .body = body}).body == "2000000");
    senders.clear();
    for (const int i : {0, 1}) {
        for (const int stream : streams[i]) CHECK_FALSE(stuck[i].progress(stream).is_closed);
    }
    may_read = true;
    CHECK(owed.answer(waiting).body == "3000000");
}

}  // namespace tidegate::test::http2_pace_test
