// WebSockets over HTTP/2: how they end, and what delays them.
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/http2_tunnel.hpp"

namespace tidegate::test::tunnel_http2_end_test {

TEST_CASE("tunnel http2: silence of both ends for tunnel_idle ends it, and client_idle does not") {
    const Upstream upstream(echo_frames);
    Http2Proxy proxy(websockets(upstream, "", "timeouts: {tunnel_idle: 2s, client_idle: 200ms}\n"));
    H2Client client(proxy.port());
    H2Socket socket(client);
    for (int i = 0; i < 6; ++i) {
        client.run_for(milliseconds{400});
        socket.send("", kPong);  // which the server sends back
        CHECK(socket.next().opcode == kPong);
    }
    const auto begin = Clock::now();
    CHECK(socket.next().close_code() == 1001);
    CHECK(Clock::now() - begin > milliseconds{1'000});
    CHECK_SOON(ended(proxy, "idle") == 1);
    CHECK(proxy.tidegate().access_log(1).back().at("error") == "tunnel: idle");
}

TEST_CASE("tunnel http2: a reload does not touch a tunnel") {
    const Upstream upstream(echo_frames);
    const Upstream other(echo_frames);
    Http2Proxy proxy(websockets(upstream));
    H2Client client(proxy.port());
    H2Socket socket(client);
    CHECK(socket.ask("before") == "before");
    proxy.write_configuration("upstream: " + other.url() +
                              "\ntimeouts: {client_idle: 1s}\nlimits: [1/h]\n");
    CHECK(proxy.tidegate().reload().status() == 200);
    CHECK(client.get().status() == 200);  // a request beside it is of the new configuration
    CHECK(other.requests() == 1);
    CHECK(client.get().status() == 429);
    for (int i = 0; i < 10; ++i) CHECK(socket.ask("after") == "after");
    CHECK(proxy.tidegate().metric("tidegate_configs_in_use") == 2);
    socket.send("", kClose);
    CHECK(socket.next().opcode == kClose);
    client.finish(socket.stream());
    CHECK_SOON(proxy.tidegate().metric("tidegate_configs_in_use") == 1);
}

TEST_CASE("tunnel http2: either end may vanish, and the connection's other streams go on") {
    const Upstream upstream(echo_frames);
    const Upstream resetting(reset_after_some);
    Http2Proxy proxy(websockets_and_resets(upstream, resetting));
    H2Client client(proxy.port());
    H2Socket stays(client);
    {
        H2Socket gone(client);
        CHECK(gone.ask("x") == "x");
        client.reset(gone.stream());
    }
    CHECK_SOON(ended(proxy, "client") == 1);
    H2Socket reset(client, handshake("/r"));
    reset.send("x");
    CHECK(reset.next().opcode == -1);
    // It must not look like an end in order.
    CHECK(client.answer(reset.stream()).reset.has_value());
    CHECK_SOON(ended(proxy, "upstream") == 1);
    CHECK(proxy.tidegate().access_log(2).back().at("error") == "upstream: tunnel cut off");
    CHECK(stays.ask("y") == "y");
    client.leave();
    CHECK_SOON(ended(proxy, "client") == 2);
    CHECK_SOON(proxy.tidegate().metric("tidegate_upstream_connections") == 0);
}

TEST_CASE("tunnel http2: the end of one direction reaches the other end, which may still send") {
    std::atomic<bool> saw_end{false};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(switching_answer(request));
        FrameReader frames([&] { return conversation.some(); });
        CHECK(frames.next().payload == "last words");
        saw_end = frames.next().opcode == -1;
        conversation.send(frame_bytes(kText, "answer", false));
    });
    Http2Proxy proxy(websockets(upstream));
    H2Client client(proxy.port());
    H2Socket socket(client);
    socket.send("last words");
    client.finish(socket.stream());
    CHECK_SOON(saw_end.load());
    CHECK(socket.next().payload == "answer");
    CHECK(socket.next().opcode == -1);
    CHECK(socket.has_ended());
}

TEST_CASE("tunnel http2: an upstream that takes nothing holds up its tunnel alone") {
    std::atomic<bool> go{false};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(switching_answer(request));
        if (request.target() == "/slow") conversation.hold_until([&] { return go.load(); });
        FrameReader frames([&] { return conversation.some(); });
        for (auto frame = frames.next(); frame.opcode >= 0; frame = frames.next()) {
            conversation.send(frame_bytes(kText, std::to_string(frame.payload.size()), false));
        }
    });
    Http2Proxy proxy(websockets(upstream));
    H2Client client(proxy.port());
    H2Socket slow(client, handshake("/slow"));
    H2Socket other(client);
    const MemoryBound memory(proxy.tidegate());
    client.queue(slow.stream(), frame_bytes(kBinary, std::string(32'000'000, 'x'), true));
    client.run_for(milliseconds{500});
    CHECK(client.unsent(slow.stream()) > 10'000'000);
    memory.check(8);
    for (int i = 0; i < 20; ++i) CHECK(other.ask("12345") == "5");
    go = true;
    CHECK(slow.next().payload == "32000000");
}

TEST_CASE("tunnel http2: a client that takes nothing of one tunnel holds up that one alone") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(switching_answer(request));
        FrameReader frames([&] { return conversation.some(); });
        for (auto frame = frames.next(); frame.opcode >= 0; frame = frames.next()) {
            const bool is_large = frame.payload == "large";
            const std::string answer(is_large ? 32'000'000 : 10, 'x');
            if (!conversation.send(frame_bytes(kBinary, answer, false))) return;
        }
    });
    Http2Proxy proxy(websockets(upstream, "", "timeouts: {client_write: 2s}\n"));
    H2Client client(
        proxy.port(),
        {.stream_window = 100'000, .connection_window = 10'000'000, .is_reading = false});
    H2Socket slow(client);
    H2Socket other(client);
    const MemoryBound memory(proxy.tidegate());
    slow.send("large");
    CHECK(client.run_until([&] { return client.progress(slow.stream()).body == 100'000; }));
    for (int i = 0; i < 20; ++i) CHECK(other.ask("small").size() == 10);
    memory.check(8);
    // And ends after client_write.
    CHECK_SOON(ended(proxy, "stalled") == 1);
    CHECK(client.answer(slow.stream()).broken);
    CHECK(proxy.tidegate().access_log(1).back().at("error") == "client: not reading");
    CHECK(other.ask("small").size() == 10);
}

TEST_CASE(
    "tunnel http2: a drain closes each with 1001, spread over its time, then the connection") {
    const Upstream upstream(echo_frames);
    Http2Proxy proxy(websockets(upstream, "", "timeouts: {drain: 100ms, drain_tunnels: 4s}\n"));
    H2Client client(proxy.port());
    std::list<H2Socket> sockets;
    for (int i = 0; i < 8; ++i) {
        sockets.emplace_back(client);
        CHECK(sockets.back().ask("x") == "x");
    }
    proxy.tidegate().signal(SIGTERM);
    CHECK(client.run_until([&] { return client.goaway().has_value(); }));
    const auto begin = Clock::now();
    int early = 0;
    int late = 0;
    std::vector<std::thread> readers;
    std::mutex mutex;
    for (H2Socket& socket : sockets) {
        readers.emplace_back([&] {
            const WebSocketFrame close = socket.next();
            const bool is_early = Clock::now() - begin < milliseconds{2'000};
            const std::lock_guard lock(mutex);
            if (close.close_code() == 1001) ++(is_early ? early : late);
            socket.send(close.payload, kClose);
            client.finish(socket.stream());
        });
    }
    for (std::thread& reader : readers) reader.join();
    CHECK(early + late == 8);
    CHECK(early >= 2);
    CHECK(late >= 2);
    CHECK(client.closed());
    CHECK_FALSE(client.was_reset());
    CHECK(proxy.tidegate().wait() == 0);
    CHECK(proxy.tidegate().access_log(8).size() == 8);
}

TEST_CASE("tunnel http2: the second signal cuts a tunnel off at once") {
    const Upstream upstream(echo_frames);
    Http2Proxy proxy(websockets(upstream, "", "timeouts: {drain_tunnels: 1h, drain: 1h}\n"));
    H2Client client(proxy.port());
    std::list<H2Socket> sockets;
    for (int i = 0; i < 3; ++i) sockets.emplace_back(client);
    CHECK(sockets.back().ask("x") == "x");
    proxy.tidegate().signal(SIGTERM);
    CHECK(client.run_until([&] { return client.goaway().has_value(); }));
    proxy.tidegate().signal(SIGTERM);
    CHECK(proxy.tidegate().wait() == 0);
    CHECK(proxy.tidegate().access_log(3).back().at("status") == 101);
}

TEST_CASE("tunnel http2: one connection carries a thousand, and not one more than `streams`") {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    const Upstream upstream(echo_frames);
    const std::uint32_t count = sanitized() ? 200 : 1'000;
    Http2Proxy proxy(websockets(upstream, "", "http2: {streams: " + std::to_string(count) + "}\n"));
    H2Client client(proxy.port());
    CHECK(client.run_until([&] { return client.has_settings(); }));
    CHECK(client.server_setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS) == count);
    const MemoryBound memory(proxy.tidegate());
    std::list<H2Socket> sockets;
    for (std::uint32_t i = 0; i < count; ++i) sockets.emplace_back(client);
    int well = 0;
    for (H2Socket& socket : sockets) well += socket.ask("x") == "x" ? 1 : 0;
    CHECK(well == static_cast<int>(count));
    CHECK(open_tunnels(proxy) == count);
    memory.check(24);
    // There is no room for one more, nor for a request, until one of them ends.
    const int waiting = client.begin({.path = "/plain"});
    client.run_for(milliseconds{200});
    CHECK_FALSE(client.progress(waiting).has_head);
    client.reset(sockets.front().stream());
    // Where the request comes with that reset, the tunnel is still in service, and it is refused.
    const H2Answer answer = client.answer(waiting);
    if (answer.has_head()) {
        CHECK(answer.status() == 200);
    } else {
        CHECK(answer.reset == NGHTTP2_REFUSED_STREAM);
        CHECK_SOON(open_tunnels(proxy) == count - 1);
        CHECK(client.get("/plain").status() == 200);
    }
    client.leave();
    CHECK_SOON(open_tunnels(proxy) == 0);
    CHECK(ended(proxy, "client") == count);
    CHECK_SOON(proxy.tidegate().metric("tidegate_upstream_connections") <= 1);
}

}  // namespace tidegate::test::tunnel_http2_end_test
