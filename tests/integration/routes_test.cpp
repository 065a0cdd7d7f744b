// The settings of a route in a running proxy: its limits, the size of a body, the path that the
// upstream gets.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"

namespace tidegate::test::routes_test {

namespace {

int admitted(const Tidegate& tidegate, const std::string& path, int requests) {
    int count = 0;
    for (int i = 0; i < requests; ++i) {
        if (tidegate.get(path).status() == 200) ++count;
    }
    return count;
}

}  // namespace

TEST_CASE("routes: a second limit is an added line beside the short form") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted.yaml() + "upstream: " + upstream.url() +
                            "\nlimits: [5/h]\n"
                            "routes:\n"
                            "  - {name: login, match: {path: /login}, policies: [{key: [ip], "
                            "limits: [2/h]}]}\n"
                            "  - {name: both, match: {path: /both}, policies: [default, {key: "
                            "[ip], limits: [1/h]}]}\n");
    CHECK(admitted(tidegate, "/login", 4) == 2);
    CHECK(admitted(tidegate, "/both", 4) == 1);
    // The request that /both admitted counts here as well; the one that it refused does not.
    CHECK(admitted(tidegate, "/other", 7) == 4);
    CHECK(logged(tidegate, "/other").at("route") == "default");
}

TEST_CASE("routes: default_policies of a route hold there, the global ones elsewhere") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        api(upstream,
            "policies: {all: {key: [ip], limits: [3/h]}, few: {key: [ip], limits: [1/h]}}\n"
            "default_policies: [all]\nroutes:\n"
            "  - {match: {path: /healthz}, default_policies: [], policies: []}\n"
            "  - {match: {path: /few}, default_policies: [few], policies: []}\n"
            "  - {match: {path: /more}, default_policies: [], policies: [few]}\n"
            "  - {match: {path: /**}, default_policies: [all], policies: []}\n"));
    CHECK(admitted(tidegate, "/healthz", 6) == 6);
    CHECK(admitted(tidegate, "/few", 3) == 1);
    CHECK(admitted(tidegate, "/more", 3) == 0);
    CHECK(admitted(tidegate, "/rest", 6) == 3);
    CHECK(admitted(tidegate, "/healthz", 2) == 2);
}

TEST_CASE("routes: the path that the upstream is sent is the one that explain shows") {
    const Upstream upstream(
        Upstream::answering([](const Message& request) { return ok(request.target()); }));
    const std::string yaml =
        "upstream: " + upstream.url() +
        "\nroutes:\n  - {name: api, match: {path: /api/**}, strip_prefix: /api, policies: []}\n";
    const TemporaryFolder folder;
    const std::string file = folder.write("t.yaml", yaml);
    const Tidegate tidegate(yaml);
    const std::vector<std::pair<std::string, std::string>> sent = {
        {"/api", "/"},
        {"/api/", "/"},
        {"/api?", "/?"},
        {"/api?a=/api", "/?a=/api"},
        {"/api/x", "/x"},
        {"/api/x/", "/x/"},
        {"/api/api", "/api"},
        {"/api/%7Euser/a%20b?c=%2F", "/%7Euser/a%20b?c=%2F"},
        {"/api/a/../b", "/a/../b"},
        {"/api/a//b", "/a//b"},
        {"/other/api", "/other/api"},
        {"/", "/"},
        // Refused: servers could read another path, or a host, behind the prefix.
        {"/api/..", ""},
        {"/api/../api/x", ""},
        {"/api/%2e%2e/api/x", ""},
        {"/api//evil.example/", ""},
        {"/api/%2Fevil.example/", ""},
        {"/api/\\evil.example/", ""},
        {"/%61pi/x", ""},
        {"/api%2Fx", ""},
        {"//api/x", ""},
        {"/API/x", ""},
    };
    const int before = upstream.requests();
    int forwarded = 0;
    for (const auto& one : sent) {
        const std::string& target = one.first;
        const std::string& expected = one.second;
        CAPTURE(target);
        const auto answer = tidegate.get(target);
        const auto said = run_tidegate(
            {"explain", "-c", file, "--json", "--from", "127.0.0.1", "--path", target});
        REQUIRE(said.code == 0);
        const auto told = nlohmann::json::parse(said.output);
        if (expected.empty()) {
            CHECK(answer.status() == 400);
            CHECK(told["result"].value("status", 0) == 400);
            CHECK(told["route"]["upstream_path"].is_null());
            continue;
        }
        ++forwarded;
        CHECK(answer.status() == 200);
        CHECK(answer.body == expected);
        CHECK(told["route"]["upstream_path"] == expected.substr(0, expected.find('?')));
    }
    CHECK(upstream.requests() == before + forwarded);
    // The log has the path that the client sent.
    CHECK(logged(tidegate, "/api/x").at("route") == "api");
}

TEST_CASE("routes: a slash that passes encoded is one segment, counted and sent as it came") {
    const Upstream upstream(
        Upstream::answering([](const Message& request) { return ok(request.target()); }));
    const Tidegate tidegate("upstreams: {api: {servers: [" + upstream.url() +
                            "]}}\nroutes:\n"
                            "  - {name: project, match: {path: \"/api/{id}/issues\"}, "
                            "encoded_slash: pass, strip_prefix: "
                            "/api, policies: [{key: [\"path:id\"], limits: [2/h]}]}\n"
                            "  - {name: strict, match: {path: \"/strict/{id}\"}, policies: []}\n"
                            "  - {name: rest, policies: []}\n");
    // One project, however its slash is written, and another one.
    CHECK(tidegate.get("/api/group%2Fone/issues?a=%2F").body == "/group%2Fone/issues?a=%2F");
    CHECK(tidegate.get("/api/group%2fone/issues").body == "/group%2fone/issues");
    CHECK(tidegate.get("/api/group%2Fone/issues").status() == 429);
    CHECK(tidegate.get("/api/group%2Ftwo/issues").status() == 200);
    CHECK(logged(tidegate, "/api/group%2Ftwo/issues").at("route") == "project");
    CHECK(tidegate.get("/api/..%2Fx/issues").status() == 400);
    CHECK(tidegate.get("/strict/a%2Fb").status() == 400);
}

TEST_CASE("routes: a body is bounded by its route, announced or in chunks") {
    const Upstream upstream(
        Upstream::answering([](const Message& request) { return ok(request.body); }));
    const Tidegate tidegate(
        "limits_on_requests: {body_bytes: 1KiB}\n" +
        api(upstream,
            "routes:\n"
            "  - {match: {path: /large}, limits_on_requests: {body_bytes: 4KiB}, policies: []}\n"
            "  - {match: {path: /none}, limits_on_requests: {body_bytes: 0}, policies: []}\n"
            "  - {policies: []}\n"));
    const auto status = [&](const std::string& path, std::size_t bytes, bool chunked) {
        const std::string body(bytes, 'x');
        auto client = tidegate.client();
        client.send(chunked ? "POST " + path +
                                  " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
                                  chunk(body.substr(0, bytes / 2 + 1)) +
                                  (bytes > 1 ? chunk(body.substr(bytes / 2 + 1)) : "") + "0\r\n\r\n"
                            : post_request(path, body));
        return client.response().status();
    };
    for (const bool chunked : {false, true}) {
        CAPTURE(chunked);
        CHECK(status("/large", 4096, chunked) == 200);
        CHECK(status("/large", 4097, chunked) == 413);
        CHECK(status("/other", 1024, chunked) == 200);
        CHECK(status("/other", 1025, chunked) == 413);
        CHECK(status("/none", 1, chunked) == 413);
    }
    CHECK(tidegate.get("/none").status() == 200);
    // A body whose announced length is too large is refused before the upstream sees anything of
    // it.
    for (const Message& request : upstream.seen()) CHECK(request.body.size() <= 4096);
}

}  // namespace tidegate::test::routes_test
