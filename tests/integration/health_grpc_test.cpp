// Health checks by gRPC, and checks in HTTP/2 that get what is no answer.
#include <atomic>
#include <string>

#include <doctest/doctest.h>

#include "integration/grpc_world.hpp"
#include "integration/h2_upstream.hpp"
#include "integration/server_metric.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::health_grpc_test {

namespace {

const std::string kHealthPath = "/grpc.health.v1.Health/Check";

H2Reply says(std::uint64_t status) {
    return {.fields = {{"content-type", "application/grpc"}},
            .body = grpc_frame(pb_number(1, status)),
            .trailers = {{"grpc-status", "0"}}};
}

// The first check decides at once. A check has all of `every`, so that a busy machine fails none.
std::string checked(const std::string& url, const std::string& check) {
    return unlimited({url}, "health_check: {" + check + ", every: 5s, timeout: 5s}");
}

bool is_up(const Tidegate& tidegate, std::uint16_t port) {
    return server_metric(tidegate, "up", port) == 1;
}

// What the error log says of a server that gives `reply` to checks.
void check_fault(const H2Reply& reply, const std::string& fault) {
    const H2Upstream upstream(always(reply));
    const Tidegate tidegate(checked(upstream.url(), "grpc: on"));
    CHECK_SOON(!is_up(tidegate, upstream.port()));
    CHECK_SOON(tidegate.errors().find(fault) != std::string::npos);
}

// The same of one that answers the first request with these bytes.
void check_bytes(const std::string& bytes, const std::string& check, const std::string& fault) {
    const Upstream upstream([&](Conversation& conversation) {
        conversation.some();
        conversation.send(bytes);
        conversation.wait_for_end();
    });
    const Tidegate tidegate(checked("h2c://127.0.0.1:" + std::to_string(upstream.port()), check));
    CHECK_SOON(!is_up(tidegate, upstream.port()));
    CHECK_SOON(tidegate.errors().find(fault) != std::string::npos);
}

const std::string kNotHttp2 = "its answer is not HTTP/2";

}  // namespace

TEST_CASE("health grpc: SERVING is healthy, NOT_SERVING is not, and each counts at once") {
    std::atomic<std::uint64_t> status{1};
    H2Upstream upstream([&](const H2Call& call) {
        return call.path() == kHealthPath ? says(status) : H2Reply{.body = "ok"};
    });
    const Tidegate tidegate(unlimited({upstream.url()},
                                      "health_check: {grpc: api.Users, every: 2s, timeout: 2s, "
                                      "unhealthy_after: 1, healthy_after: 1}"));
    CHECK_SOON(upstream.whole_calls() > 0);
    CHECK(is_up(tidegate, upstream.port()));
    const H2Call check = upstream.call(kHealthPath);
    CHECK(check.field(":method") == "POST");
    CHECK(check.field("content-type") == "application/grpc");
    CHECK(check.field("te") == "trailers");
    CHECK(check.field("user-agent").starts_with("tidegate-health/"));
    CHECK(check.body == grpc_frame(pb_bytes(1, "api.Users")));
    CHECK(tidegate.get().status() == 200);
    status = 2;
    CHECK_SOON(!is_up(tidegate, upstream.port()));
    CHECK_SOON(tidegate.errors().find("it says NOT_SERVING") != std::string::npos);
    CHECK(tidegate.get().status() == 503);
    status = 1;
    CHECK_SOON(is_up(tidegate, upstream.port()));
}

TEST_CASE("health grpc: `on` asks about the server as a whole") {
    H2Upstream upstream(always(says(1)));
    const Tidegate tidegate(checked(upstream.url(), "grpc: on"));
    CHECK_SOON(upstream.whole_calls() > 0);
    CHECK(upstream.call(kHealthPath).body == grpc_frame(""));
    CHECK(is_up(tidegate, upstream.port()));
}

TEST_CASE("health grpc: a failed call and an answer that is not gRPC are failed checks") {
    check_fault({.fields = {{"content-type", "application/grpc"}, {"grpc-status", "12"}}},
                "it has no health service of gRPC (grpc-status 12)");
    check_fault({.body = "<html>"}, "its answer is not gRPC");
    check_fault({.status = 404}, "it answers 404");
    H2Reply cut = says(1);
    cut.body.pop_back();
    check_fault(cut, "its answer is no HealthCheckResponse");
}

TEST_CASE("health grpc: frames that break HTTP/2 are failed checks, by gRPC or not") {
    const std::string head = h2_headers(1, {{":status", "200"}, {"content-length", "1"}}, false);
    // More than its length, which the head alone does not show.
    check_bytes(h2_settings() + head + h2_data(1, "two", true), "path: /", kNotHttp2);
    check_bytes(h2_settings() + head + h2_data(1, "two", true), "grpc: on", kNotHttp2);
    check_bytes(h2_settings() + h2_headers(1, {{":status", "200"}, {"connection", "x"}}, true),
                "path: /", kNotHttp2);
    // A frame that may not be, behind a head that is right.
    check_bytes(h2_settings() + h2_headers(1, {{":status", "200"}}, false) +
                    h2_frame(NGHTTP2_PING, 0, 1, "12345678"),
                "path: /", kNotHttp2);
    check_bytes("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "grpc: on", kNotHttp2);
}

}  // namespace tidegate::test::health_grpc_test
