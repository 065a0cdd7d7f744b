// Routes as the configuration reads them: the case of their paths, and their names.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"

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
