#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/doc.hpp"
#include "cli/explain.hpp"
#include "identity/key_source.hpp"

namespace tidegate::cli::explain_test {
namespace {

using nlohmann::json;
using KeyOutcome = ask::ChargeNotes::KeyOutcome;
using PolicyOutcome = ask::ChargeNotes::Outcome;
using Kind = identity::Hop::Kind;

constexpr const char* kGateway = R"(
identity:
  client_ip: {trusted_proxies: [10.0.0.0/8]}
  user: [header: {name: x-user-id, from: trusted_proxies}]
upstreams:
  api: {servers: [http://127.0.0.1:3000]}
policies:
  per-client: {key: [ip, user], limits: [10/s, {quota: 240, per: 1h, algorithm: gcra}]}
  per-user-or-ip: {key: ["user|ip"], limits: [20/s], exempt: [192.0.2.0/24]}
  tenants:
    key: ["header:x-tenant+route"]
    limits: [1000/min]
    tiers: {pro: [5000/min], internal: unlimited}
  guarded: {key: [ip], limits: [1/s], deny: [198.51.100.0/24]}
  watched: {key: ["header:x-watched"], limits: [50/s], mode: shadow}
routes:
  - {name: login, match: {path: /login, methods: [POST]}, policies: [guarded]}
  - {name: other-host, match: {path: "/**", host: b.example}, policies: []}
  - {name: beta, match: {path: /search, headers: {x-beta: "1"}}, policies: []}
  - {name: search, match: {path: /search}, policies: [per-client, watched],
     cost: {header: x-cost, from: trusted_proxies, default: 3, min: 1, max: 10}}
  - {name: tenant, match: {path: "/tenant/{id}"}, policies: [tenants, per-user-or-ip]}
  - {name: free, match: {path: /free}, policies: []}
)";

ExplainQuestion from(const std::string& address, const std::string& target = "/search",
                     std::vector<std::string> fields = {}) {
    ExplainQuestion question;
    question.target = target;
    question.fields = std::move(fields);
    question.from = parse_scoped_ip(address);
    REQUIRE(question.from);
    return question;
}

std::shared_ptr<const config::Config> read(const std::string& yaml) {
    const auto loaded = config::load_text(yaml, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return loaded.config;
}

void never_fetch(const std::shared_ptr<identity::KeySource>&) {
    FAIL("keys are not needed");
}

Explanation explained(const ExplainQuestion& question, const std::string& yaml = kGateway) {
    return explain(read(yaml), question, never_fetch);
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST_CASE("explain: a peer that is not trusted is the client, and its fields are not looked at") {
    const auto told = explained(
        from("203.0.113.7", "/search", {"X-Forwarded-For: 192.0.2.1", "X-User-Id: alice"}));
    CHECK(told.peer == "203.0.113.7");
    CHECK_FALSE(told.trusted);
    CHECK(told.hops.empty());
    CHECK(told.client == "203.0.113.7");
    CHECK_FALSE(told.user);
    REQUIRE(told.methods.size() == 1);
    CHECK(told.methods[0].text == "header x-user-id");
    CHECK(told.methods[0].outcome == Explanation::Method::Outcome::disbelieved);
}

TEST_CASE("explain: each hop that was walked is listed with its verdict") {
    const auto told = explained(from("10.0.0.1", "/search",
                                     {"X-Forwarded-For: 192.0.2.1, 203.0.113.7:80",
                                      "X-Forwarded-For: 10.0.0.2", "X-User-Id: alice"}));
    CHECK(told.trusted);
    CHECK(told.trusted_network == "10.0.0.0/8");
    REQUIRE(told.hops.size() == 2);
    CHECK(told.hops[0].text == "10.0.0.2");
    CHECK(told.hops[0].kind == Kind::trusted);
    CHECK(told.hops[1].text == "203.0.113.7:80");
    CHECK(told.hops[1].address == "203.0.113.7");
    CHECK(told.hops[1].kind == Kind::client);
    CHECK(told.client == "203.0.113.7");
    REQUIRE(told.user);
    CHECK(told.user->name == "alice");
    CHECK(told.methods[0].outcome == Explanation::Method::Outcome::valid);
}

TEST_CASE("explain: a trusted Unix socket has no address, but may name clients") {
    ExplainQuestion question;
    question.target = "/search";
    question.fields = {"X-Forwarded-For: 203.0.113.7"};
    const auto told = explained(question);
    CHECK(told.peer.empty());
    CHECK(told.trusted);
    CHECK(told.client == "203.0.113.7");
    question.fields.clear();
    CHECK_FALSE(explained(question).client);
}

TEST_CASE("explain: the first route that fits, and why those before it did not") {
    const auto told = explained(from("203.0.113.7"));
    CHECK(told.route == "search");
    CHECK(told.upstream == "api");
    REQUIRE(told.passed.size() == 2);
    CHECK(told.passed[0].name == "other-host");
    CHECK(told.passed[0].because == routing::Mismatch::host);
    CHECK(told.passed[1].name == "beta");
    CHECK(told.passed[1].because == routing::Mismatch::headers);
    CHECK(told.other_paths == 1);
    CHECK(explained(from("203.0.113.7", "/search", {"X-Beta: 1"})).route == "beta");
    ExplainQuestion other = from("203.0.113.7");
    other.host = "B.example:80";
    CHECK(explained(other).route == "other-host");
}

TEST_CASE("explain: without a route, it names the client all the same") {
    const auto told = explained(from("10.0.0.1", "/login", {"X-Forwarded-For: 203.0.113.7"}));
    CHECK_FALSE(told.route);
    REQUIRE(told.passed.size() == 2);
    CHECK(told.passed[0].name == "login");
    CHECK(told.passed[0].because == routing::Mismatch::method);
    CHECK(told.client == "203.0.113.7");
    CHECK(told.refusal == 404);
    CHECK(told.policies.empty());
    CHECK_FALSE(told.cost);
}

TEST_CASE("explain: a path with two meanings is shown in all of them") {
    const auto told = explained(from("203.0.113.7", "/x%2F..%2Fsearch"));
    CHECK(told.refusal == 400);
    REQUIRE(told.readings.size() >= 2);
    CHECK(told.readings[0].route.empty());
    bool found = false;
    for (const auto& reading : told.readings) {
        if (reading.path == "/search") found = reading.route == "search";
    }
    CHECK(found);
    CHECK(explained(from("203.0.113.7", "/%zz")).refusal == 400);
}

TEST_CASE("explain: a path or method that is refused for its case says so") {
    const auto told = explained(from("203.0.113.7", "/SEARCH"));
    CHECK(told.refusal == 400);
    CHECK(told.refusal_reason.find("if the case of its letters is ignored") != std::string::npos);
    REQUIRE(told.readings.size() == 2);
    CHECK(told.readings[0].route.empty());
    CHECK(told.readings[1].route == "search");
    CHECK(told.readings[1].ignoring_case);
    CHECK(doc_of(told).text().find("route search, if case is ignored") != std::string::npos);
    ExplainQuestion get = from("203.0.113.7");
    get.method = "get";
    CHECK(explained(get).refusal == 400);
    CHECK(explained(get).refusal_reason == "The method differs from a known one only in case.");
}

TEST_CASE("explain: a request that the proxy would not read is refused with the same words") {
    const struct {
        ExplainQuestion question;
        int status;
        std::string reason;
    } cases[] = {
        {from("203.0.113.7", "/a b"), 400, "request line"},
        {from("203.0.113.7", "search"), 400, "target"},
        {from("203.0.113.7", "/search", {"X Y: 1"}), 400, "field"},
        {from("203.0.113.7", "/search", {"Host: a", "Host: b"}), 400, "Host"},
        {from("203.0.113.7", "/search", {"Content-Length: 1", "Content-Length: 2"}), 400,
         "Content-Length"},
        {from("203.0.113.7", "/" + std::string(9'000, 'a')), 414, ""},
        {from("203.0.113.7", "/search", {"X: " + std::string(40'000, 'a')}), 431, ""},
        {from("203.0.113.7", "/search", std::vector<std::string>(200, "X: 1")), 431, ""},
    };
    for (const auto& [question, status, reason] : cases) {
        const auto told = explained(question);
        CHECK(told.refusal == status);
        CHECK_MESSAGE(has(told.refusal_reason, reason), told.refusal_reason);
        CHECK_FALSE(told.is_identified);
        CHECK(has(doc_of(told).text(), "result"));
        CHECK(json::parse(doc_of(told).json_text())["result"]["status"] == status);
    }
    ExplainQuestion connect = from("203.0.113.7", "a.example:443");
    connect.method = "CONNECT";
    CHECK(explained(connect).refusal == 501);
}

TEST_CASE("explain: policies with their keys, identifiers, limits, and the cost") {
    const auto told = explained(
        from("10.0.0.1", "/search",
             {"X-Forwarded-For: 203.0.113.7", "X-User-Id: alice", "X-Cost: 7", "X-Watched: w"}));
    CHECK(told.refusal == 0);
    REQUIRE(told.policies.size() == 2);
    const auto& first = told.policies[0];
    CHECK(first.name == "per-client");
    CHECK(first.outcome == PolicyOutcome::counted);
    REQUIRE(first.keys.size() == 2);
    CHECK(first.keys[0].text == "ip");
    CHECK(first.keys[0].identifiers == std::vector<std::string>{"ip:203.0.113.7"});
    CHECK(first.keys[1].identifiers == std::vector<std::string>{"user:alice"});
    REQUIRE(first.limits.size() == 2);
    CHECK(first.limits[0].name == "per-client-1s");
    CHECK(first.limits[0].limit.quota == 10);
    CHECK(told.policies[1].mode == "shadow");
    CHECK(told.policies[1].keys[0].identifiers == std::vector<std::string>{"header:x-watched=w"});
    REQUIRE(told.cost);
    CHECK(told.cost->units == 7);
    CHECK(told.cost->why == "stated by the request");
    CHECK(told.identifiers == 3);
    CHECK(told.limits == 5);
}

TEST_CASE("explain: a cost that is not taken says why") {
    const auto cost = [](const std::string& peer, std::vector<std::string> fields) {
        return explained(from(peer, "/search", std::move(fields))).cost.value();
    };
    CHECK(cost("203.0.113.7", {}).why == "of the route");
    CHECK(has(std::string(cost("203.0.113.7", {"X-Cost: 7"}).why), "not believed"));
    CHECK(cost("203.0.113.7", {"X-Cost: 7"}).units == 3);
    CHECK(has(std::string(cost("10.0.0.1", {"X-Cost: 11"}).why), "out of bounds"));
    CHECK(has(std::string(cost("10.0.0.1", {"X-Cost: 0x7"}).why), "not one whole number"));
    CHECK(has(std::string(cost("10.0.0.1", {"X-Cost: 7", "X-Cost: 7"}).why), "not one whole"));
}

TEST_CASE("explain: clients that a policy exempts, denies or cannot count") {
    auto told = explained(from("192.0.2.1", "/tenant/1", {"X-Tenant: acme"}));
    REQUIRE(told.policies.size() == 2);
    CHECK(told.policies[0].keys[0].identifiers ==
          std::vector<std::string>{"20:header:x-tenant=acme+12:route:tenant"});
    CHECK(told.policies[1].outcome == PolicyOutcome::exempt);
    CHECK(told.identifiers == 1);

    told = explained(from("203.0.113.7", "/tenant/1"));
    REQUIRE(told.policies.size() == 1);
    CHECK(told.policies[0].outcome == PolicyOutcome::no_identifier);
    CHECK(told.policies[0].keys[0].outcome == KeyOutcome::rejected);
    CHECK(told.refusal == 400);

    told = explained(from("203.0.113.7", "/tenant/1", {"X-Tenant: a", "X-Tenant: b"}));
    CHECK(told.policies[0].outcome == PolicyOutcome::unclear);
    CHECK(told.refusal == 400);

    ExplainQuestion login = from("198.51.100.1", "/login");
    login.method = "POST";
    told = explained(login);
    REQUIRE(told.policies.size() == 1);
    CHECK(told.policies[0].outcome == PolicyOutcome::denied);
    CHECK(told.refusal == 403);

    // A policy in shadow refuses no client.
    told = explained(from("203.0.113.7"));
    CHECK(told.refusal == 0);
    CHECK(told.policies[1].outcome == PolicyOutcome::no_identifier);
    CHECK(told.identifiers == 1);

    told = explained(from("203.0.113.7", "/free"));
    CHECK(told.route == "free");
    CHECK_FALSE(told.cost);
    CHECK(has(doc_of(told).text(), "no limit applies"));
}

TEST_CASE("explain: a schedule in shadow is left out when the moment will not do") {
    const std::string yaml = R"(
upstreams: {api: {servers: [http://127.0.0.1:3000]}}
policies:
  sends: {key: [ip], mode: shadow,
          limits: [{quota: 5, per: 1h, algorithm: schedule, at: {header: x-send-at}}]}
routes: [{name: all, match: {path: "/**"}, policies: [sends]}]
)";
    const auto told = explained(from("203.0.113.7"), yaml);
    CHECK(told.refusal == 0);
    REQUIRE(told.policies.size() == 1);
    CHECK(told.policies[0].left_out);
    CHECK(json::parse(doc_of(told).json_text())["policies"][0]["outcome"] == "left_out");
    CHECK_FALSE(explained(from("203.0.113.7", "/", {"X-Send-At: 1"}), yaml).policies[0].left_out);
}

TEST_CASE("explain: nothing that a client wrote commands a terminal, and no query is shown") {
    const auto told =
        explained(from("10.0.0.1", "/search?token=hush",
                       {"X-Forwarded-For: \x1b[2J", "X-User-Id: \xc3\xa9", "X-Watched: \xff"}));
    for (const std::string& text : {doc_of(told).text(), doc_of(told).json_text()}) {
        CHECK_FALSE(has(text, "\x1b"));
        CHECK_FALSE(has(text, "hush"));
        for (const char c : text) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
    }
}

TEST_CASE("explain: a fact a line, aligned, each with its reason") {
    const auto told = explained(from("10.0.0.1", "/search",
                                     {"X-Forwarded-For: unknown, 10.0.0.2", "X-User-Id: alice",
                                      "Host: a.example", "X-Watched: w"}));
    CHECK(doc_of(told).text() ==
          R"(request   GET /search                       for host a.example
peer      10.0.0.1                          trusted: in 10.0.0.0/8 of trusted_proxies
hop       10.0.0.2                          trusted: the entry before it counts
hop       unknown                           not an address: the chain ends here
client    10.0.0.2                          the last good hop of x-forwarded-for
method    header x-user-id                  valid
user      alice                             by header x-user-id
no route  other-host                        the path matches; the host does not
no route  beta                              the path matches; the headers do not
route     search                            to upstream api
timeouts  response 30s, stream_idle 5min    of the upstream
policy    per-client                        counts it
  counts  ip:10.0.0.2                       by key ip
  counts  user:alice                        by key user
  limit   per-client-1s                     10 in 1s, sliding_window
  limit   per-client-1h-gcra                240 in 1h, gcra, burst 240
policy    watched                           counts it; shadow: refuses no request
  counts  header:x-watched=w                by key header:x-watched
  limit   watched-1s                        50 in 1s, sliding_window
cost      3                                 of the route
result    forwarded if the limits admit it  5 limits for 3 identifiers; nothing was charged
)");
}

TEST_CASE("explain: the JSON has the same facts") {
    const auto told =
        json::parse(doc_of(explained(from("10.0.0.1", "/search", {"X-Forwarded-For: 203.0.113.7"})))
                        .json_text());
    CHECK(told["request"] == json({{"method", "GET"},
                                   {"path", "/search"},
                                   {"host", "localhost"},
                                   {"protocol", "HTTP/1.1"}}));
    CHECK(told["peer"] ==
          json({{"address", "10.0.0.1"}, {"trusted", true}, {"network", "10.0.0.0/8"}}));
    CHECK(told["client"]["address"] == "203.0.113.7");
    CHECK(told["client"]["hops"][0]["kind"] == "client");
    CHECK(told["user"].is_null());
    CHECK(told["methods"][0]["outcome"] == "absent");
    CHECK(told["route"]["name"] == "search");
    CHECK(told["policies"][0]["limits"][1]["algorithm"] == "gcra");
    CHECK(told["policies"][0]["limits"][1]["duration_us"] == 3'600'000'000);
    CHECK(told["policies"][1]["mode"] == "shadow");
    CHECK(told["cost"]["units"] == 3);
    CHECK(told["result"] == json({{"outcome", "limited"}, {"identifiers", 1}, {"limits", 2}}));
}

TEST_CASE("explain: no part of a request commands the terminal") {
    ExplainQuestion question = from("203.0.113.7", "/x\x9b?a=\x1b[2J", {"X-A: \x1b[2J"});
    question.method = "GET\x1b[2J\u202e";
    const std::string text = doc_of(explained(question)).text();
    for (const char* hidden : {"\x1b", "\x9b", "\u202e"}) CHECK_FALSE(has(text, hidden));
}

TEST_CASE("explain: a preflight of a route with cors is charged to the limit of preflights alone") {
    const std::vector<std::string> fields{"Origin: https://evil.test",
                                          "Access-Control-Request-Method: PUT"};
    ExplainQuestion question = from("10.0.0.1", "/", fields);
    question.method = "OPTIONS";
    const std::string yaml =
        "identity: {client_ip: {trusted_proxies: [10.0.0.0/8]},"
        " user: [header: {name: x-user-id, from: trusted_proxies}]}\n"
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
        "routes: [{cost: 7, identity: required, policies: [{key: [ip, user], limits: [10/s]}]}]\n"
        "response: {cors: ";
    const Explanation told =
        explained(question, yaml + "{origins: [\"https://a.test\"], preflight: 5/s}}\n");
    CHECK(told.is_preflight);
    CHECK_FALSE(told.user);
    REQUIRE(told.policies.size() == 1);
    CHECK(told.policies[0].name == "preflight");
    CHECK(told.policies[0].keys.at(0).identifiers == std::vector<std::string>{"ip:10.0.0.1"});
    REQUIRE(told.cost);
    CHECK(told.cost->units == 1);
    CHECK(has(doc_of(told).text(), "a preflight needs no user"));
    CHECK(told.need_of_user.why.empty());
    CHECK_FALSE(told.need_of_user.is_needed);
    CHECK(json::parse(doc_of(told).json_text()).at("preflight") == true);
    // With a credential it is none, and without cors nothing is one.
    question.fields.push_back("X-User-Id: alice");
    for (const std::string cors : {"{origins: [\"https://a.test\"]}}\n", "off}\n"}) {
        const Explanation ordinary = explained(question, yaml + cors);
        CHECK_FALSE(ordinary.is_preflight);
        CHECK(ordinary.user);
        CHECK(ordinary.need_of_user.why == "by `identity` of the route");
        CHECK(ordinary.policies.at(0).name == "/**/0");
    }
}

}  // namespace
}  // namespace tidegate::cli::explain_test
