#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "admin/answer.hpp"
#include "admin/upstreams_answer.hpp"

namespace tidegate::admin::upstreams_answer_test {
namespace {

using upstream::ServerHealth;
using upstream::ServerStatus;
using upstream::UpstreamStatus;

ServerStatus server_at(const std::string& address, ServerHealth health) {
    ServerStatus server;
    server.server = address;
    server.configured = "api.internal:3000";
    server.health = health;
    return server;
}

UpstreamStatus some_upstream() {
    UpstreamStatus status;
    status.upstream = "api";
    status.servers = {server_at("10.0.0.5:3000", ServerHealth::up),
                      server_at("10.0.0.6:3000", ServerHealth::unhealthy),
                      server_at("10.0.0.7:3000", ServerHealth::ejected)};
    status.unresolved = {"gone.internal:3000"};
    status.connections = 3;
    status.connections_max = 512;
    status.queued = 2;
    return status;
}

AdminSources sources_with(std::string_view token) {
    return {.metrics = [] { return std::string(); },
            .ready = [] { return Readiness{}; },
            .token = [token] { return token; },
            .reload = {},
            .upstreams = [] { return std::vector<UpstreamStatus>{some_upstream()}; }};
}

AdminRequest local_request() {
    AdminRequest request;
    request.method = "GET";
    request.target = "/api/upstreams";
    request.host = "127.0.0.1:9901";
    request.local = true;
    return request;
}

}  // namespace

TEST_CASE("admin upstreams: each server is listed with its state and its counts") {
    UpstreamStatus status = some_upstream();
    ServerStatus& server = status.servers[1];
    server.weight = 2;
    server.is_checked = true;
    server.active = 4;
    server.requests = 100;
    server.failures = 7;
    server.ejections = 1;
    const AdminAnswer answer = answer_to_upstreams(std::vector{status});
    CHECK(answer.status == 200);
    CHECK(answer.content_type == "application/json");
    const auto json = nlohmann::json::parse(answer.body);
    REQUIRE(json.at("upstreams").size() == 1);
    const auto& api = json.at("upstreams")[0];
    CHECK(api.at("name") == "api");
    CHECK(api.at("connections") == 3);
    CHECK(api.at("connections_max") == 512);
    CHECK(api.at("queued") == 2);
    CHECK(api.at("unresolved") == std::vector<std::string>{"gone.internal:3000"});
    REQUIRE(api.at("servers").size() == 3);
    CHECK(api.at("servers")[0].at("state") == "up");
    CHECK(api.at("servers")[0].at("checked") == false);
    CHECK(api.at("servers")[2].at("state") == "ejected");
    CHECK(api.at("servers")[1] == nlohmann::json{{"server", "10.0.0.6:3000"},
                                                 {"configured", "api.internal:3000"},
                                                 {"weight", 2},
                                                 {"state", "unhealthy"},
                                                 {"checked", true},
                                                 {"active", 4},
                                                 {"requests", 100},
                                                 {"failures", 7},
                                                 {"ejections", 1}});
}

TEST_CASE("admin upstreams: readiness counts the servers that are up") {
    CHECK(upstreams_summary({}) == "{}");
    UpstreamStatus none;
    none.upstream = "later";
    none.unresolved = {"later.internal:3000"};
    CHECK(upstreams_summary(std::vector{some_upstream(), none}) ==
          R"({"api":{"servers":3,"up":1},"later":{"servers":0,"up":0}})");
}

TEST_CASE("admin upstreams: they are shown to GET, on this machine or with the token") {
    AdminRequest request = local_request();
    CHECK(answer_to(request, sources_with("")).status == 200);
    request.method = "POST";
    CHECK(answer_to(request, sources_with("")).allow == "GET");
    request = local_request();
    request.local = false;
    CHECK(answer_to(request, sources_with("")).status == 403);
    CHECK(answer_to(request, sources_with("secret")).status == 401);
    request.authorization = "Bearer secret";
    CHECK(answer_to(request, sources_with("secret")).status == 200);
}

TEST_CASE("admin upstreams: a page under a name of its own does not see them") {
    AdminRequest request = local_request();
    for (const std::string_view host : {"", "evil.example", "evil.example:9901"}) {
        request.host = host;
        const AdminAnswer answer = answer_to(request, sources_with(""));
        CHECK_MESSAGE(answer.status == 403, host);
        CHECK(answer.body.find("10.0.0.5") == std::string::npos);
        CHECK(answer.refusal.starts_with("The field Host"));
    }
}

}  // namespace tidegate::admin::upstreams_answer_test
