// The connection that the checks of a server keep.
#include <string>

#include <doctest/doctest.h>

#include "tls_server.hpp"
#include "upstream_health_world.hpp"

namespace tidegate::upstream::health_kept_test {

namespace {

// The checks of one server that keeps connections, whose first failed check counts.
struct Kept : Checked {
    explicit Kept(const Change& change = {},
                  const std::function<void(config::Upstream&)>& more = {}) {
        config::Upstream settings = upstream_of({server_at("127.0.0.1", fake().port)});
        if (more) more(settings);
        use(settings, [&](config::HealthCheck& check) {
            check.every = 10ms;
            check.unhealthy_after = 1;
            check.healthy_after = 1;
            if (change) change(check);
        });
        fake().keeps = true;
    }
    bool runs_until_asked(std::size_t requests) {
        return runs_until(io, [&] { return fake().requests.size() >= requests; });
    }
    bool is_up() const { return status().health == ServerHealth::up; }
};

// Connections for the first `requests` checks of a server that gives `answer`.
int connections_for(std::size_t requests, const Texts& answer) {
    Kept kept;
    kept.fake().answer = answer;
    kept.start();
    REQUIRE(kept.runs_until_asked(requests));
    CHECK(kept.is_up());
    return kept.fake().connections;
}

bool asks_to_close(const std::string& request) {
    return request.find("\r\nConnection: close\r\n") != std::string::npos;
}

}  // namespace

TEST_CASE("health_checks: the next check comes on the connection that the server has kept") {
    CHECK(connections_for(4, {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok"}) == 1);
    CHECK(connections_for(4, {status_line(200)}) == 1);
    CHECK(connections_for(4, {"HTTP/1.1 204 No Content\r\n\r\n"}) == 1);
    CHECK(connections_for(4, {"HTTP/1.1 103 Early Hints\r\n\r\n", status_line(301)}) == 1);
    CHECK(connections_for(4, {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\no",
                              "k\r\n0\r\nA: b\r\n", "\r\n"}) == 1);
    CHECK(connections_for(4, {"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n",
                              std::string(60'000, 'x')}) == 1);
}

TEST_CASE("health_checks: a connection that cannot take another check is not kept") {
    CHECK(connections_for(
              4, {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}) >= 4);
    CHECK(connections_for(4, {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"}) >= 4);
    CHECK(connections_for(4, {"HTTP/1.1 200 OK\r\n\r\nuntil the end"}) >= 4);
    CHECK(connections_for(4, {"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n",
                              std::string(90'000, 'x')}) >= 4);
    const std::string chunk = "4000\r\n" + std::string(0x4000, 'x') + "\r\n";
    CHECK(connections_for(4, {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk, chunk,
                              chunk, chunk, chunk, chunk, "0\r\n\r\n"}) >= 4);
    CHECK(connections_for(4, {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a size"}) >=
          4);
}

TEST_CASE("health_checks: what a server says unasked is no answer to the next check") {
    const std::string unasked = status_line(500);
    CHECK(connections_for(4, {status_line(200) + unasked}) >= 4);
    CHECK(connections_for(4, {status_line(200), unasked}) >= 4);
}

TEST_CASE("health_checks: a kept connection that the server gives up is no failed check") {
    Kept kept;
    SUBCASE("it closes when the check comes") {
        kept.fake().later = Texts{};
    }
    SUBCASE("it says 408, as servers do to unused connections") {
        kept.fake().later = Texts{status_line(408)};
    }
    SUBCASE("it closes in between") {
        kept.fake().keeps = false;
    }
    kept.start();
    REQUIRE(kept.runs_until_asked(9));
    CHECK(kept.is_up());
    CHECK(kept.fake().connections >= 4);
}

TEST_CASE("health_checks: a check is made only once more, and that one counts") {
    Kept kept([](config::HealthCheck& check) { check.every = 200ms; });
    kept.start();
    REQUIRE(kept.runs_until_asked(2));
    REQUIRE(kept.fake().connections == 1);
    std::size_t arrive = 2;
    SUBCASE("no connection") {
        kept.fake().close();
        arrive = 1;
    }
    SUBCASE("a bad one") {
        kept.fake().answer = {status_line(503)};
    }
    SUBCASE("a status that servers say to unused connections") {
        kept.fake().answer = {status_line(408)};
    }
    kept.fake().later = Texts{};
    const std::size_t before = kept.fake().requests.size();
    REQUIRE(runs_until(kept.io, [&] { return !kept.is_up(); }));
    CHECK(kept.fake().requests.size() == before + arrive);
}

TEST_CASE("health_checks: both attempts of a check have its `timeout` together") {
    Kept kept;
    kept.fake().answer = {};
    config::HealthCheck check;
    check.path = "/";
    check.timeout = 1h;
    const auto server = kept.group->servers()[0];
    const auto socket = std::make_shared<TimedSocket>(StreamSocket(kept.io));
    std::string fault;
    spawn(kept.io.get_executor(),
          check_health(socket, {.endpoint = server->endpoint,
                                .authority = server->authority,
                                .settings = check,
                                .tls_host = server->tls_host,
                                .spent = 1h - 20ms}),
          [&](const std::exception_ptr&, const HealthAnswer& answer) { fault = answer.fault; });
    REQUIRE(runs_until(kept.io, [&] { return !fault.empty(); }));
    CHECK(fault == "it does not answer within 1h");
}

TEST_CASE("health_checks: a kept connection on which the server falls silent is a failed check") {
    Kept kept([](config::HealthCheck& check) { check.timeout = 50ms; });
    kept.start();
    REQUIRE(kept.runs_until_asked(2));
    REQUIRE(kept.fake().connections == 1);
    kept.fake().answer = {};
    REQUIRE(runs_until(kept.io, [&] { return !kept.is_up(); }));
    CHECK(kept.fake().connections == 1);
}

TEST_CASE("health_checks: checks of a server that is not known to be healthy connect anew") {
    Kept kept([](config::HealthCheck& check) {
        check.unhealthy_after = 3;
        check.healthy_after = 3;
    });
    Fake& fake = kept.fake();
    kept.start();
    REQUIRE(kept.runs_until_asked(2));
    REQUIRE(fake.connections == 1);
    fake.answer = {status_line(500)};
    const std::size_t healthy = fake.requests.size();
    REQUIRE(runs_until(kept.io, [&] { return !kept.is_up(); }));
    // The first of them came on the kept connection.
    CHECK(fake.connections == 3);
    CHECK(fake.requests.size() == healthy + 3);
    REQUIRE(kept.runs_until_asked(healthy + 5));
    CHECK(fake.connections == 5);
    CHECK(asks_to_close(fake.requests.back()));
    fake.answer = {status_line(200)};
    REQUIRE(runs_until(kept.io, [&] { return kept.is_up(); }));
    const int connections = fake.connections;
    const std::size_t again = fake.requests.size();
    REQUIRE(kept.runs_until_asked(again + 3));
    CHECK(fake.connections <= connections + 1);
}

TEST_CASE(
    "health_checks: a server that has stopped listening is noticed, though it still answers") {
    Kept kept({}, [](config::Upstream& settings) { settings.idle_timeout = 100ms; });
    kept.start();
    REQUIRE(kept.runs_until_asked(2));
    kept.fake().close();
    REQUIRE(runs_until(kept.io, [&] { return !kept.is_up(); }));
    CHECK(kept.fake().connections <= 2);
}

TEST_CASE(
    "health_checks: a connection serves checks for a minute, or `timeouts.idle` if that is less") {
    const config::Upstream settings = upstream_of({server_at("a.test", 80)});
    using balance::CheckVerdict;
    CHECK(keeps_connection(settings, CheckVerdict::healthy, 0s, 5s));
    CHECK(keeps_connection(settings, CheckVerdict::unknown, 0s, 5s));
    CHECK_FALSE(keeps_connection(settings, CheckVerdict::unhealthy, 0s, 5s));
    // The next check would come later than a minute after it was made.
    CHECK(keeps_connection(settings, CheckVerdict::healthy, 50s, 9s));
    CHECK_FALSE(keeps_connection(settings, CheckVerdict::healthy, 50s, 10s));
    CHECK_FALSE(keeps_connection(settings, CheckVerdict::healthy, 0s, 1h));
    config::Upstream brief = settings;
    brief.idle_timeout = 2s;
    CHECK(keeps_connection(brief, CheckVerdict::healthy, 0s, 1s));
    CHECK_FALSE(keeps_connection(brief, CheckVerdict::healthy, 1s, 1s));
    config::Upstream lasting = settings;
    lasting.idle_timeout = 24h;
    CHECK_FALSE(keeps_connection(lasting, CheckVerdict::healthy, 0s, 1min));
    config::Upstream none = settings;
    none.idle_connections = 0;
    CHECK_FALSE(keeps_connection(none, CheckVerdict::healthy, 0s, 5s));
}

TEST_CASE(
    "health_checks: with `idle_connections: 0` each check connects, and says that it closes") {
    Kept kept({}, [](config::Upstream& settings) { settings.idle_connections = 0; });
    kept.start();
    REQUIRE(kept.runs_until_asked(3));
    CHECK(kept.fake().connections >= 3);
    for (const std::string& request : kept.fake().requests) CHECK(asks_to_close(request));
}

TEST_CASE("health_checks: the kept connection ends with the checks") {
    const Checked::Change seldom = [](config::HealthCheck& check) { check.every = 30s; };
    Kept kept(seldom);
    const auto is_checked = [&] { return kept.is_checked(); };
    SUBCASE("stop() in a pause") {
        kept.start();
        REQUIRE(runs_until(kept.io, is_checked));
        kept.stop();
    }
    SUBCASE("stop() before the body of an answer has come") {
        kept.fake().answer = {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"};
        kept.start();
        REQUIRE(runs_until(kept.io, is_checked));
        kept.stop();
    }
    SUBCASE("the server drains") {
        kept.use(upstream_of({server_at("a.test", 80)}), seldom);
        kept.group->resolved(0, {endpoint_at("127.0.0.1", kept.fake().port)});
        kept.start();
        REQUIRE(runs_until(kept.io, is_checked));
        kept.group->resolved(0, {endpoint_at("127.0.0.2", 1)});
        REQUIRE(runs_until(kept.io, [&] { return kept.fake().open == 0; }));
    }
    CHECK(kept.fake().open == 0);
}

TEST_CASE("health_checks: over TLS, the next check needs no handshake") {
    const test::Authority authority;
    test::TlsServer server(authority.issue(), [](test::TlsServer::Conversation& client) {
        while (client.read_head().ends_with("\r\n\r\n") && client.send(status_line(200))) {
        }
    });
    Kept kept;
    config::Upstream settings = upstream_of({server_at("127.0.0.1", server.port())});
    settings.servers[0].is_tls = true;
    settings.tls.ca = authority.pem();
    settings.tls.server_name = "localhost";
    kept.use(settings, [](config::HealthCheck& check) { check.unhealthy_after = 1; });
    kept.start();
    REQUIRE(runs_until(kept.io, [&] { return server.seen().size() >= 4; }));
    CHECK(kept.is_up());
    CHECK(server.connections() == 1);
    kept.stop();
}

TEST_CASE("health_checks: checks begin at one of twenty ticks of `every`, and never late") {
    const SteadyTime start{};
    CHECK(shared_tick(start + 5s, 5s, 0ns) == start + 5s);
    CHECK(shared_tick(start + 5'249ms, 5s, 0ns) == start + 5s);
    CHECK(shared_tick(start + 5'250ms, 5s, 0ns) == start + 5'250ms);
    CHECK(shared_tick(start + 5'250ms, 5s, 10ms) == start + 5'240ms);
    CHECK(shared_tick(start + 7'999'999ns, 10ms, 0ns) == start + 7ms);
}

}  // namespace tidegate::upstream::health_kept_test
