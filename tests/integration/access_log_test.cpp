// One line of JSON for each request, however it ended.
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
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
    CHECK(refused.at("limited_identifier") == "ip:127.0.0.1");
    CHECK(refused.at("count") == 1);
    CHECK(refused.at("quota") == 1);
    CHECK(refused.at("cost") == 1);
    CHECK(refused.at("retry_after").get<int>() > 3000);
    for (const char* name : {"limited_identifier", "count", "quota", "cost", "retry_after"}) {
        CHECK_FALSE(admitted.contains(name));
    }
    CHECK_FALSE(refused.contains("tier"));
    CHECK(refused.at("id") != admitted.at("id"));
}

TEST_CASE("access log: a refusal names whose limit it was, of which tier, and how much was taken") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() + "threads: 1\n" +
        "identity: {client_ip: {trusted_proxies: [127.0.0.1]}, "
        "user: [{header: {name: x-user-id, tier_header: x-user-tier, from: trusted_proxies}}]}\n" +
        api(upstream,
            "policies:\n"
            "  wide: {key: [ip], limits: [1000/h]}\n"
            "  plan: {key: [user], limits: [5/h], tiers: {pro: [8/h]}}\n"
            "  bucket: {key: [\"query:k\"], limits: [{quota: 100, per: 1h, algorithm: gcra, "
            "burst: 2}]}\n"
            "routes:\n"
            "  - {name: dear, match: {path: /dear/*}, cost: 3, policies: [wide, plan]}\n"
            "  - {name: burst, policies: [bucket]}\n"));
    const std::string alice = "X-User-Id: alice\r\nX-User-Tier: pro\r\n";
    for (int i = 0; i < 2; ++i) CHECK(tidegate.get("/dear/a", alice).status() == 200);
    // The second is remembered, with Redis.
    for (const std::string path : {"/dear/first", "/dear/second"}) {
        const Message answer = tidegate.get(path, alice);
        CHECK(answer.status() == 429);
        const json line = logged(tidegate, path);
        CHECK(line.at("limited_by") == "plan-1h");
        CHECK(line.at("limited_identifier") == "user:alice");
        CHECK(line.at("tier") == "pro");
        CHECK(line.at("count") == 6);
        CHECK(line.at("quota") == 8);
        CHECK(line.at("cost") == 3);
        CHECK(std::to_string(line.at("retry_after").get<int>()) == answer.field("Retry-After"));
    }
    for (int i = 0; i < 3; ++i) tidegate.get("/burst?k=a");
    for (const json& line : tidegate.access_log(7)) {
        if (line.at("status") != 429 || line.at("path") != "/burst") continue;
        CHECK(line.at("count") == 2);
        CHECK(line.at("quota") == 2);
        CHECK_FALSE(line.contains("tier"));
    }
}

TEST_CASE("access log: the identifier of a refusal shows no secret") {
    const Upstream upstream(ok());
    // Lines of one thread stay in their order.
    const Tidegate tidegate(
        "threads: 1\n" + one_policy(upstream, "{key: [\"header:authorization\"], limits: [1/h]}"));
    for (int i = 0; i < 2; ++i) tidegate.get("/", "Authorization: Token s3cr3t\r\n");
    const auto lines = tidegate.access_log(2);
    REQUIRE(lines.size() == 2);
    const std::string identifier = lines[1].at("limited_identifier");
    CHECK(lines[1].at("identifiers") == json::array({identifier}));
    CHECK(lines[1].dump().find("s3cr3t") == std::string::npos);
}

TEST_CASE("access log: a denial in shadow is never left out of a sample, and says what it was") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string path = folder.path() / "sampled.log";
    const Tidegate tidegate("threads: 1\nlog: {access: {path: \"" + path + "\", sample: 0}}\n" +
                            api(upstream,
                                "policies:\n"
                                "  real: {key: [ip], limits: [5/h]}\n"
                                "  trial: {key: [\"query:k\"], limits: [2/h], mode: shadow}\n"
                                "routes: [{name: all, policies: [real, trial]}]\n"));
    for (int i = 0; i < 6; ++i) tidegate.get("/?k=a");
    // 3 that shadow would have refused, and the one that was.
    const auto lines_now = [&] {
        std::vector<json> read;
        std::istringstream text(read_file(path));
        for (std::string line; std::getline(text, line);) read.push_back(json::parse(line));
        return read;
    };
    await("the last line is there",
          [&] { return read_file(path).find("\"status\":429") != std::string::npos; });
    const auto lines = lines_now();
    REQUIRE(lines.size() == 4);
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(lines[i].at("status") == 200);
        CHECK(lines[i].at("limited_by") == "");
        CHECK(lines[i].at("shadow_limited_by") == "trial-1h");
        CHECK(lines[i].at("limited_identifier") == "query:k=a");
        CHECK(lines[i].at("count") == 2);
        CHECK(lines[i].at("quota") == 2);
        CHECK(lines[i].at("cost") == 1);
        CHECK_FALSE(lines[i].contains("retry_after"));
    }
    CHECK(lines[3].at("status") == 429);
    CHECK(lines[3].at("limited_by") == "real-1h");
    CHECK(lines[3].at("limited_identifier") == "ip:127.0.0.1");
    CHECK(lines[3].at("quota") == 5);
    CHECK(lines[3].at("shadow_limited_by") == "trial-1h");
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
