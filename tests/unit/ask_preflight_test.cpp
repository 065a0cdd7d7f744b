#include <string>

#include <doctest/doctest.h>

#include "ask/preflight.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::ask::preflight_test {

namespace {

const std::string kCors = ", cors: {origins: [\"https://a.test\"], preflight: 5/s}";
const std::string kFields = "Origin: https://evil.test\r\nAccess-Control-Request-Method: PUT\r\n";

std::string options(const std::string& fields, const std::string& path = "/") {
    return "OPTIONS " + path + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}

std::string yaml(const std::string& cors, const std::string& policy =
                                              "{key: [ip, user], limits:"
                                              " [10/s]}") {
    return "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
           "identity: {client_ip: {trusted_proxies: [203.0.113.0/24], ipv6_prefix: [48, 64]},"
           " user: [{header: {name: x-user-id, from: trusted_proxies}}]}\n"
           "routes: [{cost: 7, policies: [" +
           policy + "]" + cors + "}]\n";
}

bool is_preflight(const std::string& bytes, const std::string& identity = "") {
    World world("upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n" + identity +
                "routes: [{policies: [{key: ['header:x-session-id'], limits: [10/s]}]" + kCors +
                "}]\n");
    Request request(world, bytes);
    return ask::is_preflight(request.facts, world.rules.config->credential_fields);
}

}  // namespace

TEST_CASE("preflight: OPTIONS with an origin and the method that is meant, and no body") {
    CHECK(is_preflight(options(kFields)));
    CHECK(is_preflight(options("oRIGIN: null\r\naccess-control-request-METHOD: x\r\n")));
    CHECK(is_preflight(options(kFields + "Origin: https://b.test\r\n")));
    CHECK(is_preflight(options(kFields + "Content-Length: 0\r\n")));
    CHECK(is_preflight(options(kFields + "Content-Length: 00\r\n")));
    CHECK_FALSE(is_preflight(options("Origin: https://a.test\r\n")));
    CHECK_FALSE(is_preflight(options("Access-Control-Request-Method: PUT\r\n")));
    CHECK_FALSE(is_preflight(get(kFields)));
    CHECK_FALSE(is_preflight(options(kFields + "Content-Length: 1\r\n")));
    CHECK_FALSE(is_preflight(options(kFields + "Transfer-Encoding: chunked\r\n")));
    CHECK_FALSE(is_preflight(options(kFields + "Connection: origin\r\n")));
    CHECK_FALSE(
        is_preflight(options("Origin: https://a.test\r\nAccess_Control_Request_Method: PUT\r\n")));
    // The client's stream goes on behind a head that announces nothing.
    World world(yaml(kCors));
    Request request(world, options(kFields));
    request.facts.has_body = true;
    CHECK(request.decide() == Fault::none);
    CHECK_FALSE(request.decision.is_preflight);
}

TEST_CASE("preflight: an empty origin or method is none") {
    const std::string origin = "Origin: https://a.test\r\n";
    const std::string method = "Access-Control-Request-Method: PUT\r\n";
    for (const std::string blank : {"", "\xc2\xa0", "\xa0"}) {
        CAPTURE(blank);
        CHECK_FALSE(is_preflight(options("Origin: " + blank + "\r\n" + method)));
        CHECK_FALSE(is_preflight(options(kFields + "Origin: " + blank + "\r\n")));
        CHECK_FALSE(
            is_preflight(options(origin + "Access-Control-Request-Method: " + blank + "\r\n")));
    }
    CHECK_FALSE(is_preflight(options(origin + "Access-Control-Request-Method: A B\r\n")));
}

TEST_CASE("preflight: a request with credentials is none, whichever field holds them") {
    const auto with = [](const std::string& field, const std::string& user = "") {
        const std::string identity =
            user.empty() ? ""
                         : "identity: {client_ip: {trusted_proxies: [203.0.113.0/24]}, user: [{" +
                               user + "}]}\n";
        return is_preflight(options(kFields + field + ": a\r\n"), identity);
    };
    for (const std::string field : {"Authorization", "Proxy-Authorization", "cookie",
                                    "X-Session-Id", "X_Session_Id", "x-session.id"}) {
        CAPTURE(field);
        CHECK_FALSE(with(field));
    }
    CHECK(with("X-Api-Key"));
    CHECK(with("X-User-Id"));
    const std::string header = "header: {name: x-user-id, from: trusted_proxies}";
    CHECK_FALSE(with("X-User-Id", header));
    CHECK_FALSE(with("X_User_Id", header));
    CHECK(with("X-Other", header));
}

TEST_CASE(
    "preflight: a field that names another method or target makes it a request like any other") {
    for (const std::string field : {"X-HTTP-Method-Override: POST", "x_http_method: POST",
                                    "X-Method-Override: OPTIONS", "X-Original-URL: /login"}) {
        CAPTURE(field);
        CHECK_FALSE(is_preflight(options(kFields + field + "\r\n"), "method_override: pass\n"));
    }
}

TEST_CASE("preflight: only its own limit counts it, by address, whatever its origin and user") {
    World world(yaml(kCors));
    Request request(world, options(kFields), true);
    CHECK(request.decide() == Fault::none);
    CHECK(request.decision.is_preflight);
    CHECK_FALSE(request.decision.user);
    CHECK(request.identifiers() == "/**/preflight=ip:203.0.113.7 ");
    CHECK(request.decision.charge.cost == 1);
    // A request that is none has the policies of the route.
    for (const std::string& bytes :
         {get(kFields + "X-User-Id: alice\r\n"), options(kFields + "X-User-Id: alice\r\n")}) {
        Request other(world, bytes, true);
        CHECK(other.decide() == Fault::none);
        CHECK_FALSE(other.decision.is_preflight);
        CHECK(other.identifiers() == "/**/0=ip:203.0.113.7 /**/0=user:alice ");
    }
}

TEST_CASE("preflight: every prefix of an IPv6 address is counted") {
    World world(yaml(kCors));
    Request request(world, options(kFields), false, "2001:db8::1");
    CHECK(request.decide() == Fault::none);
    CHECK(request.identifiers() ==
          "/**/preflight=ip:2001:db8::/48 /**/preflight=ip:2001:db8::/64 ");
}

TEST_CASE("preflight: clients without an address share one count") {
    World world(yaml(kCors));
    Request request(world, options(kFields), false);
    request.facts.peer = {std::nullopt, true};
    CHECK(request.decide() == Fault::none);
    CHECK(request.identifiers() == "/**/preflight=shared:ip ");
}

TEST_CASE("preflight: it needs no user where the route's policies do") {
    World world(yaml(kCors, "{key: [user], limits: [10/s], on_missing: reject}"));
    CHECK(Request(world, options(kFields)).decide() == Fault::none);
    CHECK(Request(world, get()).decide() != Fault::none);
}

TEST_CASE("preflight: without cors it is a request like any other") {
    for (const std::string cors : {"", ", cors: off"}) {
        World world(yaml(cors));
        Request request(world, options(kFields));
        CHECK(request.decide() == Fault::none);
        CHECK_FALSE(request.decision.is_preflight);
        CHECK(request.identifiers() == "/**/0=ip:203.0.113.7 ");
        CHECK(request.decision.charge.cost == 7);
    }
}

TEST_CASE("preflight: a denied network stays denied") {
    World world(yaml(kCors, "{key: [ip], limits: [10/s], deny: [203.0.113.0/28, \"user:x\"]}"));
    CHECK(Request(world, options(kFields)).decide() == Fault::denied);
    CHECK(Request(world, options(kFields), false, "203.0.113.77").decide() == Fault::none);
    World shadow(yaml(kCors, "{key: [ip], limits: [10/s], deny: [203.0.113.0/28], mode: shadow}"));
    CHECK(Request(shadow, options(kFields)).decide() == Fault::none);
}

}  // namespace tidegate::ask::preflight_test
