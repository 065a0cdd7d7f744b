// What an operator sees: metrics that add up, health that tells the truth.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

using namespace tidegate::test;

TEST_CASE("admin: the metrics count what was sent") {
    const Upstream upstream(ok("hello"));
    const Tidegate tidegate(
        "upstreams: {api: {servers: [" + upstream.url() + "]}}\n" +
        "policies: {clients: {key: [ip], limits: [{name: hourly, quota: 7, per: 1h}]}}\n" +
        "routes: [{name: api, match: {path: \"/api/**\"}, upstream: api, policies: [clients]}]\n");
    auto client = tidegate.client();
    for (int i = 0; i < 10; ++i) client.get("/api/" + std::to_string(i));
    client.get("/elsewhere");
    tidegate.access_log(11);  // all are recorded

    const std::string requests = "tidegate_requests_total";
    CHECK_SOON(tidegate.metric(requests + "{route=\"api\",code=\"200\",outcome=\"forwarded\"}") ==
               7);
    CHECK_SOON(tidegate.metric(requests + "{route=\"api\",code=\"429\",outcome=\"limited\"}") == 3);
    CHECK_SOON(tidegate.metric(requests + "{route=\"-\",code=\"404\",outcome=\"rejected\"}") == 1);
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
    CHECK(tidegate.admin("/metrics").value().body.find("127.0.0.1") == std::string::npos);
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

TEST_CASE("admin: rubbish on the admin's port disturbs nobody") {
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
