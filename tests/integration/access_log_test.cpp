// One line of JSON for each request, however it ended.
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::access_log_test {

using nlohmann::json;

TEST_CASE("access log: an admitted and a refused request are logged in full") {
    const Upstream upstream(ok("hello"));
    const Tidegate tidegate(simple(upstream.url(), "1/h"));
    auto client = tidegate.client();
    client.ask(post_request("/path?secret=1", "four"));
    client.get("/again");
    const auto lines = tidegate.access_log(2);
    REQUIRE(lines.size() == 2);

    const auto& admitted = lines[0];
    CHECK(admitted.at("method") == "POST");
    CHECK(admitted.at("path") == "/path");
    CHECK(admitted.dump().find("secret") == std::string::npos);
    CHECK(admitted.at("status") == 200);
    CHECK(admitted.at("client") == "127.0.0.1");
    CHECK(admitted.at("host") == "example.test");
    CHECK(admitted.at("route").is_string());
    CHECK(admitted.at("identifiers") == json::array({"ip:127.0.0.1"}));
    CHECK(admitted.at("verdict") == "admitted");
    CHECK(admitted.at("store") == "memory");
    CHECK(admitted.at("upstream") == "127.0.0.1:" + std::to_string(upstream.port()));
    CHECK(admitted.at("upstream_server") == "127.0.0.1:" + std::to_string(upstream.port()));
    CHECK(admitted.at("queue_us") == 0);
    CHECK(admitted.at("tries") == 1);
    CHECK(admitted.at("bytes_in") == 4);
    CHECK(admitted.at("bytes_out") == 5);
    CHECK(admitted.at("decision_us").is_number());
    CHECK(admitted.at("upstream_us").get<double>() > 0);
    CHECK(admitted.at("duration_us").get<double>() >= admitted.at("upstream_us").get<double>());
    CHECK(admitted.at("time").is_string());
    CHECK(admitted.at("id") == upstream.last().field("X-Request-Id"));

    const auto& refused = lines[1];
    CHECK(refused.at("status") == 429);
    CHECK(refused.at("verdict") == "limited");
    CHECK(refused.at("upstream") == "");
    CHECK(refused.at("upstream_server") == "");
    CHECK(refused.at("tries") == 0);
    CHECK(refused.at("limited_by").get<std::string>().rfind("default-", 0) == 0);
    CHECK(refused.at("id") != admitted.at("id"));
}

TEST_CASE("access log: a malformed request and a failed request have a line, too" *
          only_over_http1("what is broken are lines")) {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (conversation.read(request)) conversation.send("rubbish\r\n\r\n");
    });
    const Tidegate tidegate(
        "upstreams: {api: {servers: [" + upstream.url() +
        "]}}\nroutes: [{name: a, match: {path: /a}, upstream: api, policies: []}]\n");
    tidegate.client().ask("GET / HTTP/1.1\r\nbroken\r\n\r\n");
    tidegate.get("/nowhere");
    tidegate.get("/a");
    std::multiset<int> statuses;
    for (const auto& line : tidegate.access_log(3)) statuses.insert(line.at("status").get<int>());
    CHECK(statuses == std::multiset<int>{400, 404, 502});
}

TEST_CASE("access log: what a client wrote cannot forge a line") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    tidegate.client().ask("GET /a\"b\\c HTTP/1.1\r\nHost: x\r\nUser-Agent: \"}\\\r\n\r\n");
    tidegate.client().ask("GET /%0a\xc3\x28 HTTP/1.1\r\nHost: x\r\n\r\n");
    std::multiset<std::string> agents;
    for (const auto& line : tidegate.access_log(2)) {  // each line was read as JSON
        agents.insert(line.at("user_agent").get<std::string>());
    }
    CHECK(agents == std::multiset<std::string>{"", "\"}\\"});
}

TEST_CASE("access log: a hundred requests make a hundred lines, each with an id of its own") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    for (int i = 0; i < 100; ++i) client.get();
    std::set<std::string> ids;
    for (const auto& line : tidegate.access_log(100)) {
        ids.insert(line.at("id").get<std::string>());
        CHECK(line.at("client") == "127.0.0.1");  // nothing is left of the request before
    }
    CHECK(ids.size() == 100);
}

}  // namespace tidegate::test::access_log_test
