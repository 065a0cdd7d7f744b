// Clients of gRPC: what Tidegate's own answers are to them, and what counts of an upstream's.
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/grpc_world.hpp"
#include "integration/h2_upstream.hpp"
#include "integration/http2_world.hpp"
#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::grpc_test {

using nlohmann::json;

namespace {

// What a client gets that Tidegate answers itself: one frame of HEADERS.
void check_trailers_only(const H2Answer& answer, int status) {
    CHECK(grpc_status(answer) == status);
    CHECK(answer.has("grpc-status"));
    CHECK_FALSE(answer.field("grpc-message").empty());
    CHECK_FALSE(answer.has("content-length"));
    CHECK(answer.body.empty());
    CHECK(answer.trailers.empty());
}

H2Answer call(const Http2Proxy& proxy, const std::string& path = "/a.B/C", FieldList more = {}) {
    return H2Client(proxy.port()).ask(grpc_call(path, "x", std::move(more)));
}

// An answer of one message, with the status in trailers.
H2Reply trailed(const std::string& status) {
    return {.fields = {{"content-type", "application/grpc"}},
            .body = grpc_frame("y"),
            .trailers = {{"grpc-status", status}}};
}

}  // namespace

TEST_CASE("grpc: a limit is RESOURCE_EXHAUSTED with the time to come back; the log has 429") {
    const H2Upstream upstream(always(trailed("0")));
    Http2Proxy proxy(simple(upstream.url(), "1/h"));
    const H2Answer first = call(proxy);
    CHECK(grpc_status(first) == 0);
    CHECK(first.has("ratelimit"));
    const H2Answer answer = call(proxy);
    check_trailers_only(answer, 8);
    CHECK(answer.field("grpc-message") == "The request is over a limit.");
    CHECK(std::stoi(answer.field("retry-after")) > 3'000);
    const int pushback = std::stoi(answer.field("grpc-retry-pushback-ms"));
    CHECK(pushback > 3'000'000);
    CHECK(pushback <= 3'600'000);
    CHECK(answer.field("ratelimit").find("r=0") != std::string::npos);
    CHECK(answer.field("grpc-status-details-bin").starts_with("CAgS"));
    CHECK(answer.has("x-request-id"));
    const auto log = proxy.tidegate().access_log(2);
    CHECK(log[0]["grpc_status"] == 0);
    CHECK(log[1]["status"] == 429);
    CHECK(log[1]["grpc_status"] == 8);
    CHECK(log[1]["outcome"] == "limited");
    CHECK(proxy.tidegate().metric_sum("tidegate_requests_total", "code=\"429\"") == 1);

    // Other requests of HTTP/2 are answered as ever.
    const H2Answer plain = H2Client(proxy.port()).get();
    CHECK(plain.status() == 429);
    CHECK(plain.field("content-type") == "application/problem+json");
    const H2Answer get = H2Client(proxy.port()).get("/", {{"content-type", "application/grpc"}});
    CHECK(get.status() == 429);
}

TEST_CASE("grpc: a call that can never pass is not to be repeated") {
    const H2Upstream upstream(always(trailed("0")));
    const Http2Proxy proxy(simple(upstream.url(), "{quota: 0, per: 1h}"));
    const H2Answer answer = call(proxy);
    check_trailers_only(answer, 8);
    CHECK(answer.field("grpc-retry-pushback-ms") == "-1");
    CHECK_FALSE(answer.has("retry-after"));
    CHECK_FALSE(answer.has("grpc-status-details-bin"));
}

TEST_CASE("grpc: refusals and failures have the status that says what to do") {
    const Upstream upstream([](Conversation& conversation) { conversation.close(); });
    const H2Upstream slow([](const H2Call&) -> std::optional<H2Reply> { return std::nullopt; });
    const Http2Proxy proxy(
        "upstreams:\n  broken: {servers: ['h2c://127.0.0.1:" + std::to_string(upstream.port()) +
        "']}\n  slow: {servers: ['" + slow.url() + "'], timeouts: {response: 20s}}\n" +
        "identity: {user: [{cookie: {name: session}}]}\n"
        "policies:\n  denied: {key: [ip], limits: [9/h], deny: [127.0.0.0/8]}\n"
        "  tenant: {key: ['header:x-tenant'], limits: [9/h]}\n"
        "routes:\n"
        "  - {match: {path: '/denied/**'}, upstream: broken, policies: [denied]}\n"
        "  - {match: {path: '/tenant/**'}, upstream: broken, policies: [tenant]}\n"
        "  - {match: {path: '/user/**'}, upstream: broken, policies: [], identity: required}\n"
        "  - {match: {path: '/small/**'}, upstream: slow, policies: [],"
        " limits_on_requests: {body_bytes: 3}}\n"
        "  - {match: {path: '/broken/**'}, upstream: broken, policies: []}\n"
        "  - {match: {path: '/slow/**'}, upstream: slow, policies: []}\n");
    check_trailers_only(call(proxy, "/denied/x"), 7);
    check_trailers_only(call(proxy, "/tenant/x"), 3);
    check_trailers_only(call(proxy, "/user/x"), 16);
    check_trailers_only(call(proxy, "/nowhere"), 12);
    check_trailers_only(call(proxy, "/small/x"), 8);
    check_trailers_only(call(proxy, "/broken/x"), 14);
    // The deadline of the call is nearer than the route's.
    const auto began = Clock::now();
    check_trailers_only(call(proxy, "/slow/x", {{"grpc-timeout", "200m"}}), 4);
    CHECK(Clock::now() - began < std::chrono::seconds{15});
}

TEST_CASE("grpc: a limit can count the status in the trailers") {
    const H2Upstream upstream([](const H2Call& call) {
        const std::string status = call.field("x-status");
        if (status != "head") return trailed(status);
        return H2Reply{.fields = {{"content-type", "application/grpc"}, {"grpc-status", "16"}}};
    });
    Http2Proxy proxy(simple(upstream.url(), "{quota: 2, per: 1h, count: ['grpc:16']}"));
    const auto ask = [&](const std::string& status) {
        return grpc_status(call(proxy, "/a.B/C", {{"x-status", status}}));
    };
    for (int i = 0; i < 5; ++i) CHECK(ask("0") == 0);
    CHECK(ask("16") == 16);
    CHECK(ask("5") == 5);
    // Also where the answer is trailers alone.
    CHECK(ask("head") == 16);
    CHECK(ask("0") == 8);
    const auto log = proxy.tidegate().access_log(9);
    CHECK(log[5]["grpc_status"] == 16);
    CHECK(log[7]["grpc_status"] == 16);
}

TEST_CASE("grpc: a status counts whatever the request looked like, over HTTP/1 as well") {
    const H2Upstream upstream([](const H2Call& call) { return trailed(call.field("x-status")); });
    struct Way {
        std::string method;
        FieldList fields;
    };
    const std::vector<Way> ways{
        {"POST", {{"content-type", "text/plain"}}},
        {"POST", {}},
        {"POST", {{"content-type", "application/grpc"}, {"content-type", "text/plain"}}},
        {"POST", {{"content-type", "application/grpc-web"}}},
        {"POST", {{"content-type", "application/grpcx"}}},
        {"PUT", {{"content-type", "application/grpc"}}},
    };
    const std::string limited = "{quota: 2, per: 1h, count: ['grpc:16']}";
    for (const Way& way : ways) {
        CAPTURE(way.method);
        const Http2Proxy proxy(simple(upstream.url(), limited));
        const auto ask = [&](const std::string& status) {
            FieldList fields = way.fields;
            fields.emplace_back("x-status", status);
            return H2Client(proxy.port())
                .ask({.method = way.method, .path = "/a.B/C", .fields = fields, .body = "x"})
                .status();
        };
        for (int i = 0; i < 3; ++i) CHECK(ask("0") == 200);
        CHECK(ask("16") == 200);
        CHECK(ask("16") == 200);
        CHECK(ask("0") == 429);
    }
    const Http2Proxy proxy(simple(upstream.url(), limited));
    const auto ask = [&](const std::string& status) {
        return RawClient(proxy.port())
            .ask(
                "POST /a.B/C HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nContent-Type: "
                "application/grpc\r\nContent-Length: 1\r\nX-Status: " +
                status + "\r\n\r\nx")
            .status();
    };
    for (int i = 0; i < 3; ++i) CHECK(ask("0") == 200);
    CHECK(ask("16") == 200);
    CHECK(ask("16") == 200);
    CHECK(ask("0") == 429);
}

TEST_CASE("grpc: an answer that ends without a status keeps the units") {
    const H2Upstream upstream([](const H2Call& call) {
        const std::string type = call.field("x-type");
        H2Reply reply{.fields = {{"content-type", type}}, .body = "y"};
        if (call.field("x-status") == "none") return reply;
        reply.trailers = {{"grpc-status", call.field("x-status")}};
        return reply;
    });
    const auto admitted = [&](const std::string& count, const std::string& type,
                              const std::string& status) {
        const Http2Proxy proxy(simple(upstream.url(), "{quota: 2, per: 1h, count: " + count + "}"));
        int times = 0;
        for (int i = 0; i < 4; ++i) {
            const H2Answer answer = call(proxy, "/a.B/C", {{"x-type", type}, {"x-status", status}});
            times += grpc_status(answer) == 8 ? 0 : 1;
        }
        return times;
    };
    CHECK(admitted("['grpc:16']", "application/grpc", "0") == 4);
    CHECK(admitted("['grpc:16']", "application/grpc", "none") == 2);
    CHECK(admitted("['grpc:16']", "application/grpc", "99") == 2);
    CHECK(admitted("['grpc:16']", "text/html", "none") == 2);
    // gRPC-Web has its status inside the body.
    CHECK(admitted("[401, 'grpc:16']", "application/grpc-web+proto", "none") == 2);
    CHECK(admitted("[401, 'grpc:16']", "application/grpc", "none") == 2);
}

TEST_CASE("grpc: of another protocol, the status of HTTP decides where both are listed") {
    const Upstream upstream(ok("{}", "Content-Type: application/json\r\n"));
    const Http2Proxy proxy(simple(upstream.url(), "{quota: 2, per: 1h, count: [401, 'grpc:16']}"));
    for (int i = 0; i < 4; ++i) CHECK(http_get(proxy.port()).status() == 200);
}

TEST_CASE("grpc: a request that was never sent gives its units back, whatever its client speaks") {
    const std::string nowhere = "http://127.0.0.1:" + std::to_string(free_port());
    const Http2Proxy proxy(simple(nowhere, "{quota: 2, per: 1h, count: ['grpc:16']}"));
    for (int i = 0; i < 4; ++i) CHECK(http_get(proxy.port()).status() == 502);
}

TEST_CASE("grpc: a call is never sent to a server that speaks HTTP/1, and the answer says why") {
    const Upstream http1(ok());
    Http2Proxy proxy(simple(http1.url(), "9/h"));
    const H2Answer answer = call(proxy);
    check_trailers_only(answer, 12);
    CHECK(answer.field("grpc-message").find("HTTP/1") != std::string::npos);
    CHECK(answer.field("grpc-message").find("h2c://") != std::string::npos);
    CHECK(answer.field("grpc-message").find("http: h2") != std::string::npos);
    // What is no call goes on as ever.
    CHECK(H2Client(proxy.port()).get().status() == 200);
    const H2Request web{.method = "POST",
                        .path = "/",
                        .fields = {{"content-type", "application/grpc-web"}},
                        .body = grpc_frame("x")};
    CHECK(H2Client(proxy.port()).ask(web).status() == 200);
    CHECK(http1.requests() == 2);
    const auto log = proxy.tidegate().access_log(3);
    CHECK(log[0]["status"] == 501);
    CHECK(log[0]["grpc_status"] == 12);
    CHECK(log[0]["error"] == "upstream: no gRPC");
    CHECK(proxy.tidegate().metric_sum("tidegate_request_faults_total",
                                      "fault=\"upstream: no gRPC\"") == 1);
}

TEST_CASE("grpc: of an upstream's servers, calls go to those that speak HTTP/2") {
    const Upstream http1(ok());
    const H2Upstream http2(always(trailed("0")));
    const Http2Proxy proxy(unlimited({http1.url(), http2.url()}));
    H2Client client(proxy.port());
    for (int i = 0; i < 6; ++i) CHECK(grpc_status(client.ask(grpc_call("/a.B/C", "x"))) == 0);
    CHECK(http1.requests() == 0);
    for (int i = 0; i < 6; ++i) CHECK(client.get().status() == 200);
    CHECK(http1.requests() > 0);
}

TEST_CASE("grpc: calls find the one server that speaks HTTP/2, however servers are chosen") {
    const Upstream one(ok());
    const Upstream other(ok());
    const H2Upstream http2(always(trailed("0")));
    const std::vector<std::string> urls{one.url(), other.url(), http2.url()};
    for (const std::string& balance :
         std::vector<std::string>{"round_robin", "least_connections", "{hash: 'header:x-key'}"}) {
        CAPTURE(balance);
        const Http2Proxy proxy(unlimited(urls, "balance: " + balance));
        for (int i = 0; i < 12; ++i) {
            CHECK(grpc_status(call(proxy, "/a.B/C", {{"x-key", std::to_string(i)}})) == 0);
        }
    }
    CHECK(one.requests() + other.requests() == 0);
}

TEST_CASE("grpc: where the servers that speak HTTP/2 are unhealthy, calls may be repeated") {
    const Upstream http1(ok());
    const H2Upstream http2([](const H2Call& call) {
        return H2Reply{.status = call.path() == "/healthz" ? 500 : 200};
    });
    const Http2Proxy proxy(unlimited({http1.url(), http2.url()},
                                     "health_check: {path: /healthz, every: 5s, timeout: 5s}"));
    CHECK_SOON(grpc_status(call(proxy)) == 14);
    CHECK(H2Client(proxy.port()).get().status() == 200);
}

}  // namespace tidegate::test::grpc_test
