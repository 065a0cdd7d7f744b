#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"

// Routes as the configuration reads them: the case of their paths, and their names.
namespace tidegate::config_routes_test {

using routing::RouteCase;

namespace {

const std::string kBegin =
    "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
    "policies: {strict: {key: [ip], limits: [5/h]}, loose: {key: [ip], limits: [100/s]}}\n";

config::Loaded load(const std::string& text) {
    auto loaded = config::load_text(text, "test.yaml");
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return loaded;
}

std::string route(const std::string& name, const std::string& path, const std::string& policy) {
    return "  - {name: " + name + ", match: {path: \"" + path + "\"}, policies: [" + policy +
           "]}\n";
}

routing::Matched match(const config::Config& config, const std::string& path) {
    return config.router.match({"GET", path, "a", nullptr});
}

}  // namespace

TEST_CASE("config: paths are matched in the case that routes_ignore_case says") {
    const std::string routes =
        "routes:\n" + route("login", "/login", "strict") + route("rest", "/**", "loose");
    const auto read = [&](const std::string& line) {
        // After `routes` as well, for order means nothing in a map.
        const auto first = load(kBegin + line + routes);
        const auto last = load(kBegin + routes + line);
        CHECK(first.config->route_case == last.config->route_case);
        CHECK(match(*first.config, "/LOGIN").outcome == match(*last.config, "/LOGIN").outcome);
        return first.config;
    };
    for (const char* line : {"", "routes_ignore_case: auto\n"}) {
        CHECK(read(line)->route_case == RouteCase::refuse);
        CHECK(match(*read(line), "/LOGIN").outcome == routing::MatchOutcome::other_case);
    }
    CHECK(read("routes_ignore_case: on\n")->route_case == RouteCase::ignore);
    CHECK(match(*read("routes_ignore_case: on\n"), "/LOGIN").route == 0);
    CHECK(read("routes_ignore_case: off\n")->route_case == RouteCase::as_sent);
    CHECK(match(*read("routes_ignore_case: off\n"), "/LOGIN").route == 1);
    // Beside the short form there is one route, which takes everything.
    const auto shorter = load("upstream: http://127.0.0.1:3000\nroutes_ignore_case: on\n");
    CHECK(match(*shorter.config, "/LOGIN").route == 0);
}

TEST_CASE("config: a route without a name is named by what it matches, wherever it is") {
    const auto names = [](const std::string& routes) {
        std::vector<std::string> out;
        const auto loaded = load(kBegin + "routes:\n" + routes);
        for (const auto& route : loaded.config->routes) {
            out.push_back(route.name);
            for (const auto* policy : route.policies) out.push_back(policy->name);
        }
        return out;
    };
    const std::string policies = ", policies: [loose, {key: [ip], limits: [5/h]}]}\n";
    const std::string login = "  - {match: {path: /login, methods: [POST, GET]}" + policies;
    const std::string tenant = "  - {match: {host: a.example, path: \"/{id}/**\"}" + policies;
    const std::string rest = "  - {policies: []}\n";
    const std::vector<std::string> before{
        "GET,POST:/login",    "loose", "GET,POST:/login/1", "a.example/:id/**", "loose",
        "a.example/:id/**/1", "/**",
    };
    CHECK(names(login + tenant + rest) == before);
    std::vector<std::string> after =
        names("  - {match: {path: /new}" + policies + login + tenant + rest);
    CHECK(std::vector<std::string>(after.begin(), after.begin() + 3) ==
          std::vector<std::string>{"/new", "loose", "/new/1"});
    after.erase(after.begin(), after.begin() + 3);
    CHECK(after == before);
}

TEST_CASE("config: unnamed routes with the same match are told apart by their order") {
    const auto loaded = load(kBegin +
                             "routes:\n"
                             "  - {match: {path: /a}, policies: [strict]}\n"
                             "  - {match: {path: /b}, policies: [strict]}\n"
                             "  - {match: {path: /a}, policies: [loose]}\n"
                             "  - {match: {path: /a}, policies: [loose]}\n");
    CHECK(loaded.config->routes[0].name == "/a");
    CHECK(loaded.config->routes[2].name == "/a#2");
    CHECK(loaded.config->routes[3].name == "/a#3");
}

TEST_CASE("config: the name of a route is short, plain and without values of fields") {
    const auto name = [](const std::string& match) {
        return load(kBegin + "routes: [{match: {" + match + "}, policies: [strict]}]\n")
            .config->routes[0]
            .name;
    };
    const std::string hash = "~899226196f2a";
    CHECK(name("path: /a, headers: {x-plan: free}") == "/a" + hash);
    CHECK(name("path: /a, headers: {x-plan: paid}").starts_with("/a~"));
    CHECK(name("path: /a, headers: {x-plan: paid}") != "/a" + hash);
    // The order of what must all hold means nothing.
    CHECK(name("path: /a, headers: {a: x, b: y}") == name("headers: {B: y, A: x}, path: /a"));
    CHECK(name("path: /a, methods: [GET, PUT]") == name("path: /a, methods: [PUT, GET]"));
    const std::string deep = "/" + std::string(500, 'd');
    CHECK(name("path: " + deep).size() == 64);
    CHECK(name("path: " + deep) != name("path: " + deep + "e"));
    CHECK(name("path: \"/a b\"").starts_with("/ab~"));
    CHECK(name("path: \"/{a}\"") == "/:a");
    CHECK(name("path: \"/:a\"").starts_with("/:a~"));  // another path
    CHECK(name("path: \"regex:/v[0-9]+\"").starts_with("regex:/v0-9~"));
    CHECK(name("host: \"[::1]\"").starts_with("::1/**~"));
    CHECK(name("host: \"*.example.com\"") == "*.example.com/**");
}

}  // namespace tidegate::config_routes_test

// The settings of a route: default_policies, timeouts, the size of a body, strip_prefix.
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
    for (const config::PolicySettings* policy : route.policies) names += policy->name + " ";
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

// `upstream` and `limits` at the top, alone and beside the long form.
namespace tidegate::config_short_form_test {

namespace {

const std::string kShort = "upstream: http://127.0.0.1:3000\nlimits: [10/s]\n";
const std::string kUpstreams =
    "upstreams: {api: {servers: [http://127.0.0.1:3001]}, web: {servers: [http://127.0.0.1:3002]}}"
    "\n";

config::Loaded load(const std::string& text) {
    auto loaded = config::load_text(text, "t");
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return loaded;
}

// Each route as `name>upstream:policy,policy`.
std::string routes_of(const config::Config& config) {
    std::string out;
    for (const config::Route& route : config.routes) {
        if (!out.empty()) out += ' ';
        out += route.name + ">" + config.upstreams.at(route.upstream).name + ":";
        std::string names;
        for (const config::PolicySettings* policy : route.policies) {
            if (!names.empty()) names += ',';
            names += policy->name;
        }
        out += names;
    }
    return out;
}

std::string routes_of(const std::string& text) {
    const auto loaded = load(text);
    for (const auto& warning : loaded.warnings) FAIL_CHECK(warning.to_string());
    return routes_of(*loaded.config);
}

std::string first_fault(const std::string& text) {
    const auto loaded = config::load_text(text, "t");
    CHECK(loaded.config == nullptr);
    return loaded.errors.empty() ? "" : loaded.errors[0].to_string();
}

}  // namespace

TEST_CASE("short form: alone it is one upstream, one policy and one route, all named default") {
    CHECK(routes_of(kShort) == "default>default:default");
    CHECK(routes_of("upstream: http://127.0.0.1:3000\n") == "default>default:");
}

TEST_CASE("short form: routes are added before the last route, which keeps its limits") {
    const std::string login =
        "routes:\n  - {name: login, match: {path: /login}, "
        "policies: [{key: [ip], limits: [5/min]}]}\n";
    const auto loaded = load(kShort + login);
    CHECK(loaded.warnings.empty());
    CHECK(routes_of(*loaded.config) == "login>default:login/0 default>default:default");
    const http::Fields none;
    CHECK(loaded.config->router.match({"GET", "/login", "h", &none}).route == 0);
    CHECK(loaded.config->router.match({"GET", "/other", "h", &none}).route == 1);
    // The order of the keys in the file means nothing.
    CHECK(routes_of(login + kShort) == "login>default:login/0 default>default:default");
}

TEST_CASE("short form: routes may name the policy default and the upstream default") {
    CHECK(routes_of(kShort +
                    "routes: [{match: {path: /a}, upstream: default, policies: [default]}]\n") ==
          "/a>default:default default>default:default");
}

TEST_CASE("short form: policies stand beside it, and default_policies apply to the last route") {
    const std::string strict = "policies: {strict: {key: [ip], limits: [5/h]}}\n";
    CHECK(routes_of(kShort + strict + "routes: [{match: {path: /a}, policies: [strict]}]\n") ==
          "/a>default:strict default>default:default");
    CHECK(routes_of(kShort + strict + "default_policies: [strict]\n") ==
          "default>default:strict,default");
    // Named there as well, the limits count once.
    CHECK(routes_of(kShort + strict + "default_policies: [default, strict]\n") ==
          "default>default:default,strict");
    CHECK(routes_of("upstream: http://127.0.0.1:3000\n" + strict +
                    "default_policies: [strict]\n") == "default>default:strict");
}

TEST_CASE("short form: a name at `upstream` is one of upstreams, a URL one more") {
    CHECK(routes_of("upstreams: {api: {servers: [http://127.0.0.1:3001]}}\n"
                    "upstream: api\nlimits: [10/s]\n") == "default>api:default");
    CHECK(routes_of(kUpstreams + "upstream: api\n" +
                    "routes: [{match: {path: /w}, upstream: web, policies: []}]\n") ==
          "/w>web: default>api:");
    CHECK(routes_of(kUpstreams + "upstream: http://127.0.0.1:3000\n" +
                    "routes: [{match: {path: /w}, upstream: web, policies: []},"
                    " {match: {path: /a}, upstream: api, policies: []}]\n") ==
          "/w>web: /a>api: default>default:");
    CHECK(routes_of("upstreams: {default: {servers: [http://127.0.0.1:3001]}}\n"
                    "upstream: default\n") == "default>default:");
    CHECK(routes_of("upstreams: {api: {servers: [http://127.0.0.1:3001]}}\n"
                    "upstream: \"unix:/run/app.sock\"\n"
                    "routes: [{match: {path: /a}, upstream: api, policies: []}]\n") ==
          "/a>api: default>default:");
}

TEST_CASE("short form: routes that name no upstream go to the one at the top") {
    CHECK(routes_of(kUpstreams + "upstream: web\n" +
                    "routes: [{match: {path: /a}, upstream: api, policies: []},"
                    " {match: {path: /b}, policies: []}]\n") == "/a>api: /b>web: default>web:");
}

TEST_CASE("short form: a route that takes everything is the last one itself") {
    const std::string all = "routes: [{match: {path: /a}, policies: []}, {policies: [default]}]\n";
    CHECK(routes_of(kShort + all) == "/a>default: /**>default:default");
    CHECK(routes_of("upstream: http://127.0.0.1:3000\nroutes: [{policies: []}]\n") ==
          "/**>default:");
    // One with a condition does not take everything.
    CHECK(routes_of(kShort + "routes: [{match: {path: /**, methods: [GET]}, policies: []}]\n") ==
          "GET:/**>default: default>default:default");
    CHECK(routes_of(kShort + "routes: [{match: {host: a.example}, policies: []}]\n") ==
          "a.example/**>default: default>default:default");
}

TEST_CASE("short form: the last route has at most as many policies and keys as any") {
    std::string policies = "policies:\n";
    std::string names;
    for (int i = 0; i < 16; ++i) {
        const std::string name = "p" + std::to_string(i);
        policies += "  " + name + ": {key: [ip], limits: [" + std::to_string(i + 1) + "/h]}\n";
        names += (i == 0 ? "" : ", ") + name;
    }
    CHECK(first_fault(kShort + policies + "default_policies: [" + names + "]\n") ==
          "t:1:11: upstream: more than 16 policies on the last route");
    CHECK(
        load("upstream: http://127.0.0.1:3000\n" + policies + "default_policies: [" + names + "]\n")
            .config->routes.at(0)
            .policies.size() == 16);
}

}  // namespace tidegate::config_short_form_test
