// `upstream` and `limits` at the top, alone and beside the long form.
#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"

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
        for (const config::Policy* policy : route.policies) {
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
