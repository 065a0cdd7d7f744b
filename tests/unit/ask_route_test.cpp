#include <string>

#include <doctest/doctest.h>

#include "ask/request_checks.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::ask::route_test {

namespace {

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";

}  // namespace

TEST_CASE("route: a body that is announced to be too large is refused before it comes") {
    World world(kUpstream + "limits_on_requests: {body_bytes: 1000}\n");
    CHECK(Request(world, get("Content-Length: 1000\r\n")).decide() == Fault::none);
    CHECK(Request(world, get("Content-Length: 1001\r\n")).decide() == Fault::body_too_large);
}

TEST_CASE("route: a body may be as large as its own route says, more or less than elsewhere") {
    World world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
        "limits_on_requests: {body_bytes: 1000}\nroutes:\n"
        "  - {match: {path: /large}, limits_on_requests: {body_bytes: 2000}, policies: []}\n"
        "  - {match: {path: /none}, limits_on_requests: {body_bytes: 0}, policies: []}\n"
        "  - {match: {path: /any}, limits_on_requests: {body_bytes: unlimited}, policies: []}\n"
        "  - {match: {path: /rest}, policies: []}\n");
    const auto fault = [&](const std::string& path, const std::string& bytes) {
        return Request(world, "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + bytes +
                                  "\r\n\r\n")
            .decide();
    };
    CHECK(fault("/large", "2000") == Fault::none);
    CHECK(fault("/large", "2001") == Fault::body_too_large);
    CHECK(fault("/none", "0") == Fault::none);
    CHECK(fault("/none", "1") == Fault::body_too_large);
    CHECK(fault("/any", "1000000000000") == Fault::none);
    CHECK(fault("/rest", "1000") == Fault::none);
    CHECK(fault("/rest", "1001") == Fault::body_too_large);
    CHECK(fault("/nowhere", "1001") == Fault::no_route);
}

TEST_CASE("route: a refused body is not counted and names no user") {
    World world(
        "upstream: http://127.0.0.1:3000\nlimits: [1/h]\n"
        "limits_on_requests: {body_bytes: 10}\n");
    Request request(world, get("Content-Length: 11\r\n"));
    CHECK(request.decide() == Fault::body_too_large);
    CHECK(request.decision.charge.items.empty());
    CHECK(request.decision.route != nullptr);
}

TEST_CASE("route: a path that spells a removed prefix in another way is 400, and says so") {
    const auto fault = [&](const std::string& route_case, const std::string& path) {
        World world("upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes_ignore_case: " +
                    route_case +
                    "\nroutes:\n  - {match: {path: /api/**}, strip_prefix: /api, policies: []}\n");
        Request request(world, "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n");
        request.decide();
        if (request.decision.fault == Fault::ambiguous_path && request.decision.route != nullptr) {
            CHECK(has(std::string(request.decision.fault_detail), "removes the beginning"));
        }
        return request.decision.fault;
    };
    CHECK(fault("auto", "/api/x") == Fault::none);
    CHECK(fault("auto", "/api") == Fault::none);
    CHECK(fault("auto", "/api/../api/x") == Fault::ambiguous_path);
    CHECK(fault("auto", "/api//x") == Fault::ambiguous_path);
    CHECK(fault("auto", "/%61pi/x") == Fault::ambiguous_path);
    CHECK(fault("auto", "//api/x") == Fault::ambiguous_path);
    CHECK(fault("auto", "/API/x") == Fault::ambiguous_path);
    CHECK(fault("on", "/API/x") == Fault::none);
    CHECK(fault("on", "/API/../api/x") == Fault::ambiguous_path);
    CHECK(fault("off", "/API/x") == Fault::no_route);
}

TEST_CASE("route: a path that no route takes is 404, one that reads in two ways 400") {
    World world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes:\n"
        "  - {name: a, match: {path: /a}, upstream: api, policies: []}\n"
        "  - {name: b, match: {path: /b/**}, upstream: api, policies: []}\n");
    const auto fault = [&](const std::string& path) {
        return Request(world, "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n").decide();
    };
    CHECK(fault("/a") == Fault::none);
    CHECK(fault("/c") == Fault::no_route);
    CHECK(fault("/b/..%2fa") == Fault::ambiguous_path);
    CHECK(fault("/a%zz") == Fault::bad_path);
}

TEST_CASE(
    "route: a path or method that only its case keeps from another route is 400, and says so") {
    World world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes:\n"
        "  - {name: login, match: {path: /login, methods: [POST]}, upstream: api, policies: []}\n"
        "  - {name: rest, upstream: api, policies: []}\n");
    const auto detail = [&](const std::string& line, Fault fault) {
        Request request(world, line + " HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK(request.decide() == fault);
        return request.decision.fault_detail;
    };
    CHECK(detail("POST /LOGIN", Fault::ambiguous_path) ==
          "The path takes another route if the case of its letters is ignored.");
    CHECK(detail("Post /login", Fault::bad_head) ==
          "The method differs from a known one only in case.");
    CHECK(detail("GET /LOGIN", Fault::none).empty());
}

TEST_CASE("route: where nothing removes an override, a request that has one is refused") {
    World world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes:\n"
        "  - {match: {path: /a, methods: [DELETE]}, policies: []}\n  - {policies: []}\n");
    const auto fault = [&](const std::string& field, bool keeps_fields = true) {
        Request request(world, "POST /b?c=d HTTP/1.1\r\nHost: h\r\n" + field + "\r\n\r\n");
        request.facts.keeps_fields = keeps_fields;
        const Fault why = request.decide();
        CHECK((why == Fault::none || traits(why).status == 400));
        CHECK_FALSE(traits(why).close);  // it may be the gateway's connection
        return why;
    };
    for (const std::string field :
         {"X-HTTP-Method-Override: DELETE", "x_http_method: DELETE", "X-Method.Override: PUT",
          "X-HTTP-Method: post", "X-HTTP-Method:", "X-Original-URL: /a", "x_rewrite_url: /a",
          "X-Original-URL: https://h/b", "X-Original-URL: https://h", "X-Rewrite-URL: /b?c=e",
          "X-Original-URL: /a?x=://h/b?c=d", "X-Rewrite-URL: /a;://h/b?c=d",
          "X-Original-URL: https://h?x=/b?c=d", "X-Original-URL: x://h/b?c=d"}) {
        CAPTURE(field);
        CHECK(fault(field) == Fault::ambiguous_name);
        CHECK(fault(field, false) == Fault::none);
    }
    // What names the same is no override: ingress controllers write the target for whom they ask.
    for (const std::string field : {"X-HTTP-Method-Override: POST", "X-Original-URL: /b?c=d",
                                    "X-Original-URL: https://shop.example:8443/b?c=d",
                                    "X-Original-URI: /a", "X-Other: DELETE"}) {
        CAPTURE(field);
        CHECK(fault(field) == Fault::none);
    }
    World single("upstream: http://127.0.0.1:3000\nlimits: [9/s]\n");
    Request request(single, get("X-HTTP-Method: PUT\r\nX-Original-URL: /a\r\n"));
    request.facts.keeps_fields = true;
    CHECK(request.decide() == Fault::none);
}

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

}  // namespace tidegate::ask::route_test
