#include <string>

#include <doctest/doctest.h>

#include "unit/ask_world.hpp"

namespace tidegate::ask::route_test {

namespace {

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";

}  // namespace

TEST_CASE("route: framing that could be read in two ways ends here, and the connection with it") {
    World world(kUpstream);
    const Request request(world, get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"));
    CHECK(request.decision.fault == Fault::bad_framing);
    CHECK(traits(request.decision.fault).close);
}

TEST_CASE("route: CONNECT is not supported") {
    World world(kUpstream);
    const Request request(world, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
    CHECK(request.decision.fault == Fault::unsupported_method);
}

TEST_CASE("route: an extended CONNECT asks for a WebSocket, and has no length") {
    World world(kUpstream);
    const auto judged = [&](std::string_view protocol, const std::string& fields) {
        Request request(world, get());
        request.bytes = get(fields);
        REQUIRE(http::parse_request_head(request.bytes, {}, request.facts.head) ==
                http::HeadFault::none);
        request.decision.reset();
        request.facts.is_http2 = true;
        request.facts.protocol = protocol;
        check_framing(request.facts, request.framing, request.decision);
        CHECK((request.decision.fault != Fault::none ||
               request.framing.body == http::BodyKind::none));
        return request.decision.fault;
    };
    const std::string version = "sec-websocket-version: 13\r\n";
    CHECK(judged("websocket", version) == Fault::none);
    // The route decides what to do about it.
    CHECK(judged("websocket", "") == Fault::none);
    CHECK(judged("websocket", version + "expect: 100-continue\r\n") == Fault::none);
    CHECK(judged("connect-udp", version) == Fault::unsupported_method);
    CHECK(judged("websocket", version + "content-length: 0\r\n") == Fault::bad_framing);
    CHECK(judged("websocket", version + "content-length: 5\r\n") == Fault::bad_framing);
    CHECK(judged("connect-udp", "content-length: 5\r\n") == Fault::bad_framing);
    CHECK(judged("", "content-length: 0\r\n") == Fault::none);
}

TEST_CASE("route: TRACE is not supported in any case, and no other method is taken for it") {
    World world(kUpstream);
    const auto fault = [&](const std::string& method, const std::string& target) {
        return Request(world, method + " " + target + " HTTP/1.1\r\nHost: a\r\n\r\n").decide();
    };
    for (const std::string method : {"TRACE", "trace", "Trace"}) {
        CAPTURE(method);
        CHECK(fault(method, "/") == Fault::unsupported_method);
        CHECK(fault(method, "http://a/x") == Fault::unsupported_method);
    }
    CHECK(traits(Fault::unsupported_method).status == 501);
    for (const std::string method : {"TRACK", "TRACES", "TRAC", "OPTIONS"}) {
        CAPTURE(method);
        CHECK(fault(method, "/") == Fault::none);
    }
}

TEST_CASE("route: a method that a gateway names meets the same check") {
    const auto fault = [](const std::string& method) {
        Decision decision;
        check_method(method, decision);
        return decision.fault;
    };
    for (const std::string method : {"TRACE", "trace", "CONNECT"}) {
        CHECK(fault(method) == Fault::unsupported_method);
    }
    for (const std::string method : {"GET", "TRACES", "connect"}) {
        CHECK(fault(method) == Fault::none);
    }
}

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

TEST_CASE("route: the authority of the target outranks Host") {
    World world(kUpstream);
    const Request request(world,
                          "GET http://right.example/ HTTP/1.1\r\nHost: wrong.example\r\n\r\n");
    CHECK(request.facts.host == "right.example");
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

}  // namespace tidegate::ask::route_test
