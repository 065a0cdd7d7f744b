#include <string>

#include <doctest/doctest.h>

#include "ask/request_checks.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::ask::request_checks_test {

namespace {

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";

}  // namespace

TEST_CASE("request: framing that could be read in two ways ends here, and the connection with it") {
    World world(kUpstream);
    const Request request(world, get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"));
    CHECK(request.decision.fault == Fault::bad_framing);
    CHECK(traits(request.decision.fault).close);
}

TEST_CASE("request: CONNECT is not supported") {
    World world(kUpstream);
    const Request request(world, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
    CHECK(request.decision.fault == Fault::unsupported_method);
}

TEST_CASE("request: an extended CONNECT asks for a WebSocket, and has no length") {
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

TEST_CASE("request: TRACE is not supported in any case, and no other method is taken for it") {
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

TEST_CASE("request: a method that a gateway names meets the same check") {
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

TEST_CASE("request: the authority of the target outranks Host") {
    World world(kUpstream);
    const Request request(world,
                          "GET http://right.example/ HTTP/1.1\r\nHost: wrong.example\r\n\r\n");
    CHECK(request.facts.host == "right.example");
}

}  // namespace tidegate::ask::request_checks_test
