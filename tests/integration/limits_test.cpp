// What a client learns about its limits, and that they hold: counts in the process.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::limits_test {

namespace {

// The parameter `name` of the item `item` in a structured list: `"a";r=1;t=2, "b";r=3`.
std::string parameter(const std::string& list, const std::string& item, const std::string& name) {
    auto begin = list.find('"' + item + '"');
    if (begin == std::string::npos) return "no item";
    const auto end = std::min(list.find(',', begin), list.size());
    begin = list.find(';' + name + '=', begin);
    if (begin >= end) return "no parameter";
    begin += name.size() + 2;
    return list.substr(begin, list.find_first_of(";,", begin) - begin);
}

std::string policy(const std::string& upstream, const std::string& limits) {
    return "upstreams: {api: {servers: [" + upstream +
           "]}}\npolicies: {clients: {key: [ip], limits: [" + limits +
           "]}}\nroutes: [{name: all, match: {path: \"/**\"}, upstream: api, policies: "
           "[clients]}]\n";
}

}  // namespace

TEST_CASE("limits: five an hour admits five, and the sixth answer says why and when to return") {
    const Upstream upstream(ok("hello"));
    const Tidegate tidegate(simple(upstream.url(), "5/h"));
    for (int left = 4; left >= 0; --left) {
        const auto answer = tidegate.get();
        CHECK(answer.status() == 200);
        CHECK(answer.body == "hello");
        const auto counts = answer.field("RateLimit");
        CHECK(parameter(counts, "default-1h", "r") == std::to_string(left));
        CHECK(std::stoi(parameter(counts, "default-1h", "t")) > 0);
        CHECK(std::stoi(parameter(counts, "default-1h", "t")) <= 3600);
        CHECK(answer.field("RateLimit-Policy") == "\"default-1h\";q=5;w=3600");
        CHECK_FALSE(answer.has("Retry-After"));
    }
    const auto refusal = tidegate.get();
    CHECK(refusal.status() == 429);
    const int wait = std::stoi(refusal.field("Retry-After"));
    CHECK(wait > 3600 - 120);
    CHECK(wait <= 3600);
    CHECK(wait >= std::stoi(parameter(refusal.field("RateLimit"), "default-1h", "t")));
    CHECK(parameter(refusal.field("RateLimit"), "default-1h", "r") == "0");
    CHECK(refusal.has("X-Request-Id"));
    CHECK(refusal.field("Content-Type") == "application/problem+json");
    const auto problem = nlohmann::json::parse(refusal.body);
    CHECK(problem.at("type") == "https://iana.org/assignments/http-problem-types#quota-exceeded");
    CHECK(problem.at("status") == 429);
    CHECK(problem.at("violated-policies") == nlohmann::json::array({"default-1h"}));
    CHECK(upstream.requests() == 5);
}

TEST_CASE("limits: each limit is one item, under its own name or its policy's and window's") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        policy(upstream.url(), "10/day, {name: burst, quota: 3, per: 1h}, {quota: 9, per: 500ms}"));
    const auto answer = tidegate.get();
    const auto policies = answer.field("RateLimit-Policy");
    CHECK(parameter(policies, "clients-1day", "q") == "10");
    CHECK(parameter(policies, "clients-1day", "w") == "86400");
    CHECK(parameter(policies, "clients-burst", "q") == "3");
    CHECK(parameter(policies, "clients-500ms", "q") == "9");
    CHECK(parameter(policies, "clients-500ms", "w") == "no parameter");
    CHECK(parameter(answer.field("RateLimit"), "clients-burst", "r") == "2");
}

TEST_CASE("limits: a denied request takes nothing from the limits that would have let it pass") {
    const Upstream upstream(ok());
    const Tidegate tidegate(policy(upstream.url(),
                                   "{name: small, quota: 2, per: 1h}, {name: large, quota: 10, "
                                   "per: 1day}"));
    for (int i = 0; i < 2; ++i) CHECK(tidegate.get().status() == 200);
    for (int i = 0; i < 20; ++i) {
        const auto refusal = tidegate.get();
        CHECK(refusal.status() == 429);
        CHECK(parameter(refusal.field("RateLimit"), "clients-large", "r") == "8");
        CHECK(nlohmann::json::parse(refusal.body).at("violated-policies") ==
              nlohmann::json::array({"clients-small"}));
    }
}

TEST_CASE("limits: a client that waits for Retry-After passes") {
    const Upstream upstream(ok());
    const Tidegate tidegate(policy(
        upstream.url(), "{quota: 2, per: 1s, algorithm: fixed_window, anchor: first_request}"));
    auto client = tidegate.client();
    CHECK(client.get().status() == 200);
    CHECK(client.get().status() == 200);
    const auto refusal = client.get();
    CHECK(refusal.status() == 429);
    CHECK(refusal.field("Retry-After") == "1");
    std::this_thread::sleep_for(milliseconds{1050});
    CHECK(client.get().status() == 200);
}

TEST_CASE("limits: a connection stays usable after a refusal, of a GET, a HEAD and a POST") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "1/h"));
    auto client = tidegate.client();
    CHECK(client.get().status() == 200);
    CHECK(client.get().status() == 429);
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    const auto head = client.response_to_head();
    CHECK(head.status() == 429);
    CHECK(head.has("Retry-After"));
    CHECK(client.ask(post_request("/", "small")).status() == 429);
    CHECK(client.get().status() == 429);
    CHECK(upstream.requests() == 1);
}

TEST_CASE("limits: eight connections on two threads share one count") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "50/h"));
    std::atomic<int> admitted{0};
    std::atomic<int> refused{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i) {
        clients.emplace_back([&] {
            auto client = tidegate.client();
            for (int n = 0; n < 25; ++n) {
                const int status = client.get().status();
                if (status == 200) ++admitted;
                if (status == 429) ++refused;
            }
        });
    }
    for (auto& client : clients) client.join();
    CHECK(admitted == 50);
    CHECK(refused == 150);
    CHECK(upstream.requests() == 50);
}

TEST_CASE("limits: addresses are counted apart") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "1/h"));
    CHECK(tidegate.get("/", "", "127.0.0.1").status() == 200);
    CHECK(tidegate.get("/", "", "127.0.0.2").status() == 200);
    CHECK(tidegate.get("/", "", "127.0.0.1").status() == 429);
    CHECK(tidegate.get("/", "", "127.0.0.2").status() == 429);
}

TEST_CASE("limits: a request is charged to its address and its user, and to both or neither") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "identity: {client_ip: {trusted_proxies: [127.0.0.2]}, user: [{header: {name: x-user-id, "
        "from: trusted_proxies}}]}\n" +
        simple(upstream.url(), "2/h"));
    const auto ask = [&](const std::string& client, const std::string& user) {
        return tidegate
            .get("/", "X-Forwarded-For: " + client + "\r\nX-User-Id: " + user + "\r\n", "127.0.0.2")
            .status();
    };
    CHECK(ask("192.0.2.1", "alice") == 200);
    CHECK(ask("192.0.2.2", "alice") == 200);
    CHECK(ask("192.0.2.3", "alice") == 429);  // the user is full, the address takes nothing
    CHECK(ask("192.0.2.3", "bob") == 200);
    CHECK(ask("192.0.2.3", "carol") == 200);
    CHECK(ask("192.0.2.3", "dave") == 429);
}

TEST_CASE("limits: a client that is not trusted cannot choose its name") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "identity: {client_ip: {trusted_proxies: [127.0.0.2]}, user: [{header: {name: x-user-id, "
        "from: trusted_proxies}}]}\n" +
        simple(upstream.url(), "3/h"));
    int admitted = 0;
    for (int i = 0; i < 10; ++i) {
        const auto name = std::to_string(i);
        const auto answer =
            tidegate.get("/", "X-User-Id: u" + name + "\r\nX-Forwarded-For: 192.0.2." + name +
                                  "\r\nForwarded: for=192.0.2." + name + "\r\n");
        if (answer.status() == 200) ++admitted;
    }
    CHECK(admitted == 3);
    CHECK_FALSE(upstream.last().has("X-User-Id"));
}

TEST_CASE("limits: routes choose policies and costs by path, method, host and header") {
    const Upstream upstream(ok());
    const auto api = ", upstream: api";
    const Tidegate tidegate(
        "upstreams: {api: {servers: [" + upstream.url() + "]}}\n" +
        "policies: {dear: {key: [ip], limits: [12/h]}, cheap: {key: [ip], limits: [2/h]}}\n" +
        "routes:\n" +
        "  - {name: search, match: {path: /search, methods: [GET]}, cost: 5, policies: [dear]" +
        api + "}\n" +
        "  - {name: beta, match: {path: \"/v1/**\", host: beta.test, headers: {x-beta: \"1\"}}, "
        "policies: [cheap]" +
        api + "}\n" + "  - {name: rest, match: {path: \"/v1/**\"}, policies: []" + api + "}\n");
    CHECK(tidegate.get("/search").status() == 200);
    CHECK(tidegate.get("/search?q=2").status() == 200);
    const auto refusal = tidegate.get("/search");
    CHECK(refusal.status() == 429);
    CHECK(parameter(refusal.field("RateLimit"), "dear-1h", "r") == "2");

    const auto beta = [&](const std::string& fields) {
        auto client = tidegate.client();
        return client.ask("GET /v1/a HTTP/1.1\r\n" + fields + "\r\n");
    };
    CHECK(beta("Host: BETA.test.:8080\r\nX-Beta: 1\r\n").status() == 200);
    CHECK(beta("Host: beta.test\r\nX-Beta: 1\r\n").status() == 200);
    CHECK(beta("Host: beta.test\r\nX-Beta: 1\r\n").status() == 429);
    CHECK(beta("Host: beta.test\r\nX-Beta: 2\r\n").status() == 200);
    const auto rest = beta("Host: other.test\r\nX-Beta: 1\r\n");
    CHECK(rest.status() == 200);
    CHECK_FALSE(rest.has("RateLimit"));
    CHECK_FALSE(rest.has("RateLimit-Policy"));
    CHECK(tidegate.get("/elsewhere").status() == 404);
}

TEST_CASE("limits: a path that reads as two routes does not choose the cheaper one") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "upstreams: {api: {servers: [" + upstream.url() + "]}}\n" +
        "policies: {tight: {key: [ip], limits: [1/h]}}\n" +
        "routes:\n  - {name: login, match: {path: /login}, upstream: api, policies: [tight]}\n" +
        "  - {name: rest, match: {path: \"/**\"}, upstream: api, policies: []}\n");
    CHECK(tidegate.get("/login").status() == 200);
    for (const std::string path : {"/%6Cogin", "/x/../login", "/login/", "/./login", "//login",
                                   "/login;a=1", "/x%2F..%2Flogin", "/login%00", "/%zz"}) {
        CAPTURE(path);
        const int status = tidegate.get(path).status();
        CHECK((status == 429 || status == 400));
    }
    CHECK(upstream.requests() == 1);
}

TEST_CASE("limits: the upstream's own rate limit fields are replaced") {
    const Upstream upstream(
        ok("ok", "RateLimit: \"fake\";r=1000\r\nRateLimit-Policy: \"fake\";q=1000\r\n"));
    const Tidegate tidegate(simple(upstream.url(), "5/h"));
    const auto answer = tidegate.get();
    CHECK(answer.count("RateLimit") == 1);
    CHECK(answer.count("RateLimit-Policy") == 1);
    CHECK(answer.field("RateLimit").find("fake") == std::string::npos);
    CHECK(answer.field("RateLimit-Policy").find("fake") == std::string::npos);
}

TEST_CASE("limits: a refusal has the configured status and body") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "response: {status: 503, headers: [retry-after, x-ratelimit], body: {content_type: "
        "text/plain, text: \"wait {retry_after} for {policy} {limit}\"}}\n" +
        simple(upstream.url(), "1/h"));
    CHECK(tidegate.get().field("X-RateLimit-Limit") == "1");
    const auto refusal = tidegate.get();
    CHECK(refusal.status() == 503);
    CHECK(refusal.field("Content-Type") == "text/plain");
    CHECK(refusal.body.rfind("wait " + refusal.field("Retry-After") + " for default ", 0) == 0);
    CHECK(refusal.field("X-RateLimit-Remaining") == "0");
    CHECK_FALSE(refusal.has("RateLimit"));
}

TEST_CASE("limits: libraries of models get fields and refusals in their provider's form") {
    const Upstream upstream(
        ok("ok", "x-ratelimit-remaining-requests: 9\r\nAnthropic-RateLimit-Tokens-Limit: 9\r\n"));
    const Tidegate openai("response: {headers: openai, body: openai}\n" +
                          simple(upstream.url(), "1/h"));
    const auto answer = openai.get();
    CHECK(answer.count("x-ratelimit-remaining-requests") == 1);
    CHECK(answer.field("x-ratelimit-limit-requests") == "1");
    CHECK(answer.field("x-ratelimit-remaining-requests") == "0");
    CHECK(answer.field("x-ratelimit-reset-requests").find('s') != std::string::npos);
    CHECK(answer.field("anthropic-ratelimit-tokens-limit") == "9");
    const auto refusal = openai.get();
    CHECK(refusal.status() == 429);
    CHECK(refusal.has("Retry-After"));
    CHECK(refusal.field("Content-Type") == "application/json");
    CHECK(refusal.body.find(R"("type":"requests","param":null,"code":"rate_limit_exceeded"}})") !=
          std::string::npos);

    const Tidegate anthropic(
        "response: {headers: [anthropic]}\n"
        "policies: {day: {key: [ip], limits: [1/day], body: anthropic}}\n"
        "default_policies: [day]\n"
        "upstreams: {a: {servers: [" +
        upstream.url() + "]}}\nroutes: [{policies: []}]\n");
    const auto moment = anthropic.get().field("anthropic-ratelimit-requests-reset");
    CHECK(moment.size() == std::string_view("2026-11-21T10:00:00Z").size());
    const auto other = anthropic.get();
    CHECK(other.has("Retry-After"));
    CHECK(other.body.starts_with(R"({"type":"error","error":{"type":"rate_limit_error",)"));
}

TEST_CASE("limits: openai's refusal by a limit of a day says insufficient_quota") {
    const Upstream upstream(ok());
    const Tidegate tidegate("response: {headers: [], body: openai}\n" +
                            simple(upstream.url(), "1/day"));
    CHECK_FALSE(tidegate.get().has("x-ratelimit-limit-requests"));
    const auto refusal = tidegate.get();
    CHECK(refusal.has("Retry-After"));
    CHECK(refusal.body.find(R"("code":"insufficient_quota"}})") != std::string::npos);
    CHECK(refusal.field("x-should-retry") == "false");
}

TEST_CASE("limits: a refusal for more than a minute asks libraries of models not to retry") {
    const Upstream upstream(ok("ok", "x-should-retry: true\r\n"));
    const auto refused = [&](const std::string& response, const std::string& limit) {
        const Tidegate tidegate("response: {" + response + "}\n" + simple(upstream.url(), limit));
        if (!limit.starts_with('0')) CHECK(tidegate.get().field("x-should-retry") == "true");
        const auto refusal = tidegate.get();
        CHECK(refusal.status() == 429);
        return refusal;
    };
    for (const std::string response : {"headers: [openai]", "headers: [anthropic]",
                                       "headers: [], body: openai", "body: anthropic"}) {
        CAPTURE(response);
        CHECK_FALSE(refused(response, "1/min").has("x-should-retry"));
        const auto later = refused(response, "1/h");
        CHECK(later.field("x-should-retry") == "false");
        CHECK(later.has("Retry-After"));
        // No wait helps: without the field, a library would try again at once.
        const auto never = refused(response, "0/h");
        CHECK(never.field("x-should-retry") == "false");
        CHECK_FALSE(never.has("Retry-After"));
    }
    CHECK_FALSE(refused("headers: [ratelimit, retry-after]", "1/h").has("x-should-retry"));
}

TEST_CASE("limits: without retry-after among the headers there is none, whatever the body says") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "response: {headers: [ratelimit], body: {content_type: text/plain, text: \"wait "
        "{retry_after}\"}}\n" +
        simple(upstream.url(), "1/h"));
    CHECK(tidegate.get().status() == 200);
    const auto refusal = tidegate.get();
    CHECK(refusal.status() == 429);
    CHECK_FALSE(refusal.has("Retry-After"));
    CHECK(refusal.has("RateLimit"));
    CHECK(refusal.body.rfind("wait ", 0) == 0);
    CHECK(refusal.body != "wait 0");
}

TEST_CASE("limits: a quota of 0 refuses, and does not say when to come back") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "0/h"));
    const auto refusal = tidegate.get();
    CHECK(refusal.status() == 429);
    CHECK_FALSE(refusal.has("Retry-After"));
}

}  // namespace tidegate::test::limits_test
