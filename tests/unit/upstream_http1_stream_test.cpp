#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "upstream/http1_stream.hpp"
#include "upstream_pool_world.hpp"
#include "upstream_world.hpp"

namespace tidegate::upstream::http1_stream_test {

using upstream::Http1Stream;
using Head = Http1Stream::Head;
using Body = Http1Stream::Body;

namespace {

constexpr http::HeadBounds kBounds{16'384, 100, 16'384};
constexpr http::TrailerBounds kTrailers{16'384, 100};

// A stream, and the server's end of its connection.
struct World {
    World() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
                0);
        far = ends[1];
        stream.open(*server, ConnectionPtr(new Connection(readiness, ends[0])), false);
        io.poll();  // the connection may be read and written
    }
    ~World() { close(); }

    // Sends a request with no body.
    void ask(std::string_view method = "GET") {
        stream.begin_head(method, "/", "");
        stream.end_head(http::BodyKind::none, {});
        REQUIRE(stream.send({}, {}) == IoStatus::ok);
        sent();
    }
    // What the server has got.
    std::string sent() const {
        std::array<char, 65'536> block;
        const ssize_t bytes = ::recv(far, block.data(), block.size(), 0);
        return {block.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
    }
    void answer(std::string_view bytes) {
        REQUIRE(::send(far, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
        settle();
    }
    void close() {
        if (far >= 0) ::close(std::exchange(far, -1));
        settle();
    }
    void settle() {
        io.restart();
        io.poll();
    }
    Head read_head() { return stream.read_head(kBounds, wakeup); }
    // The server's 101, and what it sends behind it.
    void switch_protocols(const std::string& behind = "") {
        stream.allow_switch();
        ask();
        answer("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + behind);
        REQUIRE(read_head() == Head::complete);
    }
    // The content of the next batch, which is dropped.
    std::string content() {
        const http::BodyBatch batch = stream.take_body(kTrailers);
        std::string text;
        for (const std::string_view piece : batch.view()) text += piece;
        stream.drop_body(batch);
        is_done = batch.done;
        return text;
    }

    asio::io_context io{1};
    Readiness readiness{io};
    Wakeup wakeup{io.get_executor()};
    BufferPool buffers;
    upstream::ServerPtr server{new upstream::Server(
        std::make_shared<upstream::SharedServer>(upstream::server_at("127.0.0.1", 80),
                                                 upstream::endpoint_at("127.0.0.1", 80), 1),
        0)};
    Http1Stream stream{buffers};
    int far = -1;
    bool is_done = false;
};

// A connection of the pool's whose server has accepted a tunnel.
struct Switched {
    explicit Switched(std::string_view behind = "") : pooled({1}, bounds(1, 1)) {
        Server& server = pooled.next();
        REQUIRE(pooled.pool->admit(request));
        REQUIRE(pooled.connects(server, stream, request));
        far = pooled.listeners.front().accept();
        server.begin_request(pooled.pool->is_counted());
        stream.allow_switch();
        stream.begin_head("GET", "/", "");
        stream.end_head(http::BodyKind::none, {});
        REQUIRE(stream.send({}, {}) == IoStatus::ok);
        got();
        send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + std::string(behind));
        while (stream.read_head(kBounds, wakeup) == Stream::Head::nothing) pooled.settle(true);
        tunnel = pooled.pool->open_tunnel(stream, request);
    }

    void send(const std::string& bytes) { REQUIRE(far.send(asio::buffer(bytes)) == bytes.size()); }
    // Blocks until the server has received something.
    std::string got() {
        std::array<char, 1'024> block;
        return {block.data(), far.read_some(asio::buffer(block))};
    }
    TunnelInput read() {
        TunnelInput input = TunnelInput::nothing;
        while ((input = tunnel->read_bytes(wakeup)) == TunnelInput::nothing) pooled.settle(true);
        return input;
    }

    Pooled pooled;
    Wakeup wakeup{pooled.world.io.get_executor()};
    std::optional<IpAddress> client = parse_ip("192.0.2.1");
    ActiveRequest request{client, pooled.prefixes, [](void*) {}, nullptr};
    Stream stream{pooled.world.buffers};
    asio::ip::tcp::socket far{pooled.world.io};
    std::unique_ptr<TunnelStream> tunnel;
};

}  // namespace

TEST_CASE("http1_stream: the head and a small body leave together, framed as the request was") {
    World world;
    http::BodyBatch batch;
    batch.pieces[0] = "hello";
    batch.count = 1;
    batch.content_bytes = 5;
    batch.done = true;

    world.stream.begin_head("POST", "/a", "?b=1") += "Host: a.test\r\n";
    world.stream.end_head(http::BodyKind::length, 5);
    CHECK(world.stream.send(batch, {}) == IoStatus::ok);
    CHECK(world.sent() == "POST /a?b=1 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");

    world.stream.begin_head("POST", "/a", "");
    world.stream.end_head(http::BodyKind::chunked, {});
    batch.done = false;
    CHECK(world.stream.send(batch, {}) == IoStatus::ok);
    batch.done = true;
    const http::Fields trailers{{http::FieldName::other, "X-Sum", "1"}};
    CHECK(world.stream.send(batch, trailers) == IoStatus::ok);
    CHECK(world.sent() ==
          "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
          "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n");

    world.stream.begin_head("POST", "/", "");
    world.stream.end_head(http::BodyKind::none, 0);
    CHECK(world.stream.send({}, {}) == IoStatus::ok);
    CHECK(world.sent() == "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
}

TEST_CASE("http1_stream: an answer comes in heads and batches, at any split of its bytes") {
    const std::string interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    const std::string bytes = interim + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    for (std::size_t split = 0; split <= bytes.size(); ++split) {
        CAPTURE(split);
        World world;
        world.ask();
        world.answer(std::string_view(bytes).substr(0, split));
        Head head = world.read_head();
        CHECK(world.stream.has_answered() == (split > 0));
        std::string text;
        int interims = 0;
        const auto go_on = [&] {
            while (head == Head::complete && world.stream.head().status < 200) {
                ++interims;
                world.stream.drop_interim();
                head = world.read_head();
            }
        };
        go_on();
        CHECK((head == Head::complete) == (split >= bytes.size() - 5));
        world.answer(std::string_view(bytes).substr(split));
        if (head == Head::nothing) head = world.read_head();
        go_on();
        REQUIRE(head == Head::complete);
        CHECK(interims == 1);
        CHECK(world.stream.head().status == 200);
        world.stream.begin_body();
        for (text = world.content(); !world.is_done; text += world.content()) {
            REQUIRE(world.stream.read_body(world.wakeup) == Body::more);
        }
        CHECK(text == "hello");
        CHECK(world.stream.is_clean());
    }
}

TEST_CASE("http1_stream: a malformed answer is broken") {
    for (const char* bytes : {
             "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
             "HTTP/1.1 200 OK\nContent-Length: 1\n\n",
             "SSH-2.0-x\r\n\r\n",
         }) {
        CAPTURE(bytes);
        World world;
        world.ask();
        world.answer(bytes);
        CHECK(world.read_head() == Head::broken);
    }
    World world;
    world.ask();
    world.answer("HTTP/1.1 200");
    world.close();
    CHECK(world.read_head() == Head::broken);
}

TEST_CASE(
    "http1_stream: a 101 is an answer where it was asked for; what came behind it leaves with it") {
    World world;
    world.switch_protocols("first");
    CHECK(world.stream.head().status == 101);
    Buffer behind(world.buffers);
    const auto [server, connection] = world.stream.release_tunnel(behind);
    CHECK(server == world.server);
    CHECK(connection->is_open());
    CHECK_FALSE(world.stream);
    CHECK(behind.data() == "first");
}

TEST_CASE("http1_stream: the connection of a tunnel wakes nothing of its request any more") {
    World world;
    world.switch_protocols();
    auto gone = std::make_unique<Wakeup>(world.io.get_executor());
    world.stream.connection()->watch_write(gone.get());
    Buffer behind(world.buffers);
    const auto [server, connection] = world.stream.release_tunnel(behind);
    gone.reset();
    world.close();  // the kernel reports it to a waiting writer, too
    CHECK(connection->is_broken());
}

TEST_CASE("http1_stream: where nothing came behind a 101, its tunnel begins without a buffer") {
    World world;
    world.switch_protocols();
    Buffer behind(world.buffers);
    world.stream.release_tunnel(behind);
    CHECK(behind.data().data() == nullptr);
}

TEST_CASE("http1_stream: a close ends a body only where nothing else does") {
    World open_end;
    open_end.ask();
    open_end.answer("HTTP/1.1 200 OK\r\n\r\nall");
    REQUIRE(open_end.read_head() == Head::complete);
    open_end.stream.begin_body();
    CHECK(open_end.content() == "all");
    CHECK(open_end.stream.read_body(open_end.wakeup) == Body::nothing);
    open_end.close();
    CHECK(open_end.stream.read_body(open_end.wakeup) == Body::end);
    CHECK(open_end.content().empty());
    CHECK(open_end.is_done);
    CHECK_FALSE(open_end.stream.is_clean());

    World counted;
    counted.ask();
    counted.answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nall");
    REQUIRE(counted.read_head() == Head::complete);
    counted.stream.begin_body();
    CHECK(counted.content() == "all");
    counted.close();
    CHECK(counted.stream.read_body(counted.wakeup) == Body::cut_off);
}

TEST_CASE("http1_stream: the answer to a HEAD has no body, whatever its head says") {
    World world;
    world.ask("HEAD");
    world.answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    REQUIRE(world.read_head() == Head::complete);
    world.stream.begin_body();
    CHECK(world.content().empty());
    CHECK(world.is_done);
    CHECK(world.stream.framing().length == 5);
    CHECK(world.stream.is_clean());
}

TEST_CASE("http1_stream: a connection with bytes behind the answer takes no other request") {
    World world;
    world.ask();
    world.answer("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
    REQUIRE(world.read_head() == Head::complete);
    world.stream.begin_body();
    CHECK(world.content().empty());
    CHECK(world.is_done);
    CHECK_FALSE(world.stream.is_clean());
}

TEST_CASE("http1_stream: trailers that Connection names are removed") {
    World world;
    world.ask();
    world.answer(
        "HTTP/1.1 200 OK\r\nConnection: X-One\r\nTransfer-Encoding: chunked\r\n"
        "Connection: x-two\r\n\r\n1\r\na\r\n0\r\nx-one: 1\r\nX-TWO: 2\r\nX-Three: 3\r\n\r\n");
    REQUIRE(world.read_head() == Head::complete);
    world.stream.begin_body();
    CHECK(world.content() == "a");
    CHECK(world.is_done);
    REQUIRE(world.stream.trailers().size() == 1);
    CHECK(world.stream.trailers()[0].name == "X-Three");
}

TEST_CASE("http1_stream: after cancel() nothing is sent or received") {
    World world;
    world.ask();
    world.stream.cancel();
    world.stream.begin_head("GET", "/", "");
    world.stream.end_head(http::BodyKind::none, {});
    CHECK(world.stream.send({}, {}) == IoStatus::failed);
    CHECK(world.read_head() == Head::broken);
}

TEST_CASE("tunnel_stream: bytes go both ways, first those that came behind the 101") {
    Switched switched("first");
    TunnelStream& tunnel = *switched.tunnel;
    CHECK_FALSE(switched.stream);
    CHECK(tunnel.take_bytes() == "first");
    tunnel.drop_bytes(5);
    CHECK(tunnel.take_bytes().data() == nullptr);
    CHECK(tunnel.read_bytes(switched.wakeup) == TunnelInput::nothing);
    switched.send("second");
    CHECK(switched.read() == TunnelInput::more);
    CHECK(tunnel.take_bytes() == "second");
    CHECK(tunnel.send_bytes("from here", switched.wakeup).bytes == 9);
    CHECK(tunnel.finish_sending(switched.wakeup) == IoStatus::ok);
    CHECK(switched.got() == "from here");
    switched.far.close();
    CHECK(switched.read() == TunnelInput::end);
}

TEST_CASE(
    "tunnel_stream: holds the seat and the count in flight until it is destroyed and closes") {
    Switched switched;
    CHECK(switched.pooled.seats_taken() == 1);
    CHECK_FALSE(switched.request.is_linked());
    CHECK(switched.pooled.pool->count_active() == 1);
    switched.tunnel.reset();
    CHECK(switched.pooled.seats_taken() == 0);
    CHECK(switched.pooled.pool->count_active() == 0);
    std::array<char, 1> block;
    error_code ec;
    switched.far.read_some(asio::buffer(block), ec);
    CHECK(ec == asio::error::eof);
}

}  // namespace tidegate::upstream::http1_stream_test
