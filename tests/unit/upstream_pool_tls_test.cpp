#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "tls_server.hpp"
#include "upstream_pool_world.hpp"

namespace tidegate::upstream::pool_tls_test {

using namespace std::chrono_literals;

namespace {

using test::Authority;
using test::TlsServer;

// Answers each request on a connection alike, until the client leaves.
void answer_all(TlsServer::Conversation& client) {
    while (!client.read_head().empty())
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

// A pool whose one server is at `port`, as the URL `https://localhost:port` says.
struct TlsPooled {
    TlsPooled(std::uint16_t port, const TlsSettings& settings)
        : pooled({1}, [&](config::Upstream& upstream) {
              upstream.servers[0].address.port = port;
              upstream.servers[0].is_tls = true;
              upstream.tls = settings;
              upstream.connect_timeout = 500ms;
          }) {
        pooled.world.wheel.advance(steady_now());
    }

    ConnectFault connect(Stream& stream) {
        pooled.seat = pooled.pool->take_seat(pooled.request);
        REQUIRE(pooled.seat);
        pooled.begin_connect(pooled.next(), stream);
        CHECK(turn_until([&] { return pooled.outcome.has_value(); }));
        pooled.seat = Seat();
        return *pooled.outcome;
    }
    // Time passes for deadlines, too.
    template <class IsDone>
    bool turn_until(IsDone is_done) {
        const SteadyTime until = steady_now() + 20s;
        while (!is_done()) {
            if (steady_now() >= until) return false;
            pooled.world.io.restart();
            pooled.world.io.run_one_for(10ms);
            pooled.world.wheel.advance(steady_now());
        }
        return true;
    }
    // Sends a request and reads the head of its answer; its status, or 0.
    int ask(Stream& stream) {
        http::BodyBatch nothing;
        nothing.done = true;
        const http::Fields none;
        stream.begin_head("GET", "/", "").append("Host: localhost\r\n");
        stream.end_head(http::BodyKind::none, std::nullopt);
        if (stream.send(nothing, none) != IoStatus::ok) return 0;
        Wakeup wakeup(pooled.world.io.get_executor());
        Stream::Head head = Stream::Head::nothing;
        CHECK(turn_until([&] {
            head = stream.read_head({}, wakeup);
            return head != Stream::Head::nothing;
        }));
        if (head != Stream::Head::complete) return 0;
        stream.begin_body();
        stream.drop_body(stream.take_body({}));
        return stream.head().status;
    }

    Pooled pooled;
    BufferPool& buffers = pooled.world.buffers;
};

TlsSettings believing(const Authority& authority) {
    TlsSettings settings;
    settings.ca = authority.pem();
    settings.server_name = "localhost";
    return settings;
}

}  // namespace

TEST_CASE("pool tls: a request goes over TLS, and its connection is used again") {
    const Authority authority;
    const TlsServer server(authority.issue(), answer_all);
    TlsPooled world(server.port(), believing(authority));
    Stream stream(world.buffers);
    REQUIRE(world.connect(stream) == ConnectFault::none);
    CHECK(world.ask(stream) == 200);
    Server& chosen = stream.server();
    world.pooled.pool->give_back(stream);
    stream.reset();
    world.pooled.pool->sweep(steady_now());
    REQUIRE(world.pooled.pool->take_idle(chosen, stream));
    CHECK(world.ask(stream) == 200);
    world.pooled.pool->throw_away(stream);
    CHECK(server.connections() == 1);
    CHECK(server.names_asked_for() == std::vector<std::string>{"localhost"});
}

TEST_CASE("pool tls: the next connection resumes the session of the one before, once") {
    const Authority authority;
    const TlsServer server(authority.issue(), answer_all);
    TlsPooled world(server.port(), believing(authority));
    for (int i = 0; i < 3; ++i) {
        Stream stream(world.buffers);
        REQUIRE(world.connect(stream) == ConnectFault::none);
        CHECK((SSL_session_reused(stream.http1().connection()->tls()->native()) == 1) == (i > 0));
        CHECK(world.ask(stream) == 200);
        Server& chosen = stream.server();
        world.pooled.pool->throw_away(stream);
        const TlsSessionPtr kept = chosen.take_session();
        CHECK(kept != nullptr);
        CHECK(chosen.take_session() == nullptr);
        SSL_SESSION_up_ref(kept.get());
        chosen.remember(TlsSessionPtr(kept.get()));
    }
}

TEST_CASE(
    "pool tls: a certificate that is not for the server, or of another authority, is a fault") {
    const Authority authority;
    const TlsServer named(authority.issue("DNS:other.internal"), answer_all);
    TlsPooled world(named.port(), believing(authority));
    Stream stream(world.buffers);
    CHECK(world.connect(stream) == ConnectFault::tls);
    CHECK(world.pooled.seats_taken() == 0);
    const TlsServer late(authority.issue("DNS:localhost", {-7200, -3600}), answer_all);
    TlsPooled expired(late.port(), believing(authority));
    CHECK(expired.connect(stream) == ConnectFault::tls);
    TlsPooled foreign(late.port(), believing(Authority()));
    CHECK(foreign.connect(stream) == ConnectFault::tls);
    TlsSettings trusting = believing(Authority());
    trusting.verify = false;
    TlsPooled blind(late.port(), trusting);
    CHECK(blind.connect(stream) == ConnectFault::none);
    CHECK(blind.ask(stream) == 200);
    blind.pooled.pool->throw_away(stream);
}

TEST_CASE("pool tls: a version that is too old is a fault") {
    const Authority authority;
    const TlsServer old(authority.issue(), answer_all, TLS1_2_VERSION);
    TlsSettings settings = believing(authority);
    {
        TlsPooled world(old.port(), settings);
        Stream made(world.buffers);
        CHECK(world.connect(made) == ConnectFault::none);
        CHECK(world.ask(made) == 200);
        world.pooled.pool->throw_away(made);
    }
    settings.min_version = TlsVersion::tls_1_3;
    TlsPooled world(old.port(), settings);
    Stream made(world.buffers);
    CHECK(world.connect(made) == ConnectFault::tls);
}

TEST_CASE("pool tls: a handshake that does not end is a timeout") {
    // The kernel accepts, and no program answers.
    const Pooled listening({1});
    TlsPooled silent(listening.group->settings().servers[0].address.port, {});
    Stream stream(silent.buffers);
    const SteadyTime began = steady_now();
    CHECK(silent.connect(stream) == ConnectFault::timeout);
    CHECK(steady_now() - began >= 500ms);
    CHECK(silent.pooled.seats_taken() == 0);
}

TEST_CASE("pool tls: a server that refuses clients after their handshake is known by it") {
    const Authority authority;
    const TlsServer strict(authority.issue(), answer_all, 0, &authority);
    TlsPooled world(strict.port(), believing(authority));
    Stream stream(world.buffers);
    REQUIRE(world.connect(stream) == ConnectFault::none);
    CHECK(world.ask(stream) == 0);
    CHECK(world.pooled.pool->note_tls_failure(stream));
    world.pooled.pool->throw_away(stream);
    TlsSettings known = believing(authority);
    const test::Certificate own = authority.issue("DNS:tidegate");
    known.certificate = own.pem();
    known.key = own.key_pem();
    TlsPooled accepted(strict.port(), known);
    REQUIRE(accepted.connect(stream) == ConnectFault::none);
    CHECK(accepted.ask(stream) == 200);
    accepted.pooled.pool->throw_away(stream);
}

}  // namespace tidegate::upstream::pool_tls_test
