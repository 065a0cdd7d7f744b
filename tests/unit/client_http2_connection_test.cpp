#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "client/http1_connection.hpp"
#include "client/http2_connection.hpp"
#include "unit/client_connection_world.hpp"
#include "unit/h2_world.hpp"

namespace tidegate::client_http2_connection_test {

using namespace std::chrono_literals;
using client::BodyInput;
using client::Http2Connection;
using client::Stream;
using h2_world::find;
using h2_world::Frame;
using h2_world::headers;
using h2_world::request;
using h2_world::request_with;

namespace {

constexpr http::TrailerBounds kBounds{16'384, 100};

// One connection and the client's end of it.
struct Client : test::SocketWorld {
    explicit Client(const std::string& yaml = "")
        : Client(client::Arrival{.local_port = 80}, yaml) {}
    Client(const client::Arrival& arrival, const std::string& yaml, bool begins_as_http1 = false)
        : SocketWorld(yaml) {
        http2.use(*config);
        ConnectionPtr connection(new Connection(readiness, near));
        Task<> run = begins_as_http1
                         ? client::Http1Connection::run(std::make_unique<client::Http1Connection>(
                               context, std::move(connection), arrival))
                         : Http2Connection::run(std::make_unique<Http2Connection>(
                               context, std::move(connection), arrival));
        serve_connection(std::move(run));
    }
    ~Client() override { cut_off(); }

    void greet() {
        send(h2_world::preface());
        got();
        send(h2_world::frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
    }
    // What the client has got since. Looks again while there is something.
    std::vector<Frame> got() {
        std::vector<Frame> frames;
        std::array<char, 65'536> block;
        for (;;) {
            const ssize_t bytes = ::recv(far, block.data(), block.size(), 0);
            is_closed = bytes == 0 || (bytes < 0 && errno == ECONNRESET);
            if (bytes <= 0) return frames;
            const auto more = reader.read({block.data(), static_cast<std::size_t>(bytes)});
            frames.insert(frames.end(), more.begin(), more.end());
            settle();
        }
    }
    static std::string content(const std::vector<Frame>& frames, std::uint32_t stream) {
        std::string bytes;
        for (const Frame& one : frames) {
            if (one.is(NGHTTP2_DATA) && one.head.stream == stream) bytes += one.payload;
        }
        return bytes;
    }

    void answer(Stream& stream) override { answer_with(stream, "ok"); }
    void answer_bad_head(Stream& stream) override {
        stream.begin_head(400, "Bad Request");
        stream.end_head(http::BodyKind::none, {});
        stream.send_all("no");
    }
    static void answer_with(Stream& stream, std::string_view content) {
        stream.begin_head(200, "OK") += "X-Said: yes\r\nConnection: close\r\n";
        stream.end_head(http::BodyKind::none, {});
        CHECK(stream.send_all(content) == IoStatus::ok);
    }
    // Reads a whole body, and answers with it.
    static Task<> echo(Stream& stream) {
        std::string body;
        while (!stream.is_body_done()) {
            const http::BodyBatch batch = stream.take_body(kBounds);
            for (const std::string_view piece : batch.view()) body += piece;
            stream.drop_body(batch);
            if (batch.done) break;
            const BodyInput input = stream.read_body(stream.sleeper().wakeup());
            if (input == BodyInput::left) co_return stream.break_off();
            if (input == BodyInput::nothing) co_await stream.sleeper().sleep();
        }
        for (const http::Field& field : stream.trailers()) body += field.value;
        stream.begin_head(200, "OK");
        stream.end_head(http::BodyKind::none, {});
        IoStatus sent = stream.send_all(body);
        if (sent == IoStatus::would_block) sent = co_await stream.send_rest(30s);
        if (sent != IoStatus::ok) stream.break_off();
    }

    h2_world::Reader reader;
};

h2_world::FieldList connect() {
    return {{":method", "CONNECT"},
            {":protocol", "websocket"},
            {":scheme", "http"},
            {":path", "/chat"},
            {":authority", "a.example"}};
}

}  // namespace

TEST_CASE("http2 connection: a request is answered, without fields that HTTP/2 does not have") {
    Client client;
    client.greet();
    client.send(headers(1, request()));
    const auto frames = client.got();
    const Frame* const head = find(frames, NGHTTP2_HEADERS);
    REQUIRE(head != nullptr);
    CHECK(head->fields == h2_world::FieldList{{":status", "200"}, {"x-said", "yes"}});
    CHECK(Client::content(frames, 1) == "ok");
    CHECK(frames.back().ends_stream());
    CHECK(client.methods == std::vector<std::string>{"GET"});
    CHECK_FALSE(client.was_evictable);
    CHECK(client.connections.front().is_evictable());
}

TEST_CASE("http2 connection: bodies come in pieces, and each stream gets its own") {
    Client client;
    client.on_request = Client::echo;
    client.greet();
    client.send(headers(1, request("POST"), false) + headers(3, request("POST"), false));
    client.send(h2_world::data(1, "one ") + h2_world::data(3, "two "));
    CHECK(client.got().empty());
    client.send(h2_world::data(3, "three", true));
    CHECK(Client::content(client.got(), 3) == "two three");
    client.send(h2_world::data(1, "four") + headers(1, {{"x-sum", "+5"}}, true));
    CHECK(Client::content(client.got(), 1) == "one four+5");
    CHECK(client.http2.bodies.held() == 0);
}

TEST_CASE("http2 connection: an answer waits for the client's window, and loses nothing") {
    Client client;
    client.on_request = Client::echo;
    client.send(h2_world::preface({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10}}));
    client.send(h2_world::frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
    client.got();
    const std::string body(1'000, 'x');
    client.send(headers(1, request("POST"), false) + h2_world::data(1, body, true));
    auto frames = client.got();
    CHECK(Client::content(frames, 1).size() == 10);
    // Another stream is not kept waiting.
    client.send(headers(3, request("POST"), false) + h2_world::data(3, "short", true));
    CHECK(Client::content(client.got(), 3) == "short");
    client.send(h2_world::window_update(1, 500));
    CHECK(Client::content(client.got(), 1).size() == 500);
    client.send(h2_world::window_update(1, 500));
    frames = client.got();
    CHECK(Client::content(frames, 1).size() == 490);
    CHECK(frames.back().ends_stream());
}

TEST_CASE("http2 connection: a client that takes nothing of an answer loses its stream in time") {
    Client client;
    bool has_failed = false;
    client.on_request = [&](Stream& stream) -> Task<> {
        stream.begin_head(200, "OK");
        stream.end_head(http::BodyKind::none, {});
        const std::string content(100, 'x');
        IoStatus sent = stream.send_all(content);
        if (sent == IoStatus::would_block) sent = co_await stream.send_rest(5s);
        has_failed = sent == IoStatus::failed && !stream.is_taking();
        if (has_failed) stream.break_off();
    };
    client.send(h2_world::preface({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10}}));
    client.send(h2_world::frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
    client.send(headers(1, request()));
    client.got();
    client.pass(6s);  // it took ten bytes meanwhile
    client.pass(6s);
    CHECK(has_failed);
    CHECK(h2_world::reset_error(client.got()) == NGHTTP2_INTERNAL_ERROR);
}

TEST_CASE("http2 connection: nothing more is sent of an answer that its client took too slowly") {
    Client client;
    Wakeup gate(client.io.get_executor());
    client.on_request = [&](Stream& stream) -> Task<> {
        stream.begin_head(200, "OK");
        stream.end_head(http::BodyKind::none, {});
        {
            const std::string content(100, 'x');  // gone before the request has ended
            CHECK(stream.send_all(content) == IoStatus::would_block);
            CHECK(co_await stream.send_rest(5s) == IoStatus::failed);
        }
        CHECK_FALSE(stream.is_taking());
        co_await gate.wait();
    };
    client.send(h2_world::preface({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10}}));
    client.send(h2_world::frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
    client.send(headers(1, request()));
    CHECK(Client::content(client.got(), 1).size() == 10);
    client.pass(6s);
    client.pass(6s);
    client.send(h2_world::window_update(1, 1'000));
    const auto frames = client.got();
    CHECK(h2_world::reset_error(frames) == NGHTTP2_INTERNAL_ERROR);
    CHECK(find(frames, NGHTTP2_DATA) == nullptr);
    gate.wake_later();
    client.settle();
}

TEST_CASE(
    "http2 connection: a reset wakes the request, which stays in service until it has ended") {
    Client client("http2: {streams: 1}\n");
    bool is_ready = false;
    Wakeup gate(client.io.get_executor());
    client.on_request = [&](Stream& stream) -> Task<> {
        while (!stream.has_left(stream.sleeper().wakeup())) co_await stream.sleeper().sleep();
        is_ready = true;
        co_await gate.wait();
    };
    client.greet();
    client.send(headers(1, request()));
    CHECK_FALSE(is_ready);
    client.send(h2_world::rst_stream(1));
    CHECK(is_ready);
    client.send(headers(3, request()));
    CHECK(h2_world::reset_error(client.got()) == NGHTTP2_REFUSED_STREAM);
    CHECK(client.methods.size() == 1);
    gate.wake_later();
    client.settle();
    client.send(headers(5, request()));
    CHECK(client.methods.size() == 2);
    client.send(h2_world::rst_stream(5));
    gate.wake_later();
    client.settle();
}

TEST_CASE("http2 connection: a request that fails or is broken off ends its stream alone") {
    Client client;
    client.on_request = [&](Stream& stream) -> Task<> {
        if (client.methods.back() == "PUT") throw std::runtime_error("of the request");
        if (client.methods.back() == "POST") co_return stream.break_off();
        Client::answer_with(stream, "well");
    };
    client.greet();
    client.send(headers(1, request("PUT")));
    CHECK(h2_world::reset_error(client.got()) == NGHTTP2_INTERNAL_ERROR);
    CHECK(client.request_failure != nullptr);
    client.send(headers(3, request("POST")));
    CHECK(h2_world::reset_error(client.got()) == NGHTTP2_INTERNAL_ERROR);
    client.send(headers(5, request()));
    CHECK(Client::content(client.got(), 5) == "well");
    CHECK_FALSE(client.has_ended);
}

TEST_CASE("http2 connection: a malformed request is reset, and comes to be logged") {
    Client client;
    client.greet();
    client.send(headers(1, request_with({{"connection", "close"}})));
    CHECK(h2_world::reset_error(client.got()) == NGHTTP2_PROTOCOL_ERROR);
    CHECK(client.heads == std::vector{Stream::Head::broken});
    client.send(headers(3, request("GET", "no-path")));
    const auto frames = client.got();
    REQUIRE(find(frames, NGHTTP2_HEADERS) != nullptr);
    CHECK(find(frames, NGHTTP2_HEADERS)->fields.front().second == "400");
    CHECK(client.heads.size() == 2);
}

TEST_CASE("http2 connection: without requests it ends with GOAWAY after client_idle") {
    Client client("timeouts: {client_idle: 20s}\n");
    client.greet();
    client.got();
    client.pass(19s);
    CHECK(client.got().empty());
    client.pass(2s);
    CHECK(h2_world::goaway_error(client.got()) == NGHTTP2_NO_ERROR);
    CHECK(client.is_closed);
}

TEST_CASE("http2 connection: a drain warns, lets requests end, and then closes") {
    Client client;
    Wakeup gate(client.io.get_executor());
    client.on_request = [&](Stream& stream) -> Task<> {
        co_await gate.wait();
        Client::answer_with(stream, "late");
    };
    client.greet();
    client.send(headers(1, request()));
    client.got();
    client.context.is_draining = true;
    client.connections.front().on_drain();
    client.settle();
    auto frames = client.got();
    const Frame* const warning = find(frames, NGHTTP2_GOAWAY);
    REQUIRE(warning != nullptr);
    CHECK(warning->word(0) == 0x7fff'ffff);
    REQUIRE(find(frames, NGHTTP2_PING) != nullptr);
    client.send(
        h2_world::frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, find(frames, NGHTTP2_PING)->payload));
    frames = client.got();
    REQUIRE(find(frames, NGHTTP2_GOAWAY) != nullptr);
    CHECK(find(frames, NGHTTP2_GOAWAY)->word(0) == 1);
    CHECK_FALSE(client.is_closed);
    gate.wake_later();
    client.settle();
    CHECK(Client::content(client.got(), 1) == "late");
    CHECK(client.is_closed);
}

TEST_CASE("http2 connection: cut off, it ends once its requests have") {
    Client client;
    Wakeup gate(client.io.get_executor());
    bool was_cut_off = false;
    client.on_request = [&](Stream& stream) -> Task<> {
        while (!stream.has_left(stream.sleeper().wakeup())) co_await stream.sleeper().sleep();
        was_cut_off = stream.is_cut_off();
        co_await gate.wait();
    };
    client.greet();
    client.send(headers(1, request()));
    client.connections.front().cut_off();
    client.settle();
    CHECK(was_cut_off);
    client.got();
    CHECK(client.is_closed);
    CHECK_FALSE(client.has_ended);
    gate.wake_later();
    client.settle();
    CHECK(client.has_ended);
    CHECK(client.connections.empty());
}

TEST_CASE("http2 connection: when the time to drain has ended, each kind of stream is cut off") {
    for (const bool is_tunnel_first : {false, true}) {
        CAPTURE(is_tunnel_first);
        Client client("routes: [{upgrade: [websocket], policies: []}]\n");
        int tunnels = 0;
        int requests = 0;
        client.on_request = [&](Stream& stream) -> Task<> {
            const bool is_tunnel = !stream.protocol().empty();
            if (is_tunnel) {
                stream.begin_head(200, "OK");
                CHECK(stream.send_switch() == IoStatus::ok);
                stream.become_tunnel();
            }
            int& count = is_tunnel ? tunnels : requests;
            ++count;
            while (!stream.is_cut_off()) co_await stream.sleeper().sleep();
            --count;
        };
        client.greet();
        client.send(headers(1, request()) + headers(3, connect(), false));
        client.connections.front().on_drain();
        client.settle();
        const auto cut = [&](bool is_tunnel) {
            client::ServedConnection& one = client.connections.front();
            CHECK((is_tunnel ? one.cut_tunnels() : one.cut_requests()));
            client.settle();
        };
        cut(is_tunnel_first);
        CHECK(tunnels == (is_tunnel_first ? 0 : 1));
        CHECK(requests == (is_tunnel_first ? 1 : 0));
        cut(!is_tunnel_first);
        CHECK(tunnels + requests == 0);
        client.got();
        client.pass(2s);
        client.got();
        CHECK(client.is_closed);
    }
}

TEST_CASE("http2 connection: a body that breaks the rules is a bad one, not a client that left") {
    Client client;
    bool was_bad = false;
    client.on_request = [&](Stream& stream) -> Task<> {
        CHECK_FALSE(stream.has_left(stream.sleeper().wakeup()));
        while (!stream.is_body_done() && !was_bad) {
            const http::BodyBatch batch = stream.take_body(kBounds);
            was_bad = batch.bad;
            stream.drop_body(batch);
            if (was_bad || batch.done) break;
            const BodyInput input = stream.read_body(stream.sleeper().wakeup());
            REQUIRE(input != BodyInput::left);
            if (input == BodyInput::nothing) co_await stream.sleeper().sleep();
        }
    };
    client.greet();
    client.send(headers(1, request_with({{"content-length", "5"}}), false) +
                h2_world::data(1, "four", true));
    CHECK(was_bad);
    CHECK(h2_world::reset_error(client.got()) == NGHTTP2_PROTOCOL_ERROR);
}

TEST_CASE("http2 connection: a worker that holds too much gives no room, and then keeps nothing") {
    Client client("http2: {stream_window: 65535, connection_window: 65535, buffered: 65535}\n");
    bool may_read = false;
    client.on_request = [&](Stream& stream) -> Task<> {
        while (!may_read && stream.is_open()) {
            stream.has_left(stream.sleeper().wakeup());
            co_await stream.sleeper().sleep();
        }
        if (stream.is_open()) co_await Client::echo(stream);
    };
    client.http2.bodies.set_bound(1'000);
    client.greet();
    client.send(headers(1, request("POST"), false) + h2_world::data(1, std::string(1'500, 'a')));
    client.send(headers(3, request("POST"), false) + h2_world::data(3, std::string(501, 'b')));
    CHECK(h2_world::reset_error(client.got()) == NGHTTP2_ENHANCE_YOUR_CALM);
    CHECK(client.http2.bodies.held() == 1'500);
    may_read = true;
    client.send(h2_world::data(1, "", true));
    CHECK(Client::content(client.got(), 1).size() == 1'500);
    CHECK(client.http2.bodies.held() == 0);
}

TEST_CASE("http2 connection: prior knowledge begins HTTP/2 where the listener takes it") {
    const client::Arrival both{.local_port = 80, .takes_http2 = true};
    Client client(both, "", true);
    const std::string begin = h2_world::preface() + headers(1, request());
    client.send(begin.substr(0, 10));
    client.send(begin.substr(10));
    CHECK(Client::content(client.got(), 1) == "ok");
    CHECK(std::distance(client.connections.begin(), client.connections.end()) == 1);

    Client without(client::Arrival{.local_port = 80}, "", true);
    without.send(begin);
    CHECK(without.heads == std::vector{Stream::Head::broken});
}

TEST_CASE("http2 connection: a listener for HTTP/2 alone refuses the version of HTTP/1") {
    const client::Arrival alone{.local_port = 80, .takes_http1 = false, .takes_http2 = true};
    Client client(alone, "", true);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(client.heads == std::vector{Stream::Head::broken});
    Client other(alone, "", true);
    other.send("no preface\r\n\r\n");
    CHECK(other.got().empty());
    CHECK(other.is_closed);
    CHECK(other.heads.empty());
}

TEST_CASE("http2 connection: a tunnel's bytes go both ways, and its end arrives") {
    Client client("routes: [{upgrade: [websocket], policies: []}]\n");
    client.on_request = [&](Stream& stream) -> Task<> {
        CHECK(stream.protocol() == "websocket");
        stream.begin_head(200, "OK");
        CHECK(stream.send_switch() == IoStatus::ok);
        stream.become_tunnel();
        Wakeup& wakeup = stream.sleeper().wakeup();
        for (;;) {
            const std::string bytes(stream.take_bytes());
            if (!bytes.empty() && stream.send_bytes(bytes, wakeup).status == IoStatus::ok) {
                stream.drop_bytes(bytes.size());
                continue;
            }
            const TunnelInput input = stream.read_bytes(wakeup);
            if (input == TunnelInput::nothing) co_await stream.sleeper().sleep();
            if (input == TunnelInput::end) break;
        }
        CHECK(stream.finish_sending(wakeup) == IoStatus::ok);
    };
    client.greet();
    client.send(headers(1, connect(), false));
    auto frames = client.got();
    REQUIRE(find(frames, NGHTTP2_HEADERS) != nullptr);
    CHECK_FALSE(find(frames, NGHTTP2_HEADERS)->ends_stream());
    CHECK(client.methods == std::vector<std::string>{"GET"});
    client.send(h2_world::data(1, "hello"));
    CHECK(Client::content(client.got(), 1) == "hello");
    client.send(h2_world::data(1, "bye", true));
    frames = client.got();
    CHECK(Client::content(frames, 1) == "bye");
    CHECK(frames.back().ends_stream());
}

TEST_CASE("http2 connection: it waits until the kernel has all of the last answer") {
    constexpr std::size_t kStep = 32 * 1'024;
    const std::string goaway = h2_world::frame(NGHTTP2_GOAWAY, 0, 0, std::string(8, '\0'));
    // For some of these sizes the kernel takes all but the end of the answer at first.
    for (std::size_t size = kStep; size <= 16 * kStep; size += kStep) {
        CAPTURE(size);
        Client client;
        client.on_request = [size](Stream& stream) -> Task<> {
            stream.begin_head(200, "OK");
            stream.end_head(http::BodyKind::none, {});
            const std::string content(size, 'x');
            IoStatus sent = stream.send_all(content);
            if (sent == IoStatus::would_block) sent = co_await stream.send_rest(30s);
            CHECK(sent == IoStatus::ok);
        };
        client.send(h2_world::preface({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1'000'000}}) +
                    h2_world::frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0) +
                    h2_world::window_update(0, 1'000'000) + headers(1, request()) + goaway);
        int arrived = 0;
        REQUIRE(::ioctl(client.far, FIONREAD, &arrived) == 0);
        if (static_cast<std::size_t>(arrived) < size) {
            CHECK_FALSE(client.connections.front().is_evictable());
        }
        const auto frames = client.got();
        CHECK(Client::content(frames, 1).size() == size);
        CHECK(client.is_closed);
    }
}

TEST_CASE("http2 connection: a client that has no window for the end of an answer is cut off") {
    Client client("timeouts: {client_idle: 20s, client_write: 10s}\n");
    client.on_request = [](Stream& stream) -> Task<> {
        stream.begin_head(200, "OK");
        stream.end_head(http::BodyKind::chunked, {});
        http::BodyBatch batch;
        batch.pieces[0] = "hello";
        batch.count = 1;
        batch.content_bytes = 5;
        CHECK(stream.send(batch, {}) == IoStatus::ok);
        http::BodyBatch last;
        last.done = true;
        CHECK(stream.send(last, {}) == IoStatus::ok);
        co_return;
    };
    client.send(h2_world::preface({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 5}}) +
                h2_world::frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
    client.send(headers(1, request()));
    CHECK_FALSE(client.got().back().ends_stream());
    client.pass(2s);
    // Until then the connection sleeps.
    for (int i = 0; i < 10; ++i) CHECK(client.pass(100ms) == 0);
    client.pass(18s);
    CHECK(h2_world::goaway_error(client.got()) == NGHTTP2_NO_ERROR);
    CHECK_FALSE(client.is_closed);
    client.pass(10s);
    client.got();
    CHECK(client.is_closed);
}

TEST_CASE("http2 connection: a former watcher of the connection is forgotten") {
    Client client;
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    ConnectionPtr connection(new Connection(client.readiness, ends[0]));
    Wakeup former(client.io.get_executor());
    bool was_woken = false;
    const auto wait = [](Wakeup& wakeup, bool& is_awake) -> Task<> {
        co_await wakeup.wait();
        is_awake = true;
    };
    spawn(client.io.get_executor(), wait(former, was_woken), [](const std::exception_ptr&) {});
    connection->watch_read(&former);
    auto made =
        std::make_unique<Http2Connection>(client.context, std::move(connection), client::Arrival{});
    // Bytes that come before the connection's coroutine sleeps.
    REQUIRE(::send(ends[1], NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN, MSG_NOSIGNAL) ==
            NGHTTP2_CLIENT_MAGIC_LEN);
    client.settle();
    CHECK_FALSE(was_woken);
    spawn(client.io.get_executor(), Http2Connection::run(std::move(made)),
          [](const std::exception_ptr&) {});
    client.settle();
    CHECK_FALSE(was_woken);
    former.wake_later();
    client.settle();
    for (client::ServedConnection& one : client.connections) one.cut_off();
    client.settle();
    ::close(ends[1]);
}

}  // namespace tidegate::client_http2_connection_test
