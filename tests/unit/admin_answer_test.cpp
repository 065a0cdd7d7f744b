#include <string>

#include <doctest/doctest.h>

#include "admin/answer.hpp"

namespace tidegate::admin {
namespace {

AdminSources some_sources() {
    return {.metrics = [] { return std::string("tidegate_requests_total 1\n"); },
            .ready =
                [] {
                    return Readiness{true, R"({"status":"ready"})"};
                },
            .token = "secret"};
}

AdminRequest request_for(std::string_view target) {
    AdminRequest request;
    request.method = "GET";
    request.target = target;
    return request;
}

int status_of(const AdminRequest& request, const AdminSources& sources = some_sources()) {
    return answer_to(request, sources).status;
}

TEST_CASE("admin: metrics, health and readiness are open to every peer") {
    const AdminAnswer metrics = answer_to(request_for("/metrics"), some_sources());
    CHECK(metrics.status == 200);
    CHECK(metrics.content_type == "text/plain; version=0.0.4; charset=utf-8");
    CHECK(metrics.body == "tidegate_requests_total 1\n");
    CHECK(status_of(request_for("/metrics?name[]=up")) == 200);
    CHECK(status_of(request_for("/healthz")) == 200);
    CHECK(answer_to(request_for("/readyz"), some_sources()).body == R"({"status":"ready"})");
}

TEST_CASE("admin: not ready is 503 with the same body") {
    AdminSources sources = some_sources();
    sources.ready = [] { return Readiness{false, R"({"status":"draining"})"}; };
    const AdminAnswer answer = answer_to(request_for("/readyz"), sources);
    CHECK(answer.status == 503);
    CHECK(answer.body == R"({"status":"draining"})");
    CHECK(status_of(request_for("/healthz"), sources) == 200);
}

TEST_CASE("admin: another method than GET and HEAD is 405 and told which are allowed") {
    AdminRequest request = request_for("/metrics");
    request.method = "HEAD";
    CHECK(status_of(request) == 200);
    for (const std::string_view method : {"POST", "get", "DELETE", ""}) {
        request.method = method;
        const AdminAnswer answer = answer_to(request, some_sources());
        CHECK(answer.status == 405);
        CHECK(answer.allow == "GET, HEAD");
        CHECK(answer.content_type == "application/problem+json");
    }
}

TEST_CASE("admin: all else is 404 to a local peer and 401 to others without the token") {
    AdminRequest request = request_for("/api/limits");
    const AdminAnswer refused = answer_to(request, some_sources());
    CHECK(refused.status == 401);
    CHECK(refused.authenticate == "Bearer realm=\"tidegate\"");
    request.local = true;
    CHECK(status_of(request) == 404);
    for (const std::string_view target :
         {"", "*", "/", "/metrics/", "/Metrics", "//metrics", "/metrics;a", "/healthz%20"}) {
        CHECK(status_of(request_for(target)) == 401);
    }
}

TEST_CASE("admin: only the token itself, as a bearer, opens the rest") {
    AdminRequest request = request_for("/api");
    for (const std::string_view given : {"Bearer secret", "bearer secret", "Bearer  secret"}) {
        request.authorization = given;
        CHECK(status_of(request) == 404);
    }
    for (const std::string_view given :
         {"", "Bearer", "Bearer ", "Bearer   ", "secret", "Basic secret", "Bearersecret",
          "Bearer secre", "Bearer secretsecret", "Bearer secreT", "Bearer secret ", "Bearer x"}) {
        request.authorization = given;
        CHECK(status_of(request) == 401);
    }
}

TEST_CASE("admin: without a configured token no token opens anything") {
    AdminSources sources = some_sources();
    sources.token.clear();
    AdminRequest request = request_for("/api");
    for (const std::string_view given : {"", "Bearer ", "Bearer x"}) {
        request.authorization = given;
        CHECK(status_of(request, sources) == 403);
    }
    request.local = true;
    CHECK(status_of(request, sources) == 404);
}

}  // namespace
}  // namespace tidegate::admin
