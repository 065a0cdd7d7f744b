// `response.cors`, `cors` of routes, `response.extra_headers`, and answers of a policy's own.
#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"

namespace tidegate::config_cors_test {

using config::Config;
using config::Loaded;

namespace {

using namespace std::chrono_literals;

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";
const std::string kUpstreams = "upstreams: {a: {servers: [http://127.0.0.1:3000]}}\n";

std::shared_ptr<const Config> read(const std::string& text) {
    const Loaded loaded = config::load_text(text, "t");
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return loaded.config;
}

std::string cors(const std::string& settings) {
    return "response: {cors: {" + settings + "}}\n";
}

}  // namespace

TEST_CASE("config: cors is off unless it is written") {
    for (const std::string more : {"", "response: {cors: off}\n"}) {
        const auto config = read(kUpstream + more);
        CHECK(config->response.cors == nullptr);
        CHECK(config->routes.at(0).cors == nullptr);
        CHECK(config->policies.empty());
    }
}

TEST_CASE("config: cors has all its settings, and every route takes those of response") {
    const auto config =
        read(kUpstream + cors("origins: [\"https://app.example.com\", \"https://*.example.org\"], "
                              "credentials: on, max_age: 10min, preflight: 20/s"));
    const config::Cors* const cors = config->response.cors;
    REQUIRE(cors != nullptr);
    CHECK(config->routes.at(0).cors == cors);
    CHECK(cors->origins.patterns.size() == 2);
    CHECK(cors->origins.include("https://b.example.org"));
    CHECK(cors->credentials);
    CHECK(cors->max_age == 600s);
    REQUIRE(cors->preflight != nullptr);
    CHECK(cors->preflight->name == "preflight");
    CHECK(cors->preflight->limits.at(0).quota == 20);
    CHECK(cors->preflight->key.at(0).on_missing == limit::OnMissing::shared);
    CHECK(config->limit_lists.at(cors->preflight->index).policy == cors->preflight);
}

TEST_CASE("config: preflights have a limit of 50/s where none is written") {
    const auto config = read(kUpstream + cors("origins: [\"*\"]"));
    const config::PolicySettings& preflight = *config->response.cors->preflight;
    CHECK(config->response.cors->origins.any);
    CHECK(config->response.cors->max_age == 0s);
    CHECK(preflight.limits.at(0).quota == 50);
    CHECK(preflight.limits.at(0).duration == limit::Micros{1'000'000});
    CHECK(preflight.on_store_failure == limit::OnStoreFailure::local_or_alone);
}

TEST_CASE("config: a route has its own cors or none; its preflights share a limit by default") {
    const auto config = read(kUpstreams + cors("origins: [\"https://a.test\"], preflight: 20/s") +
                             "routes:\n"
                             "  - {name: own, match: {path: /own}, policies: [], cors: {origins: "
                             "[\"https://b.test\"]}}\n"
                             "  - {name: off, match: {path: /off}, policies: [], cors: off}\n"
                             "  - {name: two, match: {path: /two}, policies: [],"
                             " cors: {origins: [\"null\"], preflight: [5/s, 100/min]}}\n"
                             "  - {name: rest, policies: []}\n");
    const auto& routes = config->routes;
    REQUIRE(routes.size() == 4);
    CHECK(routes[0].cors->origins.include("https://b.test"));
    CHECK_FALSE(routes[0].cors->origins.include("https://a.test"));
    CHECK(routes[0].cors->preflight == config->response.cors->preflight);
    CHECK(routes[1].cors == nullptr);
    CHECK(routes[2].cors->origins.opaque);
    CHECK(routes[2].cors->preflight->name == "two/preflight");
    CHECK(routes[2].cors->preflight->limits.size() == 2);
    CHECK(routes[3].cors == config->response.cors);
}

TEST_CASE("config: routes with cors have the default limit of preflights without response.cors") {
    const auto config =
        read(kUpstreams + "routes: [{policies: [], cors: {origins: [\"https://b.test\"]}}]\n");
    CHECK(config->response.cors == nullptr);
    CHECK(config->routes.at(0).cors->preflight->name == "preflight");
}

TEST_CASE("config: scripts may read the fields that answers have") {
    CHECK(read(kUpstream)->response.exposed_fields ==
          "RateLimit, RateLimit-Policy, Retry-After, X-Request-Id");
    CHECK(read(kUpstream + "response: {headers: [x-ratelimit]}\n")->response.exposed_fields ==
          "Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id");
}

TEST_CASE("config: an answer without a request names no origin but `*`") {
    const std::string extra = "response: {extra_headers: {X-A: b}, cors: {origins: ";
    CHECK(read(kUpstream + extra + "[\"https://a.test\"]}}\n")->response.lines_without_request ==
          "X-A: b\r\nVary: Origin\r\n");
    CHECK(read(kUpstream + extra + "\"*\"}}\n")->response.lines_without_request ==
          "X-A: b\r\nVary: Origin\r\nAccess-Control-Allow-Origin: *\r\n"
          "Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After, "
          "X-Request-Id\r\n");
}

TEST_CASE("config: extra fields are whole lines, in the order written") {
    const auto config = read(kUpstream +
                             "response: {request_id: on, extra_headers: {Strict-Transport-Security:"
                             " max-age=31536000, X-Robots-Tag: \"none, noarchive\"}}\n");
    CHECK(config->response.request_id);
    CHECK(config->response.extra_lines ==
          "Strict-Transport-Security: max-age=31536000\r\nX-Robots-Tag: none, noarchive\r\n");
}

TEST_CASE("config: a policy has its own status and body, on a route as well") {
    const auto config =
        read(kUpstreams +
             "policies: {tenants: {key: [ip], limits: [1/s], status: 503,"
             " body: {content_type: text/plain, text: busy}}}\n"
             "routes: [{policies: [tenants, {key: [ip], limits: [2/s], status: 420, body: problem},"
             " {key: [ip], limits: [3/s]}]}]\n");
    const auto& policies = config->routes.at(0).policies;
    CHECK(policies.at(0)->status == 503);
    REQUIRE(policies[0]->body);
    CHECK(policies[0]->body->content_type == "text/plain");
    CHECK(policies[0]->body->text == "busy");
    CHECK(policies.at(1)->status == 420);
    REQUIRE(policies[1]->body);
    CHECK(policies[1]->body->content_type.empty());
    CHECK(policies.at(2)->status == 0);
    CHECK_FALSE(policies[2]->body);
}

}  // namespace tidegate::config_cors_test
