// The settings of a route: default_policies, timeouts, the size of a body, strip_prefix.
#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"

namespace tidegate::config_route_settings_test {

using namespace std::chrono_literals;

namespace {

const std::string kBegin =
    "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
    "policies: {one: {key: [ip], limits: [5/h]}, two: {key: [ip], limits: [100/s]}}\n"
    "default_policies: [one, two]\n";

config::Loaded load(const std::string& text) {
    auto loaded = config::load_text(text, "t");
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return loaded;
}

std::string policies_of(const config::Route& route) {
    std::string names;
    for (const config::Policy* policy : route.policies) names += policy->name + " ";
    return names;
}

}  // namespace

TEST_CASE("routes: default_policies of a route take the place of the global ones") {
    const auto loaded = load(kBegin +
                             "routes:\n"
                             "  - {match: {path: /a}, default_policies: [], policies: []}\n"
                             "  - {match: {path: /b}, default_policies: [two], policies: [one]}\n"
                             "  - {match: {path: /c}, default_policies: two, policies: []}\n"
                             "  - {match: {path: /d}, default_policies: [], policies: [two]}\n"
                             "  - {policies: [{key: [ip], limits: [7/h]}]}\n");
    CHECK(loaded.warnings.empty());
    const auto& routes = loaded.config->routes;
    CHECK(policies_of(routes.at(0)) == "");
    CHECK(policies_of(routes.at(1)) == "two one ");
    CHECK(policies_of(routes.at(2)) == "two ");
    CHECK(policies_of(routes.at(3)) == "two ");
    CHECK(policies_of(routes.at(4)) == "one two /**/0 ");
}

TEST_CASE("routes: timeouts are the route's, else the upstream's, else the defaults") {
    const auto config =
        load(
            "upstreams:\n"
            "  api: {servers: [http://127.0.0.1:1], timeouts: {response: 10s, stream_idle: 1min}}\n"
            "  web: {servers: [http://127.0.0.1:2]}\n"
            "routes:\n"
            "  - {match: {path: /a}, upstream: api, timeouts: {response: 2min}, policies: []}\n"
            "  - {match: {path: /b}, upstream: api, timeouts: {stream_idle: 1h}, policies: []}\n"
            "  - {match: {path: /c}, upstream: api, policies: []}\n"
            "  - {upstream: web, policies: []}\n")
            .config;
    const auto& routes = config->routes;
    CHECK(routes[0].response_timeout == 2min);
    CHECK(routes[0].stream_idle == 1min);
    CHECK(routes[1].response_timeout == 10s);
    CHECK(routes[1].stream_idle == 1h);
    CHECK(routes[2].response_timeout == 10s);
    CHECK(routes[2].stream_idle == 1min);
    CHECK(routes[3].response_timeout == 30s);
    CHECK(routes[3].stream_idle == 5min);
    const auto shorter = load("upstream: http://127.0.0.1:3000\n").config;
    CHECK(shorter->routes.at(0).response_timeout == 30s);
    CHECK(shorter->routes.at(0).stream_idle == 5min);
}

TEST_CASE("routes: the size of a body is the route's, else the general one") {
    const std::string routes =
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes:\n"
        "  - {match: {path: /a}, limits_on_requests: {body_bytes: 1GiB}, policies: []}\n"
        "  - {match: {path: /b}, limits_on_requests: {body_bytes: unlimited}, policies: []}\n"
        "  - {policies: []}\n";
    const auto bound = load(routes + "limits_on_requests: {body_bytes: 1MiB}\n").config;
    CHECK(bound->routes[0].body_bytes == 1'073'741'824);
    CHECK(bound->routes[1].body_bytes == config::RequestBounds::kUnlimited);
    CHECK(bound->routes[2].body_bytes == 1'048'576);
    CHECK(load(routes).config->routes[2].body_bytes == config::RequestBounds::kUnlimited);
    CHECK(load("upstream: http://127.0.0.1:3000\nlimits_on_requests: {body_bytes: 5}\n")
              .config->routes[0]
              .body_bytes == 5);
}

TEST_CASE("routes: strip_prefix is read, and absent removes nothing") {
    const auto config = load(
                            "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes:\n"
                            "  - {match: {path: /api/v1/**}, strip_prefix: /api, policies: []}\n"
                            "  - {policies: []}\n")
                            .config;
    CHECK(config->routes[0].strip_prefix == "/api");
    CHECK(config->routes[1].strip_prefix.empty());
}

TEST_CASE("routes: upgrade takes WebSockets, whose messages have no bound unless one is written") {
    const auto loaded = load(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
        "timeouts: {tunnel_idle: 1h, drain_tunnels: 24h}\n"
        "routes:\n"
        "  - {match: {path: /a}, upgrade: [websocket], policies: []}\n"
        "  - {match: {path: /b}, upgrade: websocket, policies: [], "
        "tunnel: {messages: 100/s, message_bytes: 1MiB}}\n"
        "  - {match: {path: /c}, upgrade: [websocket], policies: [], "
        "tunnel: {messages: 600/min}}\n"
        "  - {match: {path: /d}, upgrade: [websocket], policies: [], "
        "tunnel: {messages: 1/h}}\n"
        "  - {match: {path: /e}, upgrade: [websocket], policies: [], "
        "tunnel: {messages: off, message_bytes: unlimited}}\n"
        "  - {policies: []}\n");
    CHECK(loaded.warnings.empty());
    CHECK(loaded.config->timeouts.tunnel_idle == 1h);
    CHECK(loaded.config->timeouts.drain_tunnels == 24h);
    const auto& routes = loaded.config->routes;
    for (const std::size_t i : {0U, 4U}) {
        CHECK(routes.at(i).takes_websockets);
        CHECK_FALSE(routes.at(i).tunnel.messages);
        CHECK(routes.at(i).tunnel.message_bytes == config::TunnelBounds::kUnlimited);
    }
    REQUIRE(routes.at(1).tunnel.messages);
    CHECK(routes.at(1).tunnel.messages->burst == 100);
    CHECK(routes.at(1).tunnel.message_bytes == 1'048'576);
    // What comes in a second may come at once, and one may always come.
    REQUIRE(routes.at(2).tunnel.messages);
    CHECK(routes.at(2).tunnel.messages->quota == 600);
    CHECK(routes.at(2).tunnel.messages->burst == 10);
    REQUIRE(routes.at(3).tunnel.messages);
    CHECK(routes.at(3).tunnel.messages->burst == 1);
    CHECK_FALSE(routes.at(5).takes_websockets);
}

TEST_CASE("routes: `encoded_slash: pass` holds for its route alone, with and without `match`") {
    const auto outcome = [](const std::string& routes, const std::string& path) {
        const auto loaded =
            load("upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes:\n" + routes);
        return loaded.config->router.match({"GET", path, "a", nullptr}).outcome;
    };
    using routing::MatchOutcome;
    const std::string rest = "  - {match: {path: /a/b/c}, policies: []}\n";
    const std::string one = "  - {match: {path: /a/*}, encoded_slash: ";
    CHECK(outcome(one + "pass, policies: []}\n" + rest, "/a/b%2Fc") == MatchOutcome::matched);
    CHECK(outcome(one + "refuse, policies: []}\n" + rest, "/a/b%2Fc") ==
          MatchOutcome::ambiguous_path);
    CHECK(outcome(rest + "  - {encoded_slash: pass, policies: []}\n", "/a/b%2Fc") ==
          MatchOutcome::matched);
    CHECK(outcome(rest + "  - {policies: []}\n", "/a/b%2Fc") == MatchOutcome::ambiguous_path);
}

}  // namespace tidegate::config_route_settings_test
