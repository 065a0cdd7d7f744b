// What an operator sees: metrics that add up, and health that is right.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::admin_test {

namespace {

// Enough names that sockets do not hold the text of metrics.
std::string many_routes(const Upstream& upstream, int count) {
    std::string yaml = "upstreams: {api: {servers: [" + upstream.url() + "]}}\nroutes:\n";
    for (int i = 0; i < count; ++i) {
        const std::string name = "route-" + std::to_string(i);
        yaml +=
            "  - {name: " + name + ", match: {path: /" + name + "}, upstream: api, policies: []}\n";
    }
    return yaml;
}

// More connections than the listener takes, from several addresses, each of which sends `bytes`.
std::vector<RawClient> crowd(const Tidegate& tidegate, const std::string& bytes) {
    std::vector<RawClient> all;
    for (int i = 0; i < 80; ++i) {
        all.emplace_back(tidegate.admin_port(), "127.0.0." + std::to_string(1 + i % 8));
        all.back().send(bytes);
    }
    return all;
}

// Health and readiness are answered at once.
void check_answers(const Tidegate& tidegate) {
    const auto begin = Clock::now();
    for (const std::string path : {"/healthz", "/readyz"}) {
        CAPTURE(path);
        const auto answer = tidegate.admin(path);
        REQUIRE(answer);
        CHECK(answer->status() == 200);
    }
    CHECK(Clock::now() - begin < milliseconds{5'000});
}

}  // namespace

TEST_CASE("admin: peers that send nothing, half a head or no body shut no client out") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    const std::string head = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
    for (const std::string& begin : {std::string(), head}) {
        CAPTURE(begin);
        auto all = crowd(tidegate, begin);
        check_answers(tidegate);
        // The last connection is still open, and may go on.
        all.back().send(begin.empty() ? head + "\r\n" : "\r\n");
        CHECK(all.back().response().status() == 200);
        CHECK(all.front().closed());
    }
    const auto all =
        crowd(tidegate, "POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n");
    check_answers(tidegate);
    CHECK_SOON(tidegate.errors().find("admin: all 64 connections are in use") != std::string::npos);
}

TEST_CASE(
    "admin: peers that do not read the metrics shut no client out, and memory stays bounded") {
    const Upstream upstream(ok());
    const Tidegate tidegate(many_routes(upstream, 1'000));
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    RawClient reader(tidegate.admin_port());
    const std::size_t text = reader.ask(request).body.size();
    REQUIRE(text > 1'000'000);
    const long before = tidegate.peak_memory_kib();
    auto all = crowd(tidegate, request);
    check_answers(tidegate);
    CHECK(all.back().response().body.size() > text / 2);
    // 32 MiB of answers, the one that is being made, and what its making takes.
    CHECK(tidegate.peak_memory_kib() - before < 64 * 1024);
}

TEST_CASE("admin: a configured token is required on this machine, too, but not for metrics") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "5/h"), "s3cret");
    for (const std::string path : {"/metrics", "/healthz", "/readyz"}) {
        CHECK(tidegate.admin(path).value().status() == 200);
    }
    const auto refused = tidegate.admin("/api/inspect?identifier=ip%3A127.0.0.1").value();
    CHECK(refused.status() == 401);
    CHECK(refused.field("WWW-Authenticate") == "Bearer realm=\"tidegate\"");
    CHECK(tidegate.reload().status() == 401);
    RawClient client(tidegate.admin_port());
    client.send("POST /reload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n");
    CHECK(client.response().status() == 200);
}

TEST_CASE("admin: readiness shows how many servers are up, and does not depend on that number") {
    const Upstream upstream(ok());
    const std::string away = "http://127.0.0.1:" + std::to_string(free_port());
    const auto upstreams = [](const Tidegate& tidegate) {
        const auto answer = tidegate.admin("/readyz").value();
        CHECK(answer.status() == 200);
        return nlohmann::json::parse(answer.body).at("upstreams");
    };
    const std::string check = "health_check: {tcp: on, every: 200ms}";
    const Tidegate some(unlimited({upstream.url(), away}, check));
    CHECK_SOON(upstreams(some) == nlohmann::json::parse(R"({"api":{"servers":2,"up":1}})"));
    const Tidegate none(unlimited({away}, check));
    CHECK_SOON(upstreams(none) == nlohmann::json::parse(R"({"api":{"servers":1,"up":0}})"));
    const Message refused = none.get();
    CHECK(refused.status() == 503);
    CHECK(refused.field("Retry-After") == "1");
    const std::string server = "{upstream=\"api\",server=\"" + away.substr(7) + "\"}";
    CHECK(none.metric("tidegate_upstream_server_up" + server) == 0);
}

TEST_CASE("admin: a peer that may see counts may see upstreams") {
    const Upstream upstream(ok());
    const Tidegate locked(simple(upstream.url()), "s3cret");
    CHECK(locked.admin("/api/upstreams").value().status() == 401);
    const Tidegate unlocked(simple(upstream.url()));
    const auto answer = unlocked.admin("/api/upstreams").value();
    CHECK(answer.status() == 200);
    CHECK(answer.field("Content-Type") == "application/json");
    CHECK(answer.body.find(upstream.url().substr(7)) != std::string::npos);
    RawClient page(unlocked.admin_port());
    CHECK(page.ask("GET /api/upstreams HTTP/1.1\r\nHost: evil.example\r\n\r\n").status() == 403);
}

TEST_CASE("admin: the metrics count what was sent") {
    const Upstream upstream(ok("hello"));
    const Tidegate tidegate(
        "upstreams: {api: {servers: [" + upstream.url() + "]}}\n" +
        "policies: {clients: {key: [ip], limits: [{name: hourly, quota: 7, per: 1h}]}}\n" +
        "routes: [{name: api, match: {path: \"/api/**\"}, upstream: api, policies: [clients]}]\n");
    auto client = tidegate.client("127.0.0.5");
    for (int i = 0; i < 10; ++i) client.get("/api/" + std::to_string(i));
    client.get("/elsewhere");
    tidegate.access_log(11);  // all are recorded

    const std::string requests = "tidegate_requests_total";
    CHECK_SOON(
        tidegate.metric(requests +
                        "{route=\"api\",code=\"200\",outcome=\"forwarded\",face=\"proxy\"}") == 7);
    CHECK_SOON(tidegate.metric(requests +
                               "{route=\"api\",code=\"429\",outcome=\"limited\",face=\"proxy\"}") ==
               3);
    CHECK_SOON(tidegate.metric(requests +
                               "{route=\"-\",code=\"404\",outcome=\"rejected\",face=\"proxy\"}") ==
               1);
    CHECK_SOON(tidegate.metric_sum(requests) == 11);
    CHECK_SOON(tidegate.metric_sum("tidegate_request_seconds_count", "route=\"api\"") == 10);
    const std::string decisions =
        "tidegate_decisions_total{policy=\"clients\",limit=\"hourly\",outcome=\"";
    CHECK_SOON(tidegate.metric(decisions + "admitted\"}") == 7);
    CHECK_SOON(tidegate.metric(decisions + "denied\"}") == 3);
    CHECK_SOON(tidegate.metric_sum("tidegate_decision_seconds_count", "store=\"memory\"") == 10);
    CHECK_SOON(tidegate.metric_sum("tidegate_upstream_seconds_count", "upstream=\"api\"") == 7);
    CHECK_SOON(tidegate.metric_sum("tidegate_client_connections_total") == 1);
    CHECK_SOON(tidegate.metric_sum("tidegate_client_connections") == 1);
    CHECK(tidegate.metric_sum("tidegate_store_failures_total") == 0);
    // Servers of upstreams are named, clients are not.
    CHECK(tidegate.admin("/metrics").value().body.find("127.0.0.5") == std::string::npos);
}

TEST_CASE("admin: the metrics are in the format Prometheus reads") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "5/h"));
    tidegate.get();
    tidegate.access_log(1);  // it is recorded
    const auto answer = tidegate.admin("/metrics").value();
    CHECK(answer.status() == 200);
    CHECK(answer.field("Content-Type").rfind("text/plain", 0) == 0);
    for (const std::string name : {"tidegate_requests_total", "tidegate_request_seconds",
                                   "tidegate_decisions_total", "tidegate_decision_seconds"}) {
        CAPTURE(name);
        CHECK(answer.body.find("# TYPE " + std::string(name) + " ") != std::string::npos);
    }
}

TEST_CASE("admin: health and readiness are open, all else is not there") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    CHECK(tidegate.admin("/healthz").value().status() == 200);
    CHECK(tidegate.admin("/readyz").value().status() == 200);
    CHECK(tidegate.admin("/nothing").value().status() == 404);
    auto client = RawClient(tidegate.admin_port());
    CHECK(client.ask("POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
              .status() >= 400);
}

TEST_CASE("admin: the proxy's own port does not serve the admin's paths") {
    const Upstream upstream(ok("from the upstream"));
    const Tidegate tidegate(simple(upstream.url()));
    CHECK(tidegate.get("/metrics").body == "from the upstream");
}

TEST_CASE("admin: rubbish on the admin port disturbs no client") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    for (const std::string& bytes :
         {std::string("\x16\x03\x01\xff\r\n\r\n"), "GET /" + std::string(100'000, 'a'),
          std::string("GET /metrics HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: "
                      "chunked\r\n\r\n")}) {
        RawClient client(tidegate.admin_port());
        client.send(bytes);
        client.finish_sending();
        client.rest();
    }
    CHECK(tidegate.admin("/healthz").value().status() == 200);
    CHECK(tidegate.get().status() == 200);
}

}  // namespace tidegate::test::admin_test
