#include <sys/resource.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "base/process.hpp"
#include "http/grpc.hpp"
#include "tls_server.hpp"
#include "upstream/health_check.hpp"
#include "upstream_health_world.hpp"
#include "upstream_world.hpp"

namespace tidegate::upstream::health_check_test {

using test::Authority;
using test::TlsServer;
using namespace std::chrono_literals;

namespace {

std::string finds(const Texts& answer, const Checked::Change& change = {}) {
    Checked checked(1, change);
    checked.fake().answer = answer;
    return checked.finds();
}

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

// The result of a check of `https://localhost:port`.
HealthAnswer check_over_tls(std::uint16_t port, const Authority& believed) {
    TlsSettings settings;
    settings.ca = believed.pem();
    const auto tls = TlsClient::make(settings);
    REQUIRE(tls);
    config::HealthCheck check;
    check.path = "/healthz";
    check.timeout = 5s;
    const StreamProtocol::endpoint endpoint = endpoint_at("127.0.0.1", port);
    const std::string authority = "api.internal";
    const std::string host = "localhost";
    asio::io_context io{1};
    const auto socket = std::make_shared<TimedSocket>(StreamSocket(io));
    std::optional<HealthAnswer> found;
    spawn(io.get_executor(),
          check_health(socket, {.endpoint = endpoint,
                                .authority = authority,
                                .settings = check,
                                .tls_host = host,
                                .tls = tls->get()}),
          [&](const std::exception_ptr& failed, HealthAnswer answer) {
              CHECK_FALSE(failed);
              found = std::move(answer);
          });
    CHECK(runs_until(io, [&] { return found.has_value(); }));
    return *found;
}

struct Answer {
    int status = 200;
    std::string_view type = "application/grpc+proto";
    std::string_view status_in_head{};
    std::string_view status_in_trailers = "0";
};

std::string framed(std::string_view message) {
    std::string out;
    http::append_grpc_message_head(static_cast<std::uint32_t>(message.size()), out);
    return out.append(message);
}

std::string fault_of(const Answer& answer, std::string_view body) {
    http::ResponseHead head;
    head.status = answer.status;
    head.fields.push_back({http::FieldName::content_type, "content-type", answer.type});
    http::Fields trailers;
    const auto add = [](http::Fields& to, std::string_view value) {
        if (!value.empty()) to.push_back({http::FieldName::other, "grpc-status", value});
    };
    add(head.fields, answer.status_in_head);
    add(trailers, answer.status_in_trailers);
    return fault_of_grpc_health(head, trailers, body);
}

}  // namespace

TEST_CASE("health_checks: without `health_check` no server is checked") {
    Checked checked;
    config::Upstream settings = upstream_of({server_at("127.0.0.1", checked.fake().port)});
    checked.checks = std::make_shared<HealthChecks>(checked.io.get_executor(), group_of(settings));
    checked.fake().close();
    checked.start();
    CHECK(checked.runs_until_idle());
    CHECK(checked.fake().connections == 0);
}

TEST_CASE("health_checks: a server that answers is healthy") {
    Checked checked;
    CHECK(checked.finds().empty());
    CHECK(checked.status().health == ServerHealth::up);
}

TEST_CASE("health_checks: a check asks for the path, of the host") {
    Checked checked(1, [](config::HealthCheck& check) { check.path = "/up?deep=1"; });
    CHECK(checked.finds().empty());
    REQUIRE_FALSE(checked.fake().requests.empty());
    const std::string authority = "127.0.0.1:" + std::to_string(checked.fake().port);
    CHECK(checked.fake().requests[0] == "GET /up?deep=1 HTTP/1.1\r\nHost: " + authority +
                                            "\r\nUser-Agent: tidegate-health/" +
                                            std::string(kVersion) + "\r\nAccept: */*\r\n\r\n");

    Checked named(1, [](config::HealthCheck& check) { check.host = "status.test:81"; });
    CHECK(named.finds().empty());
    REQUIRE_FALSE(named.fake().requests.empty());
    CHECK(named.fake().requests[0].find("\r\nHost: status.test:81\r\n") != std::string::npos);
}

TEST_CASE("health_checks: `status` says which statuses are healthy") {
    for (const int status : {200, 204, 301, 399}) CHECK(finds({status_line(status)}).empty());
    for (const int status : {400, 404, 500, 503}) {
        CHECK(finds({status_line(status)}) == "it answers " + std::to_string(status));
    }
    const Checked::Change odd = [](config::HealthCheck& check) {
        check.status = {{204, 204}, {400, 404}};
    };
    for (const int status : {204, 400, 404}) CHECK(finds({status_line(status)}, odd).empty());
    for (const int status : {200, 205, 399, 405}) {
        CHECK(finds({status_line(status)}, odd) == "it answers " + std::to_string(status));
    }
}

TEST_CASE("health_checks: the final answer counts, however it comes") {
    CHECK(finds({"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
                 status_line(200)})
              .empty());
    CHECK(finds({"HTTP/1.1 103 Early Hints\r\n\r\n" + status_line(500)}) == "it answers 500");
    CHECK(finds({"HTTP/1.1 2", "00 OK\r\nA: b\r", "\n\r", "\nbody"}).empty());
    CHECK(finds({"HTTP/1.0 200 OK\r\n\r\n"}).empty());
    CHECK(finds({"HTTP/1.1 200 OK\r\n\r\n", std::string(300'000, 'x')}).empty());
    CHECK(finds({"HTTP/1.1 100 Continue\r\n\r\n"}) == "it closes without an answer");
}

TEST_CASE("health_checks: a malformed answer is a fault") {
    CHECK(finds({"SSH-2.0-OpenSSH_9.2\r\n\r\n"}) == "its answer is not HTTP");
    CHECK(finds({std::string(100'000, 'x')}) == "its answer is not HTTP");
    CHECK(finds({"HTTP/1.1 200 OK\r\n"}) == "it closes without an answer");
    CHECK(finds({""}) == "it closes without an answer");
}

TEST_CASE("health_checks: an answer that would break a request is no answer") {
    const auto head = [](const std::string& lines) {
        return finds({"HTTP/1.1 200 OK\r\n" + lines + "\r\n"});
    };
    CHECK(head("Content-Length: 0\r\n").empty());
    const std::string fault = "its answer is not HTTP";
    CHECK(head("Content-Length: 2\r\nContent-Length: 3\r\n") == fault);
    CHECK(head("Content-Length: two\r\n") == fault);
    CHECK(head("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n") == fault);
    CHECK(head("Transfer-Encoding: gzip\r\n") == fault);
    CHECK(finds({"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
                 "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}) == fault);
}

TEST_CASE("health_checks: a server that refuses connections is unhealthy") {
    Checked checked;
    checked.fake().close();
    CHECK(checked.finds() == "cannot connect: Connection refused");
    CHECK(checked.status().health == ServerHealth::unhealthy);
}

TEST_CASE("health_checks: a server that accepts and says nothing has until `timeout`") {
    const Checked::Change brief = [](config::HealthCheck& check) { check.timeout = 30ms; };
    const SteadyTime began = steady_now();
    CHECK(finds({}, brief) == "it does not answer within 30ms");
    CHECK(steady_now() - began >= 30ms);
    Checked drips(1, brief);
    drips.fake().answer = {"HTTP/1.1 200 OK\r\n"};
    drips.fake().stays_open = true;
    CHECK(drips.finds() == "it does not answer within 30ms");
}

TEST_CASE("health_checks: an answer counts though its body does not come") {
    Checked checked(1, [](config::HealthCheck& check) { check.timeout = 30ms; });
    checked.fake().answer = {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"};
    checked.fake().stays_open = true;
    CHECK(checked.finds().empty());
    CHECK(runs_until(checked.io, [&] { return checked.fake().requests.size() >= 2; }));
}

TEST_CASE("health_checks: without a path a check only connects") {
    const Checked::Change tcp = [](config::HealthCheck& check) { check.path.clear(); };
    Checked checked(1, tcp);
    checked.fake().answer = {"SSH-2.0-OpenSSH_9.2\r\n"};
    CHECK(checked.finds().empty());
    CHECK(runs_until(checked.io, [&] { return !checked.fake().requests.empty(); }));
    CHECK(checked.fake().requests[0].empty());
    Checked gone(1, tcp);
    gone.fake().close();
    CHECK(gone.finds() == "cannot connect: Connection refused");
}

TEST_CASE("health_checks: verdicts change after checks in a row") {
    Checked checked(1, [](config::HealthCheck& check) {
        check.every = 5ms;
        check.unhealthy_after = 3;
        check.healthy_after = 2;
    });
    Fake& fake = checked.fake();
    CHECK(checked.finds().empty());
    const auto checks_until = [&](ServerHealth health) {
        REQUIRE(runs_until(checked.io, [&] { return fake.open == 0; }));
        const std::size_t before = fake.requests.size();
        REQUIRE(runs_until(checked.io, [&] { return checked.status().health == health; }));
        return fake.requests.size() - before;
    };
    fake.answer = {status_line(500)};
    CHECK(checks_until(ServerHealth::unhealthy) == 3);
    fake.answer = {status_line(200)};
    CHECK(checks_until(ServerHealth::up) == 2);
}

TEST_CASE("health_checks: each server is checked by itself") {
    Checked checked(3);
    checked.fakes[0]->answer = {status_line(503)};
    checked.fakes[1]->answer = {};  // its check lasts
    checked.start();
    REQUIRE(runs_until(checked.io, [&] {
        return checked.fakes[0]->requests.size() >= 3 && checked.fakes[2]->requests.size() >= 3;
    }));
    CHECK(checked.status(0).health == ServerHealth::unhealthy);
    CHECK_FALSE(checked.status(1).is_checked);
    CHECK(checked.status(2).health == ServerHealth::up);
    CHECK(checked.fakes[1]->connections == 1);
}

TEST_CASE("health_checks: stop() ends pauses and a check under way") {
    SUBCASE("in a pause") {
        Checked checked(1, [](config::HealthCheck& check) { check.every = 1h; });
        CHECK(checked.finds().empty());
    }
    SUBCASE("in a check") {
        Checked checked;
        checked.fake().answer = {};
        checked.start();
        REQUIRE(runs_until(checked.io, [&] { return checked.fake().requests.size() == 1; }));
        checked.stop();
        CHECK_FALSE(checked.is_checked());  // a check that was stopped reports nothing
        CHECK(checked.fake().open == 0);
    }
    SUBCASE("before it has begun") {
        Checked checked;
        checked.start();
        checked.stop();
        CHECK(checked.fake().connections == 0);
    }
}

TEST_CASE("health_checks: a server that drains is checked no more, and one that comes is") {
    Checked checked(2);
    const std::uint16_t first = checked.fakes[0]->port;
    const std::uint16_t second = checked.fakes[1]->port;
    checked.use(upstream_of({server_at("a.test", 80)}),
                [](config::HealthCheck& check) { check.timeout = 30ms; });
    checked.group->resolved(0, {endpoint_at("127.0.0.1", first)});
    checked.fakes[0]->answer = {};  // the check is under way when the address goes
    checked.start();
    REQUIRE(runs_until(checked.io, [&] { return checked.fakes[0]->requests.size() == 1; }));
    const auto gone = checked.group->servers()[0];
    checked.group->resolved(0, {endpoint_at("127.0.0.1", second)});
    checked.fakes[0]->close();
    REQUIRE(runs_until(checked.io, [&] { return checked.fakes[1]->requests.size() >= 3; }));
    REQUIRE(runs_until(checked.io, [&] { return checked.fakes[0]->open == 0; }));
    CHECK(checked.fakes[0]->connections == 1);
    CHECK(checked.status().health == ServerHealth::up);
    CHECK(gone->state.verdict() == balance::CheckVerdict::unknown);
}

TEST_CASE("health_checks: a proxy that is out of descriptors says nothing about its servers") {
    Checked checked;
    checked.io.poll();  // the fake accepts
    checked.io.restart();
    checked.start();
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit none{3, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    checked.io.poll();
    ::setrlimit(RLIMIT_NOFILE, &before);
    CHECK_FALSE(checked.is_checked());
    REQUIRE(runs_until(checked.io, [&] { return checked.is_checked(); }));
    CHECK(checked.status().health == ServerHealth::up);
}

// The connection that the checks of a server keep.
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

TEST_CASE("health tls: a check asks over TLS") {
    const Authority authority;
    const TlsServer server(authority.issue(), test::tls_answer("ok"));
    const HealthAnswer answer = check_over_tls(server.port(), authority);
    CHECK(answer.fault.empty());
    CHECK(answer.status == 200);
    REQUIRE(server.seen().size() == 1);
    CHECK(server.seen()[0].starts_with("GET /healthz HTTP/1.1\r\nHost: api.internal\r\n"));
    CHECK(server.names_asked_for() == std::vector<std::string>{"localhost"});
}

TEST_CASE("health tls: a server that is not accepted, or does not accept, is not healthy") {
    const Authority authority;
    const TlsServer server(authority.issue(), test::tls_answer("ok"));
    const std::string foreign = check_over_tls(server.port(), Authority()).fault;
    CHECK(foreign.starts_with("its certificate is not accepted: "));
    const TlsServer strict(
        authority.issue(), [](TlsServer::Conversation& client) { client.read_head(); }, 0,
        &authority);
    const std::string refused = check_over_tls(strict.port(), authority).fault;
    CHECK(refused.starts_with("it wants a client certificate, and none is configured"));
}

// What the answer of a gRPC health service means for its server.
TEST_CASE("health_check_grpc: SERVING is healthy, and nothing else is") {
    CHECK(fault_of({}, framed("\x08\x01")).empty());
    CHECK(fault_of({}, framed("\x08\x02")) == "it says NOT_SERVING");
    CHECK(fault_of({}, framed("\x08\x03")) == "it says SERVICE_UNKNOWN");
    CHECK(fault_of({}, framed("")) == "it says UNKNOWN");
}

TEST_CASE("health_check_grpc: a call that fails says why") {
    CHECK(fault_of({.status_in_head = "12", .status_in_trailers = ""}, "") ==
          "it has no health service of gRPC (grpc-status 12)");
    CHECK(fault_of({.status_in_trailers = "5"}, "") ==
          "its health service does not know the service (grpc-status 5)");
    CHECK(fault_of({.status_in_trailers = "14"}, framed("\x08\x01")) ==
          "its health service answers grpc-status 14");
    CHECK(fault_of({.status = 404}, "") == "it answers 404");
}

TEST_CASE("health_check_grpc: an answer that is not gRPC is a fault") {
    const std::string good = framed("\x08\x01");
    CHECK(fault_of({.type = "text/html"}, good) == "its answer is not gRPC");
    CHECK(fault_of({.status_in_trailers = ""}, good) == "its answer is not gRPC");
    CHECK(fault_of({.status_in_trailers = "zero"}, good) == "its answer is not gRPC");
    // With messages, the status of the head does not count.
    CHECK(fault_of({.status_in_head = "0", .status_in_trailers = ""}, good) ==
          "its answer is not gRPC");
    const std::string none = "its answer is no HealthCheckResponse";
    CHECK(fault_of({}, "") == none);
    CHECK(fault_of({}, good.substr(0, good.size() - 1)) == none);
    CHECK(fault_of({}, good + good) == none);
    CHECK(fault_of({}, framed("\x08\x09")) == none);
    std::string compressed = good;
    compressed[0] = 1;
    CHECK(fault_of({}, compressed) == none);
    // Unknown fields may be long, but not without end.
    const std::string padded = std::string("\x12\xd0\x1f") + std::string(4'048, 'x') + "\x08\x01";
    CHECK(fault_of({}, framed(padded)).empty());
    const std::string huge = std::string("\x12\xa0\x1f") + std::string(4'000, 'x');
    CHECK(fault_of({}, framed(huge + huge + "\x08\x01")) == none);
}

}  // namespace tidegate::upstream::health_check_test
