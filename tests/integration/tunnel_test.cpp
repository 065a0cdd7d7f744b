// WebSockets through the proxy: handshakes, their answers, and how tunnels end.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"
#include "integration/tunnel_world.hpp"

namespace tidegate::test::tunnel_test {

namespace {

// The answer to a request for a WebSocket with these fields.
Message answer_to(const Tidegate& tidegate, const std::string& fields,
                  const std::string& method = "GET") {
    auto client = tidegate.client();
    client.send(method + " / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n");
    return client.response();
}

std::string without(std::string fields, const std::string& name) {
    const auto begin = fields.find(name);
    REQUIRE(begin != std::string::npos);
    return fields.erase(begin, fields.find("\r\n", begin) + 2 - begin);
}

}  // namespace

TEST_CASE("tunnel: frames go both ways, and the log describes the tunnel at its end") {
    const Upstream upstream(echo_frames);
    const Tidegate tidegate(websockets(upstream));
    std::string bytes;
    {
        WebSocketClient client(tidegate.port(), "/chat?token=x",
                               "Sec-WebSocket-Protocol: a, b\r\n");
        CHECK(same_name(client.answer().field("Connection"), "upgrade"));
        CHECK(same_name(client.answer().field("Upgrade"), "websocket"));
        CHECK_FALSE(client.answer().has("Content-Length"));
        CHECK_FALSE(client.answer().has("Transfer-Encoding"));
        const Message request = upstream.last();
        CHECK(request.target() == "/chat?token=x");
        CHECK(same_name(request.field("Connection"), "upgrade"));
        CHECK(same_name(request.field("Upgrade"), "websocket"));
        CHECK(request.field("Sec-WebSocket-Protocol") == "a, b");
        CHECK(request.has("X-Forwarded-For"));
        CHECK(client.ask("hello") == "hello");
        CHECK(open_tunnels(tidegate) == 1);
        for (const std::size_t size : {0UL, 125UL, 126UL, 65'535UL, 65'536UL, 3'000'000UL}) {
            CAPTURE(size);
            const std::string large(size, 'x');
            std::thread sender([&] { client.send(large, kBinary); });
            const WebSocketFrame frame = client.next();
            sender.join();
            CHECK(frame.opcode == kBinary);
            CHECK_FALSE(frame.is_masked);
            CHECK(frame.payload == large);
        }
        client.send("are you there", kPing);
        CHECK(client.next().opcode == kPong);
        client.send(std::string("\x03\xe8", 2), kClose);
        const WebSocketFrame close = client.next();
        CHECK(close.close_code() == 1000);
        CHECK(client.next().opcode == -1);
        CHECK_FALSE(client.raw().was_reset());
        CHECK_FALSE(client.raw().was_truncated());
        client.raw().finish_sending();
    }
    const auto line = tidegate.access_log(1).back();
    CHECK(line.at("status") == 101);
    CHECK(line.at("path") == "/chat");
    CHECK(line.at("method") == "GET");
    CHECK(line.at("outcome") == "forwarded");
    CHECK(line.at("error") == "");
    CHECK(line.at("bytes_in").get<long>() > 3'000'000);
    CHECK(line.at("bytes_out").get<long>() > 3'000'000);
    CHECK_SOON(open_tunnels(tidegate) == 0);
    CHECK(ended(tidegate, "client") == 1);
    CHECK(tidegate.metric("tidegate_tunnel_received_bytes_total") > 3'000'000);
    CHECK(tidegate.metric("tidegate_client_received_bytes_total") == 0);
    CHECK_SOON(tidegate.metric("tidegate_upstream_connections") == 0);
}

TEST_CASE("tunnel: bytes that come right behind a handshake are not lost, on either side") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(switching_answer(request) + frame_bytes(kText, "first", false));
        FrameReader frames([&] { return conversation.some(); });
        conversation.send(frame_bytes(kText, frames.next().payload, false));
        conversation.wait_for_end();
    });
    const Tidegate tidegate(websockets(upstream));
    WebSocketClient client(tidegate.port(), "/", "", frame_bytes(kText, "early", true));
    CHECK(client.next().payload == "first");
    CHECK(client.next().payload == "early");
}

TEST_CASE("tunnel: on other routes Upgrade is dropped, and the request goes on") {
    const Upstream upstream(echo_frames);
    const Tidegate tidegate(websockets(upstream));
    auto client = tidegate.client();
    CHECK(client.get("/plain", handshake_fields()).status() == 200);
    CHECK_FALSE(upstream.last().has("Upgrade"));
    // On a route that takes WebSockets, a request without a handshake is an ordinary one.
    CHECK(client.get("/").status() == 200);
    CHECK(client.get("/", "Connection: Upgrade\r\nUpgrade: h2c\r\n").status() == 200);
    CHECK_FALSE(upstream.last().has("Upgrade"));
    CHECK(client.get("/", without(handshake_fields(), "Connection:")).status() == 200);
    CHECK_FALSE(upstream.last().has("Upgrade"));
}

TEST_CASE("tunnel: a malformed handshake is refused, and reaches no upstream") {
    const Upstream upstream(echo_frames);
    const Tidegate tidegate(websockets(upstream));
    const std::string fields = handshake_fields();
    CHECK(answer_to(tidegate, fields, "POST").status() == 400);
    CHECK(answer_to(tidegate, without(fields, "Sec-WebSocket-Key")).status() == 400);
    CHECK(
        answer_to(tidegate, fields + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n").status() ==
        400);
    CHECK(answer_to(tidegate,
                    without(fields, "Sec-WebSocket-Key") + "Sec-WebSocket-Key: dG9vIHNob3J0\r\n")
              .status() == 400);
    const Message other = answer_to(
        tidegate, without(fields, "Sec-WebSocket-Version") + "Sec-WebSocket-Version: 8\r\n");
    CHECK(other.status() == 426);
    CHECK(other.field("Sec-WebSocket-Version") == "13");
    CHECK(upstream.requests() == 0);
    CHECK_SOON(tidegate.metric(
                   "tidegate_request_faults_total{fault=\"client: bad WebSocket handshake\"}") ==
               4);
    CHECK_SOON(
        tidegate.metric("tidegate_request_faults_total{fault=\"client: WebSocket version\"}") == 1);
}

TEST_CASE("tunnel: an answer other than 101 is forwarded, and a 101 without its value is 502") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            std::string answer = ok("not here");
            if (request.target() == "/wrong") {
                answer = switching_answer(request);
                answer.replace(answer.find("Accept: ") + 8, 4, "AAAA");
            } else if (request.target() == "/bare") {
                answer = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
            }
            if (!conversation.send(answer)) return;
        }
    });
    const Tidegate tidegate(websockets(upstream));
    auto client = tidegate.client();
    CHECK(client.get("/", handshake_fields()).body == "not here");
    // The connections of both sides go on.
    CHECK(client.get("/", handshake_fields()).body == "not here");
    CHECK(client.get("/wrong", handshake_fields()).status() == 502);
    CHECK(client.get("/bare", handshake_fields()).status() == 502);
    CHECK(client.get("/").status() == 200);
    CHECK(open_tunnels(tidegate) == 0);
}

TEST_CASE("tunnel: a tunnel takes no connection of the pool, and gives none back") {
    const Upstream upstream(echo_frames);
    const Tidegate tidegate("threads: 1\n" + websockets(upstream));
    CHECK(tidegate.get().status() == 200);
    CHECK(upstream.connections() == 1);
    {
        WebSocketClient client(tidegate.port());
        CHECK(client.ask("x") == "x");
        CHECK(upstream.connections() == 2);
        client.send("", kClose);
        client.next();
    }
    CHECK_SOON(open_tunnels(tidegate) == 0);
    CHECK(tidegate.get().status() == 200);
    CHECK(upstream.connections() == 2);
}

TEST_CASE("tunnel: a handshake that waits in the queue gets a connection that served no other") {
    std::atomic<bool> may_answer{false};
    // The body of each answer is the number of its request on the connection.
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        for (int number = 1; conversation.read(request); ++number) {
            if (request.target() == "/held") {
                conversation.hold_until([&] { return may_answer.load(); });
            }
            if (!conversation.send(ok(std::to_string(number)))) return;
        }
    });
    const Tidegate tidegate("threads: 1\nupstreams: {api: {servers: [" + upstream.url() +
                            "], max_connections: 1, queue: {wait: 20s}}}\n"
                            "routes: [{upgrade: [websocket], policies: []}]\n");
    auto first = tidegate.client();
    first.send(get_request("/held"));
    CHECK_SOON(upstream.requests() == 1);
    auto second = tidegate.client();
    second.send(get_request("/", handshake_fields()));
    CHECK_SOON(tidegate.metric_sum("tidegate_upstream_queue_length") == 1);
    may_answer = true;
    CHECK(first.response().body == "1");
    CHECK(second.response().body == "1");
    // It opened no tunnel, so others may have its connection.
    CHECK(tidegate.get().body == "2");
    CHECK(upstream.connections() == 2);
}

TEST_CASE("tunnel: the handshake is charged once, and `count` sees 101") {
    const Upstream upstream(echo_frames);
    const CountedIn counted = either_store();
    const Tidegate tidegate(
        counted.yaml() + "upstreams: {api: {servers: [" + upstream.url() +
        "]}}\nroutes:\n  - upgrade: [websocket]\n    policies:\n"
        "      - {key: [ip], limits: [{name: all, quota: 2, per: 1h}]}\n"
        "      - {key: [ip], limits: [{name: failed, quota: 1, per: 1h, count: [403]}]}\n");
    WebSocketClient first(tidegate.port());
    for (int i = 0; i < 5; ++i) CHECK(first.ask("x") == "x");
    // A failed attempt would have been the last one; an open tunnel is none.
    WebSocketClient second(tidegate.port());
    CHECK(second.ask("x") == "x");
    CHECK(answer_to(tidegate, handshake_fields()).status() == 429);
}

TEST_CASE("tunnel: a slot of concurrency is held and renewed until the tunnel ends") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(echo_frames);
    const Tidegate tidegate(counted.yaml() + "upstreams: {api: {servers: [" + upstream.url() +
                            "]}}\nroutes: [{upgrade: [websocket], policies: [{key: [ip], limits: "
                            "[{quota: 1, algorithm: concurrency}]}]}]\n");
    {
        WebSocketClient client(tidegate.port());
        // Longer than a lease lasts.
        const auto end = Clock::now() + milliseconds{12'000};
        while (Clock::now() < end) {
            CHECK(client.ask("x") == "x");
            std::this_thread::sleep_for(milliseconds{500});
        }
        CHECK(tidegate.get().status() == 429);
    }
    CHECK_SOON(tidegate.get().status() == 200);
}

TEST_CASE("tunnel: it has a seat of its upstream, and is in flight at its server") {
    const Upstream upstream(echo_frames);
    const Tidegate tidegate("upstreams: {api: {servers: [" + upstream.url() +
                            "], max_connections: 1, queue: off}}\n"
                            "routes: [{upgrade: [websocket], policies: []}]\n");
    {
        WebSocketClient client(tidegate.port());
        CHECK(client.ask("x") == "x");
        CHECK(tidegate.metric_sum("tidegate_upstream_server_active") == 1);
        CHECK(tidegate.get().status() == 503);
    }
    CHECK_SOON(tidegate.get().status() == 200);
    CHECK_SOON(tidegate.metric_sum("tidegate_upstream_server_active") == 0);
}

TEST_CASE("tunnel: too many messages end in 1008, one that is too large in 1009") {
    const Upstream upstream(echo_frames);
    const Tidegate tidegate("threads: 1\n" +
                            websockets(upstream, ", tunnel: {messages: 5/h, message_bytes: 1KiB}"));
    WebSocketClient many(tidegate.port());
    CHECK(many.ask("the first, as 5/h is less than one a second") != "");
    many.send("one more");
    CHECK(many.next().close_code() == 1008);
    CHECK(many.next().opcode == -1);
    WebSocketClient large(tidegate.port());
    large.send(std::string(1'025, 'x'));
    CHECK(large.next().close_code() == 1009);
    CHECK_SOON(ended(tidegate, "limited") == 2);
    std::multiset<std::string> errors;
    for (const auto& line : tidegate.access_log(2)) {
        errors.insert(line.at("error"));
        CHECK(line.at("status") == 101);
    }
    CHECK(errors ==
          std::multiset<std::string>{"client: message too large", "client: too many messages"});
}

TEST_CASE("tunnel: bytes that are no frame end the tunnel with 1002") {
    const Upstream upstream(echo_frames);
    const Tidegate tidegate(websockets(upstream));
    WebSocketClient client(tidegate.port());
    CHECK(client.ask("x") == "x");
    client.send_bytes(frame_bytes(kText, "not masked", false));
    CHECK(client.next().close_code() == 1002);
    CHECK_SOON(ended(tidegate, "bad_frames") == 1);
}

TEST_CASE("tunnel: silence of both ends for tunnel_idle ends it, of one alone it does not") {
    const Upstream upstream(echo_frames);
    const Tidegate tidegate(websockets(upstream, "", "timeouts: {tunnel_idle: 2s}\n"));
    WebSocketClient client(tidegate.port());
    for (int i = 0; i < 6; ++i) {
        std::this_thread::sleep_for(milliseconds{400});
        client.send("", kPong);  // which the server sends back
        client.next();
    }
    const auto begin = Clock::now();
    CHECK(client.next().close_code() == 1001);
    CHECK(Clock::now() - begin > milliseconds{1'000});
    CHECK_SOON(ended(tidegate, "idle") == 1);
    CHECK(tidegate.access_log(1).back().at("error") == "tunnel: idle");
}

TEST_CASE("tunnel: a reload does not touch a tunnel") {
    const Upstream upstream(echo_frames);
    const Upstream other(echo_frames);
    const Tidegate tidegate(websockets(upstream));
    WebSocketClient client(tidegate.port());
    CHECK(client.ask("before") == "before");
    tidegate.write_configuration("upstream: " + other.url() +
                                 "\ntimeouts: {client_idle: 1s}\nlimits: [1/h]\n");
    CHECK(tidegate.reload().status() == 200);
    CHECK(tidegate.get().status() == 200);
    CHECK(other.requests() == 1);
    for (int i = 0; i < 10; ++i) CHECK(client.ask("after") == "after");
    CHECK(tidegate.metric("tidegate_configs_in_use") == 2);
    client.send("", kClose);
    CHECK(client.next().opcode == kClose);
    client.raw().finish_sending();
    CHECK_SOON(tidegate.metric("tidegate_configs_in_use") == 1);
}

TEST_CASE("tunnel: a drain tells both ends, spread over drain_tunnels, and loses no frame") {
    std::atomic<int> told{0};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(switching_answer(request));
        FrameReader frames([&] { return conversation.some(); });
        for (;;) {
            const WebSocketFrame frame = frames.next();
            if (frame.opcode < 0) return;
            if (frame.close_code() == 1001 && frame.is_masked) ++told;
            if (frame.opcode == kClose) return;
            conversation.send(frame_bytes(frame.opcode, frame.payload, false));
        }
    });
    Tidegate tidegate("threads: 1\n" +
                      websockets(upstream, "", "timeouts: {drain: 100ms, drain_tunnels: 4s}\n"));
    constexpr int kTunnels = 8;
    std::vector<std::thread> clients;
    std::atomic<int> open{0};
    std::atomic<int> closed_in_order{0};
    std::atomic<int> early{0};
    std::atomic<int> late{0};
    std::atomic<Clock::rep> begin{0};
    for (int i = 0; i < kTunnels; ++i) {
        clients.emplace_back([&] {
            WebSocketClient client(tidegate.port());
            ++open;
            for (;;) {
                client.send("a message that is long enough to be cut");
                const WebSocketFrame frame = client.next();
                if (frame.opcode == kText &&
                    frame.payload == "a message that is long enough to be cut") {
                    std::this_thread::sleep_for(milliseconds{5});
                    continue;
                }
                if (frame.close_code() == 1001) ++closed_in_order;
                const Clock::duration after{Clock::now().time_since_epoch().count() - begin};
                ++(after < milliseconds{2'000} ? early : late);
                client.send(frame.payload, kClose);
                return;
            }
        });
    }
    await_quietly([&] { return open == kTunnels; });
    begin = Clock::now().time_since_epoch().count();
    tidegate.signal(SIGTERM);
    for (std::thread& one : clients) one.join();
    CHECK(closed_in_order == kTunnels);
    CHECK(early >= 2);
    CHECK(late >= 2);
    CHECK(tidegate.wait() == 0);
    CHECK(told == kTunnels);
    CHECK(tidegate.errors().find("has ended with") == std::string::npos);
}

TEST_CASE("tunnel: a drain ends, whatever the ends of a tunnel do") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        // The beginning of a frame, and never its end.
        conversation.send(switching_answer(request) + std::string("\x81\x05hel", 5));
        conversation.wait_for_end();
    });
    Tidegate tidegate(websockets(upstream, "", "timeouts: {drain_tunnels: 0s}\n"));
    WebSocketClient client(tidegate.port());
    const auto begin = Clock::now();
    CHECK(tidegate.stop() == 0);
    CHECK(Clock::now() - begin < milliseconds{6'000});
}

TEST_CASE("tunnel: the second signal cuts a tunnel off at once") {
    const Upstream upstream(echo_frames);
    Tidegate tidegate(websockets(upstream, "", "timeouts: {drain_tunnels: 1h, drain: 1h}\n"));
    WebSocketClient first(tidegate.port());
    WebSocketClient second(tidegate.port());
    WebSocketClient third(tidegate.port());
    CHECK(third.ask("x") == "x");
    tidegate.signal(SIGTERM);
    // Two signals that wait are one.
    CHECK_SOON(tidegate.errors().find(" draining\n") != std::string::npos);
    tidegate.signal(SIGTERM);
    CHECK(tidegate.wait() == 0);
    CHECK(tidegate.access_log(3).back().at("status") == 101);
}

TEST_CASE("tunnel: either end may vanish") {
    const Upstream upstream(echo_frames);
    const Upstream resetting(reset_after_some);
    const Tidegate tidegate("threads: 1\n" + websockets_and_resets(upstream, resetting));
    {
        WebSocketClient client(tidegate.port());
        CHECK(client.ask("x") == "x");
        client.raw().reset();
    }
    CHECK_SOON(ended(tidegate, "client") == 1);
    WebSocketClient client(tidegate.port(), "/r");
    client.send("x");
    CHECK(client.next().opcode == -1);
    CHECK_SOON(ended(tidegate, "upstream") == 1);
    CHECK(tidegate.access_log(2).back().at("error") == "upstream: tunnel cut off");
    CHECK_SOON(tidegate.metric("tidegate_upstream_connections") == 0);
}

TEST_CASE("tunnel: an end that takes nothing holds the other one up, and little memory") {
    std::atomic<bool> go{false};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(switching_answer(request));
        conversation.hold_until([&] { return go.load(); });
        FrameReader frames([&] { return conversation.some(); });
        conversation.send(frame_bytes(kText, std::to_string(frames.next().payload.size()), false));
        conversation.wait_for_end();
    });
    const Tidegate tidegate(websockets(upstream));
    WebSocketClient client(tidegate.port());
    const long before = tidegate.peak_memory_kib();
    const std::string large(64'000'000, 'x');
    std::thread sender([&] { client.send(large, kBinary); });
    std::this_thread::sleep_for(milliseconds{500});
    CHECK(tidegate.peak_memory_kib() - before < 8'192);
    go = true;
    sender.join();
    CHECK(client.next().payload == "64000000");
}

}  // namespace tidegate::test::tunnel_test
