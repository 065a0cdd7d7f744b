// Tracing: which requests become spans, and whose traces they belong to.
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "free_port.hpp"
#include "integration/check_world.hpp"
#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"
#include "integration/tracing_world.hpp"

namespace tidegate::test::tracing_test {

using nlohmann::json;

namespace {

const std::string kTrace = "0af7651916cd43dd8448eb211c80319c";
const std::string kCaller = "b7ad6b7169203331";
const std::string kTrusting = "identity: {client_ip: {trusted_proxies: [127.0.0.1]}}\n";

std::string context(const std::string& flags = "01") {
    return "traceparent: 00-" + kTrace + "-" + kCaller + "-" + flags + "\r\n";
}

// What the upstream got, in the parts of `traceparent`.
struct Sent {
    explicit Sent(const Message& request) : value(request.field("traceparent")) {
        REQUIRE(value.size() == 55);
        trace = value.substr(3, 32);
        span = value.substr(36, 16);
        flags = value.substr(53);
    }
    std::string value;
    std::string trace;
    std::string span;
    std::string flags;
};

}  // namespace

TEST_CASE("tracing: a request is three spans of one trace, and the upstream's go on from its try") {
    const Upstream upstream(ok());
    const Collector collector;
    const Tidegate tidegate(simple(upstream.url(), "10/h") +
                            collector.tracing("sample: 1, service: edge, headers: "
                                              "{authorization: Bearer t0p}"));
    CHECK(tidegate.get("/orders/7?secret=1").status() == 200);
    CHECK_SOON(collector.spans().size() == 3);
    const json request = collector.requests().at(0);
    const json decide = collector.spans("decide").at(0);
    const json forward = collector.spans("forward").at(0);

    CHECK(request["kind"] == 2);
    CHECK_FALSE(request.contains("parentSpanId"));
    CHECK(request["flags"] == 1);
    CHECK(attribute(request, "http.request.method") == "GET");
    CHECK(attribute(request, "url.path") == "/orders/7");
    CHECK(attribute(request, "http.response.status_code") == "200");
    CHECK(attribute(request, "server.address") == "example.test");
    CHECK(request["name"] == "GET /**");
    CHECK(attribute(request, "http.route") == "/**");
    CHECK(attribute(request, "tidegate.route").is_string());
    CHECK(attribute(request, "tidegate.request_id") == upstream.last().field("X-Request-Id"));

    CHECK(decide["kind"] == 3);
    CHECK(decide["parentSpanId"] == request["spanId"]);
    CHECK(decide["traceId"] == request["traceId"]);
    CHECK(attribute(decide, "tidegate.store") == "memory");
    CHECK(attribute(decide, "tidegate.verdict") == "admitted");
    CHECK(attribute(decide, "tidegate.policies")["values"][0]["stringValue"] == "default");
    // SHA-256 of `ip:127.0.0.1`.
    CHECK(attribute(decide, "tidegate.identifiers")["values"][0]["stringValue"] ==
          "508cc0fe26185d71343b0aaa99a7a8c8a45392f278d5f16b37faef9bf114cc58");

    CHECK(forward["kind"] == 3);
    CHECK(forward["parentSpanId"] == request["spanId"]);
    CHECK(attribute(forward, "server.port") == std::to_string(upstream.port()));
    CHECK(attribute(forward, "http.response.status_code") == "200");
    const Sent sent(upstream.last());
    CHECK(sent.trace == request["traceId"]);
    CHECK(sent.span == forward["spanId"]);
    CHECK(sent.flags == "01");

    const Message batch = collector.server().last();
    CHECK(batch.start_line == "POST /v1/traces HTTP/1.1");
    CHECK(batch.field("Content-Type") == "application/json");
    CHECK(batch.field("Authorization") == "Bearer t0p");
    CHECK(batch.body.find("edge") != std::string::npos);
    CHECK(batch.body.find("secret") == std::string::npos);
    CHECK_SOON(spans_exported(tidegate) == 3);
}

TEST_CASE("tracing: a request is named by the path of its route, as OpenTelemetry does") {
    const Upstream upstream(ok());
    const Collector collector;
    const Tidegate tidegate(
        api(upstream,
            "policies: {p: {key: [ip], limits: [100/h]}}\n"
            "routes:\n"
            "  - {name: user, match: {path: \"/users/{id}\"}, policies: [p]}\n"
            "  - {name: old, match: {path: 'regex:/v\\d+/.*'}, policies: [p]}\n"
            "  - {name: files, match: {path: /files/**, methods: [GET]}, policies: [p]}\n") +
        collector.tracing());
    struct Expected {
        std::string path, name, route;
    };
    const Expected all[] = {{"/users/7", "GET /users/{id}", "user"},
                            {"/v2/x", R"(GET /v\d+/.*)", "old"},
                            {"/files/a/b", "GET /files/**", "files"}};
    for (const Expected& one : all) CHECK(tidegate.get(one.path).status() == 200);
    CHECK(tidegate.get("/nowhere").status() == 404);
    CHECK_SOON(collector.requests().size() == 4);
    for (const json& span : collector.requests()) {
        const std::string path = attribute(span, "url.path");
        CAPTURE(path);
        if (path == "/nowhere") {
            CHECK(span["name"] == "GET");
            CHECK(attribute(span, "http.route") == nullptr);
            CHECK(attribute(span, "tidegate.route") == nullptr);
            CHECK(attribute(span, "http.response.status_code") == "404");
            continue;
        }
        for (const Expected& one : all) {
            if (path != one.path) continue;
            CHECK(span["name"] == one.name);
            CHECK(attribute(span, "http.route") == one.name.substr(4));
            CHECK(attribute(span, "tidegate.route") == one.route);
            CHECK(attribute(span, "http.response.status_code") == "200");
        }
    }
}

TEST_CASE("tracing: a user is named by a hash only") {
    const Upstream upstream(ok());
    const Collector collector;
    const Tidegate tidegate(kUsersFromHere + one_policy(upstream, "{key: [user], limits: [5/h]}") +
                            collector.tracing());
    CHECK(tidegate.get("/", "X-User-Id: alice\r\n").status() == 200);
    CHECK_SOON(collector.spans("decide").size() == 1);
    // SHA-256 of `user:alice`.
    CHECK(attribute(collector.spans("decide").at(0),
                    "tidegate.identifiers")["values"][0]["stringValue"] ==
          "dabd1db8d35ab13106274f61f1bf977812cce4f477b15014cf38fb796c50a4c4");
    CHECK(collector.server().last().body.find("alice") == std::string::npos);
}

TEST_CASE("tracing: a client that is not trusted can neither join a trace nor have it sampled") {
    const Upstream upstream(ok());
    const Collector collector;
    const Tidegate tidegate(simple(upstream.url()) + collector.tracing("sample: 0"));
    CHECK(tidegate.get("/", context() + "tracestate: a=1\r\n").status() == 200);
    const Sent sent(upstream.last());
    CHECK(upstream.last().count("traceparent") == 1);
    CHECK(sent.trace != kTrace);
    CHECK(sent.flags == "00");
    CHECK_FALSE(upstream.last().has("tracestate"));
    CHECK(tidegate.get("/", context() + "TraceParent: x\r\n").status() == 200);
    CHECK(upstream.last().count("traceparent") == 1);
}

TEST_CASE("tracing: the trace of a trusted peer goes on, and its decision holds") {
    const Upstream upstream(ok());
    const Collector collector;
    const Tidegate recording(kTrusting + simple(upstream.url()) + collector.tracing("sample: 0"));
    CHECK(recording.get("/kept", context() + "tracestate: a=1\r\ntracestate: b=2, ,c=3\r\n")
              .status() == 200);
    const Sent sent(upstream.last());
    CHECK(sent.trace == kTrace);
    CHECK(sent.span != kCaller);
    CHECK(sent.flags == "01");
    CHECK(upstream.last().field("tracestate") == "a=1,b=2,c=3");
    CHECK_SOON(collector.requests().size() == 1);
    const json request = collector.requests().at(0);
    CHECK(request["traceId"] == kTrace);
    CHECK(request["parentSpanId"] == kCaller);
    CHECK(request["traceState"] == "a=1,b=2,c=3");

    const Collector other;
    const Tidegate all(kTrusting + simple(upstream.url()) + other.tracing("sample: 1"));
    CHECK(all.get("/not-sampled", context("00")).status() == 200);
    CHECK(Sent(upstream.last()).flags == "00");
    CHECK(all.get("/sampled", context("01")).status() == 200);
    CHECK_SOON(other.requests().size() == 1);
    CHECK(attribute(other.requests().at(0), "url.path") == "/sampled");
}

TEST_CASE("tracing: a malformed context of a trusted peer begins a trace anew") {
    const Upstream upstream(ok());
    const Tidegate tidegate(kTrusting + simple(upstream.url()) +
                            tracing_to(free_port(), "sample: 0"));
    const std::string begin = "traceparent: 00-" + kTrace + "-" + kCaller;
    for (const std::string& fields :
         {begin + "-1\r\n", begin + "-01-x\r\n", context() + context(),
          "traceparent: ff-" + kTrace + "-" + kCaller + "-01\r\n",
          "traceparent: 00-" + std::string(32, '0') + "-" + kCaller + "-01\r\n"}) {
        CAPTURE(fields);
        CHECK(tidegate.get("/", fields + "tracestate: a=1\r\n").status() == 200);
        const Sent sent(upstream.last());
        CHECK(sent.trace != kTrace);
        CHECK(sent.flags == "00");
        CHECK_FALSE(upstream.last().has("tracestate"));
    }
    CHECK(tidegate.get("/", context("03") + "tracestate: A=1\r\n").status() == 200);
    CHECK(Sent(upstream.last()).trace == kTrace);
    CHECK_FALSE(upstream.last().has("tracestate"));  // a malformed state is none
}

TEST_CASE("tracing: with `accept: anyone` every client's trace goes on") {
    const Upstream upstream(ok());
    const Collector collector;
    const Tidegate tidegate(simple(upstream.url()) +
                            collector.tracing("sample: 0, accept: anyone"));
    CHECK(tidegate.get("/", context()).status() == 200);
    CHECK(Sent(upstream.last()).trace == kTrace);
    CHECK_SOON(collector.requests().size() == 1);
}

TEST_CASE("tracing: without `tracing` both fields pass unchanged, valid or not") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    CHECK(tidegate.get("/", "traceparent: nonsense\r\ntracestate: A=1,,\r\n").status() == 200);
    CHECK(upstream.last().field("traceparent") == "nonsense");
    CHECK(upstream.last().field("tracestate") == "A=1,,");
    CHECK(tidegate.get("/", context()).status() == 200);
    CHECK(Sent(upstream.last()).trace == kTrace);
    CHECK(Sent(upstream.last()).span == kCaller);
    CHECK(tidegate.get("/").status() == 200);
    CHECK_FALSE(upstream.last().has("traceparent"));
    CHECK(tidegate.admin("/metrics")->body.find("tidegate_trace") == std::string::npos);
}

TEST_CASE("tracing: a request that tries two servers has a span for each") {
    const Upstream upstream(ok());
    const std::uint16_t dead = free_port();
    const Collector collector;
    const Tidegate tidegate(
        unlimited({"http://127.0.0.1:" + std::to_string(dead), upstream.url()}, "retries: 1") +
        collector.tracing());
    for (int i = 0; i < 8; ++i) CHECK(tidegate.get("/").status() == 200);
    const auto second_tries = [&] {
        std::vector<json> found;
        for (const json& span : collector.spans("forward")) {
            if (attribute(span, "http.request.resend_count") == "1") found.push_back(span);
        }
        return found;
    };
    CHECK_SOON(collector.requests().size() == 8);
    REQUIRE_FALSE(second_tries().empty());
    const json second = second_tries().at(0);
    CHECK(attribute(second, "http.response.status_code") == "200");
    std::vector<json> firsts;
    for (const json& span : collector.spans("forward")) {
        const bool is_sibling = span["parentSpanId"] == second["parentSpanId"];
        if (is_sibling && span["spanId"] != second["spanId"]) firsts.push_back(span);
    }
    REQUIRE(firsts.size() == 1);
    CHECK(attribute(firsts[0], "server.port") == std::to_string(dead));
    CHECK(attribute(firsts[0], "error.type").is_string());
    CHECK(firsts[0]["status"]["code"] == 2);
    const auto nanos = [](const json& span, const char* which) {
        return std::stoll(span[which].get<std::string>());
    };
    CHECK(nanos(firsts[0], "endTimeUnixNano") <= nanos(second, "startTimeUnixNano"));
    std::set<std::string> spans;
    for (const Message& request : upstream.seen()) spans.insert(Sent(request).span);
    CHECK(spans.count(second["spanId"].get<std::string>()) == 1);
}

TEST_CASE("tracing: failures and refusals are kept at `sample: 0`, within their rates") {
    const std::uint16_t dead = free_port();
    const Upstream upstream(ok());
    const Collector collector;
    const Tidegate tidegate(
        "upstreams: {dead: {servers: [\"http://127.0.0.1:" + std::to_string(dead) +
        "\"], eject: off}, api: {servers: [" + upstream.url() +
        "]}}\npolicies: {p: {key: [ip], limits: [1/h]}}\n"
        "routes: [{match: {path: /dead}, upstream: dead, policies: []}, "
        "{upstream: api, policies: [p]}]\n" +
        collector.tracing("sample: 0, keep: {failed: 2/h, limited: 1/h}"));
    for (int i = 0; i < 5; ++i) CHECK(tidegate.get("/dead").status() == 502);
    CHECK(tidegate.get("/").status() == 200);
    for (int i = 0; i < 5; ++i) CHECK(tidegate.get("/").status() == 429);
    CHECK_SOON(collector.requests().size() == 3);
    std::multiset<std::string> statuses;
    for (const json& span : collector.requests()) {
        CHECK(span["flags"] == 0);
        statuses.insert(attribute(span, "http.response.status_code").get<std::string>());
    }
    CHECK(statuses == std::multiset<std::string>{"429", "502", "502"});
    CHECK(collector.spans("forward").size() == 2);
    REQUIRE(collector.spans("decide").size() == 1);
    CHECK(attribute(collector.spans("decide").at(0), "tidegate.verdict") == "limited");
    CHECK(attribute(collector.spans("decide").at(0), "tidegate.limit") == "p-1h");
}

TEST_CASE("tracing: a question of a gateway has spans of the request and the decision") {
    const Collector collector;
    const std::uint16_t port = free_port();
    const Tidegate tidegate("listen: [{address: \"127.0.0.1:" + std::to_string(port) +
                            "\", face: forward_auth, dialect: nginx}]\nlimits: [1/h]\n" +
                            collector.tracing());
    RawClient(port).ask(
        "GET /ask HTTP/1.1\r\nHost: app.test\r\nX-Original-URI: /orders?x=1\r\n"
        "X-Original-Method: PUT\r\nX-Forwarded-For: 198.51.100.1\r\n" +
        context() + "\r\n");
    CHECK_SOON(collector.spans().size() == 2);
    const json request = collector.requests().at(0);
    CHECK(attribute(request, "tidegate.face") == "forward_auth");
    CHECK(attribute(request, "url.path") == "/orders");
    CHECK(attribute(request, "http.request.method") == "PUT");
    CHECK(request["traceId"] != kTrace);  // the gateway passes on what its client sent
    CHECK(collector.spans("decide").at(0)["parentSpanId"] == request["spanId"]);
}

TEST_CASE("tracing: a question of ingress-nginx has the scheme of the original request") {
    const Collector collector;
    const std::uint16_t port = free_port();
    const Tidegate tidegate("listen: [{address: \"127.0.0.1:" + std::to_string(port) +
                            "\", face: forward_auth, dialect: ingress-nginx}]\nlimits: [1/h]\n" +
                            collector.tracing());
    RawClient(port).ask(
        "GET /ask HTTP/1.1\r\nHost: tidegate\r\nX-Original-URL: https://app.test/orders\r\n"
        "X-Original-Method: GET\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n");
    CHECK_SOON(!collector.requests().empty());
    const json request = collector.requests().at(0);
    CHECK(attribute(request, "url.scheme") == "https");
    CHECK(attribute(request, "url.path") == "/orders");
}

TEST_CASE("tracing: a call of the check API has spans of the request and the decision") {
    const Collector collector;
    const CheckApi api(kCheckPolicies + collector.tracing());
    CHECK(api.take("alice").status() == 200);
    CHECK_SOON(collector.spans().size() == 2);
    CHECK(attribute(collector.requests().at(0), "tidegate.face") == "check");
    CHECK(attribute(collector.spans("decide").at(0), "tidegate.verdict") == "admitted");
}

}  // namespace tidegate::test::tracing_test
