#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "certificates.hpp"
#include "client/http1_connection.hpp"
#include "tls_peer.hpp"
#include "unit/client_connection_world.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::client_http1_connection_test {

using client::Http1Connection;
using client::Stream;

namespace {

constexpr http::TrailerBounds kTrailers{16'384, 100};

// One connection and the client's end of it.
struct World : test::SocketWorld {
    explicit World(bool has_proxy_header = false)
        : World(client::Arrival{.local_port = 80, .has_proxy_header = has_proxy_header}) {}
    explicit World(const client::Arrival& arrival) {
        serve_connection(Http1Connection::run(std::make_unique<Http1Connection>(
            context, ConnectionPtr(new Connection(readiness, near)), arrival)));
    }
    ~World() override { cut_off(); }

    // What the client has got since.
    std::string got() {
        std::array<char, 65'536> block;
        const ssize_t bytes = ::recv(far, block.data(), block.size(), 0);
        is_closed = bytes == 0;
        is_reset = bytes < 0 && errno == ECONNRESET;
        return {block.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
    }

    bool is_reset = false;
};

const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const std::string kClose = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

constexpr std::chrono::seconds kSecond{1};

// One connection over TLS whose handshake is over, and its client.
struct TlsWorld : test::ConnectionWorld {
    explicit TlsWorld(bool is_small = false)
        : server(test::server_context(authority.issue())),
          client(SSL_CTX_new(TLS_client_method())) {
        const test::StreamPair pair(is_small);
        peer = std::make_unique<test::TlsPeer>(client.get(), false, pair.ends[1]);
        const ConnectionPtr connection(new Connection(readiness, pair.ends[0]));
        connection->begin_tls(TlsPtr(SSL_new(server.get())), TlsSide::server);
        IoStatus status = IoStatus::would_block;
        for (int i = 0; i < 10 && status == IoStatus::would_block; ++i) {
            peer->receive();
            peer->flush();
            settle();
            status = connection->shake_hands();
        }
        REQUIRE(status == IoStatus::ok);
        serve_connection(Http1Connection::run(std::make_unique<Http1Connection>(
            context, connection, client::Arrival{.local_port = 443, .is_https = true})));
    }
    ~TlsWorld() override { cut_off(); }

    void say(std::string_view text) {
        peer->say(text);
        settle();
    }
    std::string got() {
        settle();
        return peer->heard();
    }
    bool is_open() const { return !connections.empty(); }

    void look_at(Stream& stream) override { CHECK(stream.scheme() == "https"); }

    test::Authority authority;
    std::unique_ptr<SSL_CTX, test::ReleaseOpenSsl> server;
    std::unique_ptr<SSL_CTX, test::ReleaseOpenSsl> client;
    std::unique_ptr<test::TlsPeer> peer;
};

const std::string kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

}  // namespace

TEST_CASE("http1_connection: serves one request after the other, those that come at once too") {
    World world;
    CHECK(world.connections.front().is_evictable());
    world.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(world.got() == kOk);
    CHECK_FALSE(world.was_evictable);
    CHECK(world.connections.front().is_evictable());
    world.send("PUT / HTTP/1.1\r\nHost: a\r\n\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET");
    CHECK(world.got() == kOk + kOk);
    world.send(" / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    CHECK(world.got() == kClose);
    CHECK(world.methods == std::vector<std::string>{"GET", "PUT", "HEAD", "GET"});
    world.got();
    CHECK(world.is_closed);
}

TEST_CASE(
    "http1_connection: a head that is no head reaches the server as a fault, then it closes") {
    World broken;
    broken.send("GET / HTTP/9.9\r\n\r\n");
    CHECK(broken.heads == std::vector{Stream::Head::broken});
    broken.got();
    CHECK(broken.is_closed);

    World slow;
    slow.send("GET /");
    slow.pass(slow.config->timeouts.request_head + std::chrono::seconds{1});
    CHECK(slow.heads == std::vector{Stream::Head::timeout});

    World left;
    left.send("GET /");
    ::shutdown(left.far, SHUT_WR);
    left.settle();
    CHECK(left.heads == std::vector{Stream::Head::left});
}

TEST_CASE("http1_connection: an idle connection closes without a request") {
    World idle;
    idle.pass(idle.config->timeouts.client_idle + std::chrono::seconds{1});
    idle.got();
    CHECK(idle.is_closed);
    CHECK(idle.heads.empty());

    World draining;
    draining.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(draining.got() == kOk);
    draining.context.is_draining = true;
    draining.connections.front().on_drain();
    draining.settle();
    draining.got();
    CHECK(draining.is_closed);
}

TEST_CASE("http1_connection: while the worker drains, an answer says that the connection closes") {
    World world;
    world.context.is_draining = true;
    world.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(world.got() == kClose);
}

TEST_CASE("http1_connection: each answer over TLS has the listener's Strict-Transport-Security") {
    const std::string line = "Strict-Transport-Security: max-age=300\r\n";
    const auto answers = [](const client::Arrival& arrival) {
        World world(arrival);
        world.on_request = [](Stream& stream) -> Task<> {
            stream.begin_head(103, "Early Hints");
            CHECK(stream.send_interim() == IoStatus::ok);
            World::answer_ok(stream);
            co_return;
        };
        world.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
        return world.got();
    };
    const std::string interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
    const std::string with = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + line + "\r\nok";
    CHECK(answers({.is_https = true, .hsts_line = &line}) == interim + with + interim + with);
    // Without a handshake the connection is in the clear.
    CHECK(answers({.is_https = false, .hsts_line = &line}) == interim + kOk + interim + kOk);
    CHECK(answers({.is_https = true}) == interim + kOk + interim + kOk);
}

TEST_CASE("http1_connection: a stream gives the content of a body, not its chunks") {
    World world;
    std::string content;
    world.on_request = [&](Stream& stream) -> Task<> {
        for (;;) {
            const http::BodyBatch batch = stream.take_body(kTrailers);
            for (const std::string_view piece : batch.view()) content += piece;
            stream.drop_body(batch);
            if (batch.done) break;
            const auto body = stream.read_body(stream.sleeper().wakeup());
            if (body == client::BodyInput::nothing) co_await stream.sleeper().sleep();
        }
        World::answer_ok(stream);
    };
    world.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
    world.send("lo\r\n6;x=y\r\n world\r\n0\r\n");
    CHECK(world.got().empty());
    world.send("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(content == "hello world");
    CHECK(world.got() == kOk + kOk);
}

TEST_CASE("http1_connection: what the server does not take of a body is discarded") {
    World world;
    world.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    CHECK(world.got() == kOk);
    world.send("defGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(world.got() == kOk);
    CHECK(world.methods == std::vector<std::string>{"POST", "GET"});
}

TEST_CASE("http1_connection: a second PROXY header is closed without an answer") {
    const std::string binary("\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00", 16);
    const std::string text = "PROXY TCP4 203.0.113.7 192.0.2.1 1 2\r\n";
    for (const std::string& header : {text, binary}) {
        CAPTURE(header);
        World world(true);
        world.send(header + "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK(world.got().empty());
        CHECK((world.is_closed || world.is_reset));
        CHECK(world.heads.empty());
        CHECK(world.connections.empty());
        const std::string figures = test::text_of(world.metrics);
        CHECK(figures.find("tidegate_proxy_headers_refused_total{reason=\"malformed\"} 1") !=
              std::string::npos);
    }
}

TEST_CASE("http1_connection: other broken heads behind a PROXY header are answered as ever") {
    World world(true);
    world.send("BAD\r\n\r\n");
    CHECK(world.heads == std::vector<Stream::Head>{Stream::Head::broken});
    // Without one before it, a PROXY header is such a head, too.
    World without;
    without.send("PROXY TCP4 203.0.113.7 192.0.2.1 1 2\r\n\r\n");
    CHECK(without.heads == std::vector<Stream::Head>{Stream::Head::broken});
}

TEST_CASE(
    "http1_connection: a request that throws resets its connection, and its owner learns why") {
    World world;
    const auto fail = [](Stream& stream) -> Task<> {
        // Half an answer: it must not look whole to the client.
        stream.begin_head(200, "OK") += "Content-Length: 2\r\n";
        stream.end_head(http::BodyKind::none, {});
        CHECK(stream.send_all("o") == IoStatus::ok);
        throw std::runtime_error("a fault of the request");
        co_return;
    };
    world.on_request = fail;
    world.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    world.got();
    world.got();
    CHECK((world.is_closed || world.is_reset));
    CHECK(world.connections.empty());
    REQUIRE(world.failure);
    CHECK_THROWS_WITH(std::rethrow_exception(world.failure), "a fault of the request");
}

TEST_CASE("http1_connection: a body of unknown length is framed as the client can read it") {
    World world;
    world.on_request = [](Stream& stream) -> Task<> {
        http::BodyBatch batch;
        batch.pieces[0] = "hi";
        batch.count = 1;
        batch.content_bytes = 2;
        stream.keep_alive_if(true);
        stream.begin_head(200, "OK");
        stream.end_head(http::BodyKind::until_close, {});
        CHECK(stream.send(batch, {}) == IoStatus::ok);
        batch.count = 0;
        batch.content_bytes = 0;
        batch.done = true;
        CHECK(stream.send(batch, {}) == IoStatus::ok);
        co_return;
    };
    world.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(world.got() ==
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
    world.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    CHECK(world.got() == "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi");
    world.got();
    CHECK(world.is_closed);
}

TEST_CASE("http1_connection: an answer that is broken off, or cut off, ends in a reset") {
    for (const bool is_cut_off : {false, true}) {
        CAPTURE(is_cut_off);
        World world;
        world.on_request = [&](Stream& stream) -> Task<> {
            stream.begin_head(200, "OK") += "Content-Length: 5\r\n";
            stream.end_head(http::BodyKind::none, {});
            CHECK(stream.send_all("he") == IoStatus::ok);
            if (is_cut_off) {
                world.connections.front().cut_off();
                CHECK(stream.has_left(stream.sleeper().wakeup()));
            } else {
                stream.break_off();
            }
            co_return;
        };
        world.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        world.got();
        CHECK(world.connections.empty());
    }
}

TEST_CASE("http1_connection over tls: a client that is silent after its handshake is idle") {
    TlsWorld world;
    // Idle, it may wait longer than a head may take.
    world.pass(world.config->timeouts.request_head + kSecond);
    REQUIRE(world.is_open());
    world.say(kGet);
    CHECK(world.got() == kOk);
    world.pass(world.config->timeouts.request_head + kSecond);
    CHECK(world.is_open());
    world.pass(world.config->timeouts.client_idle);
    CHECK_FALSE(world.is_open());
    CHECK(world.got().empty());
    CHECK(world.peer->was_told_the_end());
}

TEST_CASE("http1_connection over tls: a message of TLS alone leaves a connection idle") {
    TlsWorld world;
    world.say(kGet);
    CHECK(world.got() == kOk);
    world.peer->update_key();
    world.peer->flush();
    world.settle();
    world.pass(world.config->timeouts.request_head + kSecond);
    REQUIRE(world.is_open());
    world.say(kGet);
    CHECK(world.got() == kOk);
}

TEST_CASE("http1_connection over tls: a record that has begun gets no more time than a head") {
    TlsWorld world;
    world.peer->write(kGet);
    const std::string record = world.peer->to_send();
    world.peer->put(record.substr(0, 7));
    world.settle();
    world.pass(world.config->timeouts.request_head + kSecond);
    world.pass(kSecond * 3);  // to leave
    CHECK_FALSE(world.is_open());

    TlsWorld whole;
    whole.peer->write(kGet);
    for (const char byte : whole.peer->to_send()) {
        whole.peer->put({&byte, 1});
        whole.settle();
    }
    CHECK(whole.got() == kOk);
}

TEST_CASE("http1_connection over tls: requests of one record, and of many, are all served") {
    TlsWorld world;
    world.say(kGet + kGet + kGet);
    CHECK(world.got() == kOk + kOk + kOk);
    std::string expected;
    for (int i = 0; i < 50; ++i) {
        world.peer->write(kGet);
        expected += kOk;
    }
    world.peer->flush();
    std::string heard;
    for (int i = 0; i < 20 && heard.size() < expected.size(); ++i) heard += world.got();
    CHECK(heard == expected);
}

TEST_CASE("http1_connection over tls: an answer that the end delimits ends as TLS says it") {
    for (const auto& [is_small, has_ended] :
         {std::pair(false, false), std::pair(true, false), std::pair(false, true)}) {
        CAPTURE(is_small);
        CAPTURE(has_ended);
        TlsWorld world(is_small);
        const std::string content(100'000, 'x');
        world.on_request = [&](Stream& stream) -> Task<> {
            http::BodyBatch batch;
            batch.pieces[0] = content;
            batch.count = 1;
            batch.content_bytes = content.size();
            batch.done = true;
            stream.keep_alive_if(true);
            stream.begin_head(200, "OK");
            stream.end_head(http::BodyKind::until_close, {});
            IoStatus status = stream.send(batch, {});
            if (status == IoStatus::would_block) {
                status = co_await stream.send_rest(std::chrono::seconds{30});
            }
            CHECK(status == IoStatus::ok);
        };
        world.peer->write("GET / HTTP/1.0\r\n\r\n");
        if (has_ended) SSL_shutdown(world.peer->native());
        world.peer->flush();
        if (has_ended) ::shutdown(world.peer->wire(), SHUT_WR);
        std::string heard;
        for (int i = 0; i < 1'000 && !world.peer->was_told_the_end(); ++i) heard += world.got();
        CHECK(world.peer->was_told_the_end());
        CHECK(heard.ends_with("\r\n\r\n" + content));
    }
}

TEST_CASE("http1_connection over tls: an end between requests is none of them, however it comes") {
    for (const bool is_told : {false, true}) {
        CAPTURE(is_told);
        TlsWorld world;
        world.say(kGet);
        CHECK(world.got() == kOk);
        if (is_told) {
            world.peer->say_end();
        } else {
            world.peer->hang_up();
        }
        world.settle();
        world.pass(kSecond * 3);
        CHECK_FALSE(world.is_open());
        CHECK(world.heads.size() == 1);
        CHECK_FALSE(world.failure);
    }
}

TEST_CASE(
    "http1_connection over tls: an end is answered unless the client's socket has ended, too") {
    for (const bool has_socket_ended : {false, true}) {
        CAPTURE(has_socket_ended);
        TlsWorld world;
        world.say(kGet);
        CHECK(world.got() == kOk);
        world.peer->say_end();
        if (has_socket_ended) ::shutdown(world.peer->wire(), SHUT_WR);
        CHECK(world.got().empty());
        CHECK(world.peer->was_told_the_end() == !has_socket_ended);
        char byte = 0;
        CHECK(::recv(world.peer->wire(), &byte, 1, 0) == 0);
        CHECK_FALSE(world.is_open());
    }
}

TEST_CASE("http1_connection over tls: a body that is cut off is not whole") {
    TlsWorld world;
    client::BodyInput last = client::BodyInput::more;
    world.on_request = [&](Stream& stream) -> Task<> {
        while (last == client::BodyInput::more || last == client::BodyInput::nothing) {
            const http::BodyBatch batch = stream.take_body({16'384, 100});
            stream.drop_body(batch);
            REQUIRE_FALSE(batch.done);
            last = stream.read_body(stream.sleeper().wakeup());
            if (last == client::BodyInput::nothing) co_await stream.sleeper().sleep();
        }
        stream.break_off();
    };
    world.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    ::shutdown(world.peer->wire(), SHUT_WR);
    world.settle();
    CHECK(last == client::BodyInput::left);
    CHECK_FALSE(world.is_open());
}

}  // namespace tidegate::client_http1_connection_test
