// WebSockets over HTTP/2 (RFC 8441): handshakes, their answers, and limits.
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/http2_tunnel.hpp"

namespace tidegate::test::tunnel_http2_test {

TEST_CASE("tunnel http2: frames go both ways, and the log describes the tunnel at its end") {
    const Upstream upstream(echo_frames);
    Http2Proxy proxy(websockets(upstream));
    H2Client client(proxy.port());
    H2Socket socket(client, handshake("/chat?token=x", {{"sec-websocket-protocol", "a, b"}}));
    // The request has nothing of HTTP/1's handshake (RFC 8441 section 5).
    for (const char* const name :
         {"connection", "upgrade", "sec-websocket-accept", "content-length", "transfer-encoding"}) {
        CHECK_FALSE(socket.answer().has(name));
    }
    const Message request = upstream.last();
    CHECK(request.start_line == "GET /chat?token=x HTTP/1.1");
    CHECK(request.field("Host") == "example.test");
    CHECK(same_name(request.field("Connection"), "upgrade"));
    CHECK(same_name(request.field("Upgrade"), "websocket"));
    CHECK(request.field("Sec-WebSocket-Protocol") == "a, b");
    CHECK(request.field("Sec-WebSocket-Version") == "13");
    CHECK(request.count("Sec-WebSocket-Key") == 1);
    CHECK(request.field("Sec-WebSocket-Key").size() == 24);
    CHECK_FALSE(request.has("Content-Length"));
    CHECK_FALSE(request.has("Transfer-Encoding"));
    CHECK(socket.ask("hello") == "hello");
    CHECK(open_tunnels(proxy) == 1);
    for (const std::size_t size : {0UL, 125UL, 126UL, 65'535UL, 65'536UL, 3'000'000UL}) {
        CAPTURE(size);
        const std::string large(size, 'x');
        client.queue(socket.stream(), frame_bytes(kBinary, large, true));
        const WebSocketFrame frame = socket.next();
        CHECK(frame.opcode == kBinary);
        CHECK_FALSE(frame.is_masked);
        CHECK(frame.payload == large);
    }
    socket.send(std::string("\x03\xe8", 2), kClose);
    CHECK(socket.next().close_code() == 1000);
    CHECK(socket.next().opcode == -1);
    CHECK(socket.has_ended());
    client.finish(socket.stream());
    const auto line = proxy.tidegate().access_log(1).back();
    CHECK(line.at("status") == 101);
    CHECK(line.at("path") == "/chat");
    CHECK(line.at("protocol") == "HTTP/2");
    CHECK(line.at("outcome") == "forwarded");
    CHECK(line.at("error") == "");
    CHECK(line.at("bytes_in").get<long>() > 3'000'000);
    CHECK(line.at("bytes_out").get<long>() > 3'000'000);
    CHECK_SOON(open_tunnels(proxy) == 0);
    CHECK(ended(proxy, "client") == 1);
    CHECK(proxy.tidegate().metric("tidegate_tunnel_received_bytes_total") > 3'000'000);
    CHECK_SOON(proxy.tidegate().metric("tidegate_upstream_connections") == 0);
    // The connection goes on.
    CHECK(client.get("/plain").status() == 200);
    CHECK(client.fault() == "");
}

TEST_CASE("tunnel http2: bytes that come right behind a handshake are not lost, on either side") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(switching_answer(request) + frame_bytes(kText, "first", false));
        FrameReader frames([&] { return conversation.some(); });
        conversation.send(frame_bytes(kText, frames.next().payload, false));
        conversation.wait_for_end();
    });
    Http2Proxy proxy(websockets(upstream));
    H2Client client(proxy.port());
    H2Request early = handshake();
    early.body = frame_bytes(kText, "early", true);
    H2Socket socket(client, early);
    CHECK(socket.next().payload == "first");
    CHECK(socket.next().payload == "early");
}

TEST_CASE("tunnel http2: extended CONNECT is announced only where a route takes WebSockets") {
    const Upstream upstream(echo_frames);
    const auto announced = [](const Http2Proxy& proxy) {
        H2Client client(proxy.port());
        CHECK(client.run_until([&] { return client.has_settings(); }));
        return client.server_setting(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL);
    };
    const Http2Proxy without(unlimited({upstream.url()}));
    CHECK(announced(without) == 0);
    // A client that sends it all the same breaks the rules of pseudo-fields.
    H2Wire wire(without.port());
    wire.send(h2_headers(1, h2_request("CONNECT", "/", {{":protocol", "websocket"}}), false));
    CHECK(wire.await(NGHTTP2_RST_STREAM, 1).error() == NGHTTP2_PROTOCOL_ERROR);
    // From a reload on it may be another answer, for new connections.
    without.write_configuration(websockets(upstream));
    CHECK(without.tidegate().reload().status() == 200);
    CHECK_SOON(announced(without) == 1);
    CHECK(upstream.requests() == 0);
}

TEST_CASE("tunnel http2: CONNECT for anything else is 501, and reaches no upstream") {
    const Upstream upstream(echo_frames);
    Http2Proxy proxy(websockets(upstream));
    H2Client client(proxy.port());
    H2Request other = handshake();
    other.protocol = "connect-udp";
    CHECK(client.ask(handshake("/plain")).status() == 501);
    CHECK(client.ask(other).status() == 501);
    CHECK(client.ask({.method = "CONNECT", .authority = "example.test:80"}).status() == 501);
    H2Request version = handshake();
    version.fields = {{"sec-websocket-version", "8"}};
    const H2Answer refused = client.ask(version);
    CHECK(refused.status() == 426);
    CHECK(refused.field("sec-websocket-version") == "13");
    CHECK(upstream.requests() == 0);
    // A GET with the fields of HTTP/1's handshake is a GET.
    CHECK(client.get("/", {{"sec-websocket-version", "13"}}).status() == 200);
    CHECK_FALSE(upstream.last().has("Upgrade"));
    CHECK(open_tunnels(proxy) == 0);
}

TEST_CASE("tunnel http2: the proxy makes the key, whatever the client sends") {
    const Upstream upstream(echo_frames);
    Http2Proxy proxy(websockets(upstream));
    H2Client client(proxy.port());
    const std::string forged = "dGhlIHNhbXBsZSBub25jZQ==";
    H2Socket first(client, handshake("/", {{"sec-websocket-key", forged}}));
    const Message request = upstream.last();
    CHECK(request.count("Sec-WebSocket-Key") == 1);
    CHECK(request.field("Sec-WebSocket-Key") != forged);
    H2Socket second(client);
    CHECK(upstream.last().field("Sec-WebSocket-Key") != request.field("Sec-WebSocket-Key"));
    CHECK(first.ask("1") == "1");
    CHECK(second.ask("2") == "2");
}

TEST_CASE(
    "tunnel http2: an answer other than 101 is forwarded unless it would look like a tunnel") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            std::string answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno";
            if (request.target() == "/wrong") {
                answer = switching_answer(request);
                answer.replace(answer.find("Accept: ") + 8, 4, "AAAA");
            } else if (request.target() == "/bare") {
                answer = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
            } else if (request.target() == "/ok") {
                answer = ok("not a tunnel");
            }
            if (!conversation.send(answer)) return;
        }
    });
    Http2Proxy proxy(websockets(upstream));
    H2Client client(proxy.port());
    const H2Answer refused = client.ask(handshake());
    CHECK(refused.status() == 403);
    CHECK(refused.body == "no");
    CHECK(client.ask(handshake("/wrong")).status() == 502);
    CHECK(client.ask(handshake("/bare")).status() == 502);
    // To a CONNECT, any 2xx would mean that the tunnel is open.
    CHECK(client.ask(handshake("/ok")).status() == 502);
    CHECK(client.get("/plain").status() == 403);
    CHECK(open_tunnels(proxy) == 0);
}

TEST_CASE("tunnel http2: the handshake is charged once, and `count` sees 101") {
    const Upstream upstream(echo_frames);
    const CountedIn counted = either_store();
    Http2Proxy proxy(
        counted.yaml() + "upstreams: {api: {servers: [" + upstream.url() +
        "]}}\nroutes:\n  - upgrade: [websocket]\n    policies:\n"
        "      - {key: [ip], limits: [{name: all, quota: 2, per: 1h}]}\n"
        "      - {key: [ip], limits: [{name: bad, quota: 1, per: 1h, count: [403]}]}\n");
    H2Client client(proxy.port());
    H2Socket first(client);
    for (int i = 0; i < 5; ++i) CHECK(first.ask("x") == "x");
    H2Socket second(client);
    CHECK(second.ask("x") == "x");
    const H2Answer refused = client.ask(handshake());
    CHECK(refused.status() == 429);
    CHECK(refused.has("retry-after"));
}

TEST_CASE("tunnel http2: a slot of concurrency is held until the tunnel ends, however it does") {
    const Upstream upstream(echo_frames);
    const CountedIn counted = either_store();
    Http2Proxy proxy(counted.yaml() + "upstreams: {api: {servers: [" + upstream.url() +
                     "]}}\nroutes: [{upgrade: [websocket], policies: [{key: [ip], limits: "
                     "[{quota: 1, algorithm: concurrency}]}]}]\n");
    H2Client other(proxy.port());
    const auto is_free = [&] { return other.get().status() == 200; };
    H2Client client(proxy.port());
    {
        H2Socket socket(client);
        CHECK(socket.ask("x") == "x");
        CHECK_FALSE(is_free());
        socket.send("", kClose);
        CHECK(socket.next().opcode == kClose);
        client.finish(socket.stream());
    }
    CHECK_SOON(is_free());
    {
        H2Socket socket(client);
        CHECK_FALSE(is_free());
        client.reset(socket.stream());
    }
    CHECK_SOON(is_free());
    {
        H2Socket socket(client);
        CHECK_FALSE(is_free());
        client.leave();
    }
    CHECK_SOON(is_free());
}

TEST_CASE("tunnel http2: too many messages end in 1008, one that is too large in 1009") {
    const Upstream upstream(echo_frames);
    Http2Proxy proxy(websockets(upstream, ", tunnel: {messages: 5/h, message_bytes: 1KiB}"));
    H2Client client(proxy.port());
    H2Socket many(client);
    H2Socket large(client);
    CHECK(many.ask("the first, as 5/h is less than one a second") != "");
    many.send("one more");
    CHECK(many.next().close_code() == 1008);
    CHECK(many.next().opcode == -1);
    large.send(std::string(1'025, 'x'));
    CHECK(large.next().close_code() == 1009);
    CHECK_SOON(ended(proxy, "limited") == 2);
    std::multiset<std::string> errors;
    for (const auto& line : proxy.tidegate().access_log(2)) errors.insert(line.at("error"));
    CHECK(errors ==
          std::multiset<std::string>{"client: message too large", "client: too many messages"});
    CHECK(client.get("/plain").status() == 200);
}

TEST_CASE("tunnel http2: bytes that are no frame end their tunnel with 1002, and no other") {
    const Upstream upstream(echo_frames);
    Http2Proxy proxy(websockets(upstream));
    H2Client client(proxy.port());
    H2Socket good(client);
    H2Socket bad(client);
    CHECK(bad.ask("x") == "x");
    client.send(bad.stream(), frame_bytes(kText, "not masked", false));
    CHECK(bad.next().close_code() == 1002);
    CHECK_SOON(ended(proxy, "bad_frames") == 1);
    CHECK(good.ask("y") == "y");
}

}  // namespace tidegate::test::tunnel_http2_test
