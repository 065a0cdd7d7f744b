#include <sys/resource.h>

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "base/process.hpp"
#include "upstream_health_world.hpp"

namespace tidegate::upstream::health_checks_test {

using namespace std::chrono_literals;

namespace {

std::string finds(const Texts& answer, const Checked::Change& change = {}) {
    Checked checked(1, change);
    checked.fake().answer = answer;
    return checked.finds();
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

}  // namespace tidegate::upstream::health_checks_test
