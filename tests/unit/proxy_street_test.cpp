#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "unit/proxy_world.hpp"

using namespace tidegate;
using namespace tidegate::proxy;
using namespace std::chrono_literals;
using limit::Micros;
using Decided = store::Decision::Result;

namespace {

// A denial by the limits of one policy.
std::int64_t seconds_told(Micros retry_after, const std::vector<limit::LimitVerdict>& verdicts,
                          bool shadow = false) {
    limit::Policy policy;
    policy.limits.resize(verdicts.size());
    policy.shadow = shadow;
    store::Decision decision;
    decision.items.push_back({&policy, "ip:203.0.113.7"});
    decision.verdict.admitted = false;
    decision.verdict.retry_after = retry_after;
    decision.verdict.limits = verdicts;
    return retry_after_seconds(decision);
}

std::int64_t seconds_told(Micros retry_after, Micros next_unit) {
    return seconds_told(retry_after, {{.remaining = 0, .next_unit = next_unit, .denied = true}});
}

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";
const std::string kTrusting =
    "identity: {client_ip: {trusted_proxies: [203.0.113.0/24]},"
    " user: [{header: {name: x-user-id, from: trusted_proxies}}]}\n";

}  // namespace

TEST_CASE("street: Retry-After is whole seconds, rounded up, and at least 1") {
    CHECK(seconds_told(0us, 0us) == 1);
    CHECK(seconds_told(1us, 0us) == 1);
    CHECK(seconds_told(1s, 0us) == 1);
    CHECK(seconds_told(1s + 1us, 0us) == 2);
    CHECK(seconds_told(1h, 0us) == 3600);
}

TEST_CASE("street: Retry-After is never earlier than the next unit of a limit that refused") {
    CHECK(seconds_told(1s, 5s) == 5);
    const limit::LimitVerdict two{.remaining = 0, .next_unit = 2s, .denied = true};
    CHECK(seconds_told(1s, {two, {.remaining = 3, .next_unit = 9s, .denied = false}}) == 2);
    CHECK(seconds_told(1s, {two}, true) == 1);
}

TEST_CASE("street: what would never pass is given no time to come back") {
    CHECK(seconds_told(limit::kNever, 1s) == 0);
    CHECK(seconds_told(3s, limit::kNever) == 3);
}

TEST_CASE("street: framing that could be read in two ways ends here, and the connection with it") {
    World world(kUpstream);
    const Request request(world, get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"));
    CHECK(request.exchange.fault == Fault::bad_framing);
    CHECK(traits(request.exchange.fault).close);
    CHECK_FALSE(request.exchange.keep_alive);
}

TEST_CASE("street: CONNECT is not supported") {
    World world(kUpstream);
    const Request request(world, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
    CHECK(request.exchange.fault == Fault::unsupported_method);
}

TEST_CASE("street: a body that is announced to be too large is refused before it comes") {
    World world(kUpstream + "limits_on_requests: {body_bytes: 1000}\n");
    CHECK(Request(world, get("Content-Length: 1000\r\n")).exchange.fault == Fault::none);
    CHECK(Request(world, get("Content-Length: 1001\r\n")).exchange.fault == Fault::body_too_large);
}

TEST_CASE("street: the authority of the target outranks Host") {
    World world(kUpstream);
    const Request request(world,
                          "GET http://right.example/ HTTP/1.1\r\nHost: wrong.example\r\n\r\n");
    CHECK(request.exchange.host == "right.example");
}

TEST_CASE("street: a path that no route takes is 404, one that reads in two ways 400") {
    World world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes:\n"
        "  - {name: a, match: {path: /a}, upstream: api, policies: []}\n"
        "  - {name: b, match: {path: /b/**}, upstream: api, policies: []}\n");
    const auto fault = [&](const std::string& path) {
        return Request(world, "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n").walk();
    };
    CHECK(fault("/a") == Fault::none);
    CHECK(fault("/c") == Fault::no_route);
    CHECK(fault("/b/..%2fa") == Fault::ambiguous_path);
    CHECK(fault("/a%zz") == Fault::bad_path);
}

TEST_CASE(
    "street: a path or method that only its case keeps from another route is 400, and says so") {
    World world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes:\n"
        "  - {name: login, match: {path: /login, methods: [POST]}, upstream: api, policies: []}\n"
        "  - {name: rest, upstream: api, policies: []}\n");
    const auto detail = [&](const std::string& line, Fault fault) {
        Request request(world, line + " HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK(request.walk() == fault);
        return request.exchange.fault_detail;
    };
    CHECK(detail("POST /LOGIN", Fault::ambiguous_path) ==
          "The path takes another route if the case of its letters is ignored.");
    CHECK(detail("Post /login", Fault::bad_head) ==
          "The method differs from a known one only in case.");
    CHECK(detail("GET /LOGIN", Fault::none).empty());
}

TEST_CASE("street: a request id is taken from a trusted peer only, and only one that is a token") {
    World world(kUpstream + kTrusting);
    const auto id = [&](const std::string& field, bool trusted) {
        Request request(world, get("X-Request-Id: " + field + "\r\n"), trusted);
        request.walk();
        return request.exchange.request_id;
    };
    CHECK(id("theirs", true) == "theirs");
    CHECK(id("theirs", false) == "made-here");
    CHECK(id("two words", true) == "made-here");
    CHECK(id("", true) == "made-here");
    CHECK(id(std::string(128, 'a'), true) == std::string(128, 'a'));
    CHECK(id(std::string(129, 'a'), true) == "made-here");
    CHECK(id("one\r\nX-Request-Id: two", true) == "made-here");
}

TEST_CASE("street: each key that is there is counted for itself, a user who is absent is skipped") {
    World world(kUpstream + "limits: [10/s]\n" + kTrusting);
    Request both(world, get("X-User-Id: alice\r\nX-Forwarded-For: 198.51.100.1\r\n"), true);
    CHECK(both.walk() == Fault::none);
    CHECK(both.identifiers() == "default=ip:198.51.100.1 default=user:alice ");
    Request stranger(world, get("X-User-Id: alice\r\n"), false);
    CHECK(stranger.walk() == Fault::none);
    CHECK(stranger.identifiers() == "default=ip:203.0.113.7 ");
}

TEST_CASE("street: an IPv6 client is counted by each prefix, an IPv4 client once") {
    World world(kUpstream + "limits: [10/s]\nidentity: {client_ip: {ipv6_prefix: [64, 128]}}\n");
    Request six(world, get(), false, "2001:db8:1:2:3::4");
    CHECK(six.walk() == Fault::none);
    CHECK(six.identifiers() == "default=ip:2001:db8:1:2::/64 default=ip:2001:db8:1:2:3::4 ");
    Request four(world, get());
    CHECK(four.walk() == Fault::none);
    CHECK(four.identifiers() == "default=ip:203.0.113.7 ");
}

TEST_CASE("street: identifiers stay good however many there are") {
    World world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
        "policies:\n  a: {key: [ip, user], limits: [1/s]}\n  b: {key: [user, ip], limits: [1/s]}\n"
        "routes: [{name: all, match: {path: \"/**\"}, upstream: api, policies: [a, b]}]\n" +
        kTrusting);
    const std::string name(250, 'u');
    Request request(world, get("X-User-Id: " + name + "\r\n"), true);
    CHECK(request.walk() == Fault::none);
    const auto& items = request.exchange.decision.items;
    REQUIRE(items.size() == 4);
    CHECK(items[0].identifier == "ip:203.0.113.7");
    CHECK(items[1].identifier == items[2].identifier);
    CHECK(items[1].identifier.starts_with("user:#"));
    CHECK(items[3].identifier == "ip:203.0.113.7");
}

TEST_CASE("street: who names nobody that a policy could count is refused, not let through") {
    World world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
        "policies:\n  a: {key: [user], limits: [1/s]}\n"
        "routes: [{name: all, match: {path: \"/**\"}, upstream: api, policies: [a]}]\n" +
        kTrusting);
    Request request(world, get());
    CHECK(request.walk() == Fault::nobody);
    CHECK(request.exchange.decision.items.empty());
}

TEST_CASE("street: a client is told of each limit once, for the identifier with least left") {
    World world(kUpstream + "limits: [10/s, 100/min]\n" + kTrusting);
    Request request(world, get("X-User-Id: alice\r\n"), true);
    REQUIRE(request.walk() == Fault::none);
    REQUIRE(request.exchange.decision.items.size() == 2);
    auto& decision = request.exchange.decision;
    decision.result = Decided::admitted;
    decision.verdict.limits = {{.remaining = 7, .next_unit = 1s},
                               {.remaining = 20, .next_unit = 2s},
                               {.remaining = 9, .next_unit = 3s},
                               {.remaining = 11, .next_unit = 3500ms}};
    judge(world.worker, request.exchange);
    CHECK(request.exchange.fault == Fault::none);
    const auto& told = request.exchange.ratelimit;
    REQUIRE(told.size() == 2);
    CHECK(told[0].name == "default-1s");
    CHECK(told[0].quota == 10);
    CHECK(told[0].remaining == 7);
    CHECK(told[0].reset_seconds == 1);
    CHECK(told[1].name == "default-1min");
    CHECK(told[1].window_seconds == 60);
    CHECK(told[1].remaining == 11);
    CHECK(told[1].reset_seconds == 4);
}

TEST_CASE("street: of two identifiers with as little left, the longer wait is told") {
    World world(kUpstream + "limits: [10/s]\n" + kTrusting);
    Request request(world, get("X-User-Id: alice\r\n"), true);
    REQUIRE(request.walk() == Fault::none);
    auto& decision = request.exchange.decision;
    decision.result = Decided::limited;
    decision.verdict.limits = {{.remaining = 0, .next_unit = 1s},
                               {.remaining = 0, .next_unit = 3s, .denied = true}};
    judge(world.worker, request.exchange);
    CHECK(request.exchange.fault == Fault::limited);
    REQUIRE(request.exchange.ratelimit.size() == 1);
    CHECK(request.exchange.ratelimit[0].reset_seconds == 3);
}

TEST_CASE("street: a store that is away is no limit that was reached") {
    World world(kUpstream + "limits: [10/s]\n");
    Request request(world, get());
    REQUIRE(request.walk() == Fault::none);
    request.exchange.decision.result = Decided::unavailable;
    judge(world.worker, request.exchange);
    CHECK(request.exchange.fault == Fault::store_unavailable);
    CHECK(request.exchange.ratelimit.empty());
}

TEST_CASE("street: an exchange that is used again remembers nothing of the last request") {
    World world(kUpstream + "limits: [1/h]\n" + kTrusting);
    Request request(world, get("X-User-Id: alice\r\nContent-Length: 5\r\n"), true);
    REQUIRE(request.walk() == Fault::none);
    Exchange& exchange = request.exchange;
    world.limiter.decide(exchange.decision, exchange.upload_sleeper.wakeup());
    judge(world.worker, exchange);
    exchange.status = 200;
    exchange.bytes_sent = 9;
    exchange.reset();
    CHECK(exchange.request.fields.empty());
    CHECK(exchange.request.method.empty());
    CHECK(exchange.decision.items.empty());
    CHECK(exchange.decision.result == Decided::pending);
    CHECK(exchange.ratelimit.empty());
    CHECK(exchange.route == nullptr);
    CHECK_FALSE(exchange.user);
    CHECK_FALSE(exchange.client);
    CHECK(exchange.body.done());
    CHECK(exchange.status == 0);
    CHECK(exchange.bytes_sent == 0);
    CHECK_FALSE(exchange.keep_alive);
}
