#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tls_server.hpp"
#include "unit/metrics_text.hpp"
#include "upstream_pool_world.hpp"

namespace tidegate::upstream::pool_test {

using test::Authority;
using test::TlsServer;
using namespace std::chrono_literals;

namespace {

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

TEST_CASE("pool: servers take turns by their weights, evenly spread") {
    Pooled pooled({4, 2, 1});
    std::map<const Server*, int> turns;
    const Server* last = nullptr;
    int longest = 0;
    int run = 0;
    for (int i = 0; i < 700; ++i) {
        const Server& server = pooled.next();
        ++turns[&server];
        run = &server == last ? run + 1 : 1;
        longest = std::max(longest, run);
        last = &server;
    }
    std::vector<int> counts;
    for (const auto& [server, count] : turns) counts.push_back(count);
    std::sort(counts.begin(), counts.end());
    CHECK(counts == std::vector<int>{100, 200, 400});
    CHECK(longest <= 2);
}

TEST_CASE("pool: the next try goes to another server, if there is one") {
    Pooled two({1, 1});
    for (int i = 0; i < 10; ++i) {
        const Server& first = two.next();
        CHECK(two.pool->choose({}, &first.shared().state) != &first);
        CHECK(two.pool->has_untried(&first.shared().state));
    }
    Pooled one({1});
    const Server& only = one.next();
    CHECK(one.pool->choose({}, &only.shared().state) == &only);
    CHECK(one.pool->has_untried({}));
    CHECK_FALSE(one.pool->has_untried(&only.shared().state));
}

TEST_CASE("pool: a request that needs HTTP/2 gets a server that speaks it, of any number") {
    Pooled mixed({1, 1, 1, 1}, [](config::Upstream& settings) {
        settings.health_check.emplace();
        for (const std::size_t i : {2U, 3U}) settings.servers[i].is_http2 = true;
    });
    for (int i = 0; i < 10; ++i) {
        const Server* const first = mixed.pool->choose({}, {}, true);
        REQUIRE(first != nullptr);
        CHECK(first->speaks_http2());
        balance::Tried tried(&first->shared().state);
        CHECK(mixed.pool->has_untried(tried, true));
        const Server* const second = mixed.pool->choose({}, tried, true);
        REQUIRE(second != nullptr);
        CHECK(second->speaks_http2());
        CHECK(second != first);
        tried.add(second->shared().state);
        CHECK_FALSE(mixed.pool->has_untried(tried, true));
    }
    for (const auto& server : mixed.group->servers()) {
        if (server->is_http2) mixed.group->note_check(*server, "it answers 500");
    }
    CHECK(mixed.pool->choose({}, {}, true) == nullptr);
    CHECK(mixed.pool->has_server(true));
    CHECK(mixed.pool->choose({}) != nullptr);
}

TEST_CASE("pool: a server that cannot be reached is left alone while there is another") {
    Pooled pooled({1, 1});
    Server& gone = pooled.next();
    for (auto& listener : pooled.listeners) listener.close();
    CHECK(pooled.cannot_reach(gone));
    for (int i = 0; i < 10; ++i) CHECK(&pooled.next() != &gone);
    CHECK(pooled.cannot_reach(pooled.next()));
    pooled.next();  // now that both failed, either may be tried
}

TEST_CASE("pool: a silent idle connection is used again, the last one first") {
    Pooled pooled({1});
    Server& server = pooled.make_idle();
    Stream lease{pooled.world.buffers};
    REQUIRE(pooled.pool->take_idle(server, lease));
    CHECK(lease.is_reused());
    CHECK(&lease.server() == &server);
    CHECK_FALSE(pooled.takes_idle(server));
    pooled.pool->give_back(lease);
    CHECK(pooled.takes_idle(server));
}

TEST_CASE("pool: an idle connection on which the server spoke or closed is thrown away") {
    for (const bool speaks : {false, true}) {
        CAPTURE(speaks);
        Pooled pooled({1});
        Server& server = pooled.make_idle();
        auto far = pooled.listeners[0].accept();
        if (speaks) {
            far.send(asio::buffer("HTTP/1.1 200 OK\r\n\r\n", 19));
        } else {
            far.close();
        }
        pooled.settle(true);
        CHECK_FALSE(pooled.takes_idle(server));
    }
}

TEST_CASE("pool: a server that spoke in this turn is noticed before its connection is reported") {
    Pooled pooled({1});
    Server& server = pooled.make_idle();
    auto far = pooled.listeners[0].accept();
    // A client's connection, reported in the same turn and before the server's.
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    const ConnectionPtr client(new Connection(pooled.world.readiness, ends[0]));
    pooled.settle();
    std::string into(10, '\0');
    CHECK(client->read_some(into).status == IoStatus::would_block);
    client->watch_read(&pooled.sleeper.wakeup());
    bool taken = true;
    spawn_vital(pooled.world.io.get_executor(),
                [](Pooled& self, Server& from, bool& outcome) -> Task<> {
                    co_await self.sleeper.sleep();
                    outcome = self.takes_idle(from);
                }(pooled, server, taken));
    pooled.settle();
    REQUIRE(::send(ends[1], "x", 1, MSG_NOSIGNAL) == 1);
    far.send(asio::buffer("HTTP/1.1 200 OK\r\n\r\n", 19));
    pooled.settle(true);
    CHECK_FALSE(taken);
    ::close(ends[1]);
}

TEST_CASE("pool: no more idle connections than allowed, over all servers") {
    Pooled pooled({1, 1, 1}, bounds(512, 2));
    std::vector<Server*> servers;
    for (int i = 0; i < 3; ++i) servers.push_back(&pooled.make_idle());
    int idle = 0;
    for (Server* server : servers) idle += pooled.takes_idle(*server) ? 1 : 0;
    CHECK(idle == 2);
}

TEST_CASE("pool: sweep() closes what is idle for too long, and nothing else") {
    Pooled pooled({1}, [](config::Upstream& settings) { settings.idle_timeout = 10s; });
    Server& server = pooled.make_idle();
    const SteadyTime now = steady_now();
    pooled.pool->sweep(now + 9s);
    Stream lease{pooled.world.buffers};
    CHECK(pooled.pool->take_idle(server, lease));
    pooled.pool->give_back(lease);
    pooled.pool->sweep(steady_now() + 10s);
    CHECK_FALSE(pooled.takes_idle(server));
}

TEST_CASE("pool: a stopped pool keeps nothing idle") {
    Pooled pooled({1});
    Server& server = pooled.make_idle();
    Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(server, lease));
    pooled.pool->stop();
    CHECK_FALSE(pooled.takes_idle(server));
    pooled.pool->give_back(lease);
    CHECK_FALSE(pooled.takes_idle(server));
}

TEST_CASE("pool: a stopped pool still connects for its requests") {
    Pooled pooled({1});
    Server& server = pooled.next();
    pooled.pool->stop();
    Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(server, lease));
    CHECK(server.address().starts_with("127.0.0.1:"));
    CHECK(pooled.pool->settings().name == "api");
    pooled.pool->give_back(lease);
    CHECK_FALSE(lease);
    CHECK_FALSE(pooled.takes_idle(server));
}

TEST_CASE("pool: no server may be chosen when all are unhealthy, or no name has led to one yet") {
    Pooled pooled({1, 1}, [](config::Upstream& settings) { settings.health_check.emplace(); });
    for (const auto& server : pooled.group->servers()) {
        pooled.group->note_check(*server, "it answers 500");
    }
    CHECK(pooled.pool->choose({}) == nullptr);
    CHECK(pooled.pool->has_server());

    Pooled lone({1}, [](config::Upstream& settings) { settings.health_check.emplace(); });
    lone.group->note_check(*lone.group->servers()[0], "it answers 500");
    CHECK(lone.pool->choose({}) == nullptr);

    Pooled named({}, [](config::Upstream& settings) {
        settings.servers.push_back(server_at("a.test", 81));
    });
    CHECK(named.pool->choose({}) == nullptr);
    CHECK_FALSE(named.pool->has_server());
    named.group->resolved(0, {endpoint_at("192.0.2.1", 81)});
    CHECK(named.next().address() == "192.0.2.1:81");
    CHECK(named.pool->has_server());
}

TEST_CASE("pool: servers that left the group get no requests and keep no connections") {
    Pooled pooled({}, [](config::Upstream& settings) {
        settings.servers.push_back(server_at("a.test", 81));
    });
    const auto at = [&] { return endpoint_at("127.0.0.1", pooled.listen()); };
    const auto before = at();
    pooled.group->resolved(0, {before});
    const ServerPtr server = &pooled.make_idle();
    Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(*server, lease));
    Stream other{pooled.world.buffers};
    REQUIRE(pooled.connects(*server, other));
    CHECK(pooled.seats_taken() == 3);

    const auto after = at();
    pooled.group->resolved(0, {after});
    pooled.pool->give_back(lease);  // the pool has not followed yet
    CHECK(pooled.seats_taken() == 2);
    Server& next = pooled.next();
    CHECK(&next != server.get());
    CHECK(next.shared().endpoint == after);
    CHECK(pooled.seats_taken() == 1);  // without the idle one
    CHECK(server->idle_count() == 0);
    CHECK(&other.server() == server.get());
    pooled.pool->give_back(other);
    CHECK(pooled.seats_taken() == 0);
    CHECK(server->idle_count() == 0);

    // A server that stays keeps its idle connections.
    Server& stays = pooled.make_idle();
    pooled.group->resolved(0, {after, at()});
    pooled.pool->sweep(steady_now());
    CHECK(pooled.takes_idle(stays));
}

TEST_CASE("pool: requests in flight are counted on each server until they end") {
    for (const auto balance : {config::Balance::round_robin, config::Balance::least_connections}) {
        Pooled pooled(
            {1, 1}, [&](config::Upstream& settings) { settings.balance = balance; }, 2);
        const bool is_counted = balance == config::Balance::least_connections;
        CHECK(pooled.pool->is_counted() == is_counted);
        Server& one = pooled.next();
        Server* const other = pooled.pools[1]->choose({}, nullptr);
        one.begin_request(is_counted);
        one.begin_request(is_counted);
        other->begin_request(is_counted);
        CHECK(pooled.pool->count_active() == 3);
        CHECK(pooled.pools[1]->count_active() == 3);
        one.end_request(is_counted);
        one.end_request(is_counted);
        other->end_request(is_counted);
        CHECK(pooled.pool->count_active() == 0);
        for (const auto& server : pooled.group->servers()) CHECK(server->state.active() == 0);
    }
}

TEST_CASE("pool: a connection whose making ends by an exception is closed, and counted so") {
    Pooled pooled({1});
    Stream stream{pooled.world.buffers};
    pooled.seat = pooled.pool->take_seat(pooled.request);
    const std::function<bool()> has_left = []() -> bool { throw std::bad_alloc(); };
    bool has_thrown = false;
    spawn(pooled.world.io.get_executor(),
          pooled.pool->connect(pooled.next(), pooled.sleeper, stream, pooled.seat, has_left, {1s}),
          [&](const std::exception_ptr& failed, ConnectFault) { has_thrown = failed != nullptr; });
    pooled.settle(true);
    CHECK(has_thrown);
    CHECK_FALSE(stream);
    const std::string text =
        test::text_of(pooled.world.metrics, telemetry::NameList<std::string>());
    CHECK(text.find("tidegate_upstream_connections 0\n") != std::string::npos);
    CHECK(text.find("tidegate_upstream_connections_total 1\n") != std::string::npos);
}

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
    const SteadyTime began = steady_now();
    TlsPooled silent(listening.group->settings().servers[0].address.port, {});
    Stream stream(silent.buffers);
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

}  // namespace tidegate::upstream::pool_test
