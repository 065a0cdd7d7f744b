#include <string>

#include <doctest/doctest.h>

#include "unit/ask_world.hpp"

using namespace tidegate;
using namespace tidegate::ask;

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

TEST_CASE("route: a body that is announced to be too large is refused before it comes") {
    World world(kUpstream + "limits_on_requests: {body_bytes: 1000}\n");
    CHECK(Request(world, get("Content-Length: 1000\r\n")).decision.fault == Fault::none);
    CHECK(Request(world, get("Content-Length: 1001\r\n")).decision.fault == Fault::body_too_large);
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
