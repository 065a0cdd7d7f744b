#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "certificates.hpp"
#include "client/http1_connection.hpp"
#include "tls_peer.hpp"
#include "unit/client_connection_world.hpp"

namespace tidegate::client_http1_connection_tls_test {

using client::Http1Connection;
using client::Stream;

namespace {

constexpr std::chrono::seconds kSecond{1};

// One connection over TLS whose handshake is over, and its client.
struct World : test::ConnectionWorld {
    explicit World(bool is_small = false)
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
    ~World() override { cut_off(); }

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
const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

}  // namespace

TEST_CASE("http1_connection over tls: a client that is silent after its handshake is idle") {
    World world;
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
    World world;
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
    World world;
    world.peer->write(kGet);
    const std::string record = world.peer->to_send();
    world.peer->put(record.substr(0, 7));
    world.settle();
    world.pass(world.config->timeouts.request_head + kSecond);
    world.pass(kSecond * 3);  // to leave
    CHECK_FALSE(world.is_open());

    World whole;
    whole.peer->write(kGet);
    for (const char byte : whole.peer->to_send()) {
        whole.peer->put({&byte, 1});
        whole.settle();
    }
    CHECK(whole.got() == kOk);
}

TEST_CASE("http1_connection over tls: requests of one record, and of many, are all served") {
    World world;
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
        World world(is_small);
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
        World world;
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
        World world;
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
    World world;
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

}  // namespace tidegate::client_http1_connection_tls_test
