// What browsers get: origins, fields that scripts may read, dates, extra fields; and answers of a
// policy's own.
#include <string>

#include <doctest/doctest.h>

#include "base/text.hpp"
#include "unit/proxy_world.hpp"

namespace tidegate::proxy::answers_test {

namespace {

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";
const std::string kAllow = "\r\nAccess-Control-Allow-Origin: ";
const std::string kExpose = "\r\nAccess-Control-Expose-Headers: ";
const std::string kOurs = "RateLimit, RateLimit-Policy, Retry-After, X-Request-Id\r\n";

std::string cors(const std::string& settings, const std::string& more = "") {
    return kUpstream + "response: {cors: {" + settings + "}" + more + "}\n";
}

const std::string kCors = cors("origins: [\"https://a.test\", \"https://*.b.test\"]");

// The answer to a request over its limit.
std::string denied(const std::string& yaml, const std::string& fields) {
    World world(yaml + "limits: [1/h]\n");
    Request(world, get()).charge();
    Request request(world, get(fields));
    request.charge();
    REQUIRE(request.exchange.decision.fault == Fault::limited);
    return request.refused();
}

std::string origin(const std::string& of) {
    return "Origin: " + of + "\r\n";
}

// The head of an upstream's answer as the client gets it.
std::string relayed(const std::string& yaml, const std::string& fields,
                    const std::string& request = get(origin("https://a.test"))) {
    World world(yaml);
    Request asked(world, request);
    REQUIRE(asked.decide() == Fault::none);
    const std::string bytes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + fields + "\r\n";
    http::ResponseHead answer;
    http::Framing framing;
    REQUIRE(http::parse_response_head(bytes, {}, answer) == http::HeadFault::none);
    REQUIRE(http::response_framing(answer, false, framing) == http::FramingFault::none);
    return write_answer_head(asked.exchange, answer, framing, kDateLine);
}

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
}

const std::string kPreflight =
    "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.test\r\n"
    "Access-Control-Request-Method: PUT\r\n\r\n";

}  // namespace

TEST_CASE("cors: an answer made here names the origin of the request, if it is allowed") {
    for (const std::string allowed : {"https://a.test", "https://A.TEST", "https://x.y.b.test"}) {
        const std::string out = denied(kCors, origin(allowed));
        CAPTURE(allowed);
        CHECK(has(out, kAllow + allowed + "\r\n"));
        CHECK(count(out, "\r\nVary: Origin\r\n") == 1);
        CHECK(has(out, kExpose + kOurs));
        CHECK(has(out, "\r\nRetry-After: "));
        CHECK_FALSE(has(out, "Access-Control-Allow-Credentials"));
    }
}

TEST_CASE("cors: an answer made here names no origin that is not allowed, nor one of several") {
    for (const std::string& fields :
         {std::string(), origin("https://evil.test"), origin("null"), origin("*"),
          origin("https://a.test https://a.test"), origin("https://a.test/"), origin(""),
          origin("https://a.test") + origin("https://a.test"),
          origin("https://a.test") + origin("https://evil.test")}) {
        const std::string out = denied(kCors, fields);
        CAPTURE(fields);
        CHECK_FALSE(has(out, "Access-Control"));
        CHECK(has(out, "\r\nVary: Origin\r\n"));
    }
}

TEST_CASE("cors: `null` is named only where it is written") {
    CHECK(has(denied(cors("origins: [\"null\"]"), origin("null")), kAllow + "null\r\n"));
}

TEST_CASE("cors: credentials are allowed to origins that are named") {
    const std::string yaml = cors("origins: [\"https://a.test\"], credentials: on");
    CHECK(has(denied(yaml, origin("https://a.test")),
              "\r\nAccess-Control-Allow-Credentials: true\r\n"));
    CHECK_FALSE(has(denied(yaml, origin("https://b.test")), "Access-Control"));
}

TEST_CASE("cors: `*` is what every page gets, without its origin") {
    for (const std::string& fields : {std::string(), origin("https://evil.test"), origin("x")}) {
        const std::string out = denied(cors("origins: \"*\""), fields);
        CHECK(has(out, kAllow + "*\r\n"));
        CHECK(has(out, "\r\nVary: Origin\r\n"));
        CHECK_FALSE(has(out, "evil"));
    }
}

TEST_CASE("cors: without cors an answer has no fields about origins") {
    const std::string out = denied(kUpstream, origin("https://a.test"));
    CHECK_FALSE(has(out, "Access-Control"));
    CHECK_FALSE(has(out, "Vary"));
}

TEST_CASE("cors: a route's own settings outrank those of response; without a route these hold") {
    World world(
        "upstreams: {a: {servers: [http://127.0.0.1:3000]}}\n"
        "response: {cors: {origins: [\"https://a.test\"]}}\n"
        "routes:\n"
        "  - {match: {path: /own}, policies: [{key: [ip], limits: [0/s]}],"
        " cors: {origins: [\"https://b.test\"]}}\n"
        "  - {match: {path: /off}, policies: [{key: [ip], limits: [0/s]}], cors: off}\n");
    const auto answer = [&](const std::string& path, const std::string& from) {
        Request request(world, "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + origin(from) + "\r\n");
        if (request.decide() == Fault::none) request.charge();
        return request.refused();
    };
    CHECK(has(answer("/own", "https://b.test"), kAllow + "https://b.test"));
    CHECK_FALSE(has(answer("/own", "https://a.test"), "Access-Control"));
    CHECK_FALSE(has(answer("/off", "https://a.test"), "Access-Control"));
    const std::string none = answer("/none", "https://a.test");
    CHECK(none.starts_with("HTTP/1.1 404 "));
    CHECK(has(none, kAllow + "https://a.test"));
}

TEST_CASE("cors: a denied preflight is answered to its page as well") {
    World world(cors("origins: [\"https://a.test\"], preflight: 1/h, max_age: 10min"));
    Request first(world, kPreflight);
    first.charge();
    CHECK(first.exchange.decision.fault == Fault::none);
    Request second(world, kPreflight);
    second.charge();
    CHECK(second.exchange.decision.fault == Fault::limited);
    const std::string out = second.refused();
    CHECK(out.starts_with("HTTP/1.1 429 "));
    CHECK(has(out, kAllow + "https://a.test\r\n"));
    CHECK(has(out, "\r\nRateLimit-Policy: \"preflight-1h\";q=1;w=3600\r\n"));
    CHECK_FALSE(has(out, "Access-Control-Max-Age"));
}

TEST_CASE("cors: a forwarded answer keeps the upstream's fields about origins") {
    const std::string theirs =
        "Access-Control-Allow-Origin: https://other.test\r\nVary: Accept\r\n";
    const std::string out = relayed(kCors, theirs);
    CHECK(count(out, "Access-Control-Allow-Origin") == 1);
    CHECK(has(out, kAllow + "https://other.test\r\n"));
    CHECK(count(out, "Vary") == 1);
    CHECK_FALSE(has(relayed(kCors, ""), "Access-Control-Allow"));
}

TEST_CASE("cors: the fields that scripts may read are merged into those of the upstream") {
    CHECK(has(relayed(kCors, ""), kExpose + kOurs));
    CHECK(has(relayed(kCors, "access-control-expose-headers: *\r\n"), kExpose + "*, " + kOurs));
    const std::string out = relayed(kCors,
                                    "Access-Control-Expose-Headers: X-Total, retry-AFTER\r\n"
                                    "ACCESS-CONTROL-EXPOSE-HEADERS: x-request-id,X-Page\r\n"
                                    "Access-Control-Expose-Headers: \r\n");
    CHECK(has(out, kExpose + "X-Total, retry-AFTER, x-request-id,X-Page, RateLimit, "
                             "RateLimit-Policy\r\n"));
    const auto lower = [](std::string text) { return to_lower(std::move(text)); };
    CHECK(count(lower(out), lower(kExpose)) == 1);
    const std::string hop = relayed(
        kCors,
        "Connection: access-control-expose-headers\r\nAccess-Control-Expose-Headers: X-Hop\r\n");
    CHECK_FALSE(has(hop, "X-Hop"));
    CHECK(has(hop, kExpose + kOurs));
    const std::string off = relayed(kUpstream, "Access-Control-Expose-Headers: X-Total\r\n");
    CHECK(has(off, kExpose + "X-Total\r\n"));
}

TEST_CASE("cors: a preflight's answer says how long it holds, if the upstream does not") {
    const std::string yaml = cors("origins: [\"https://a.test\"], max_age: 10min");
    CHECK(has(relayed(yaml, "", kPreflight), "\r\nAccess-Control-Max-Age: 600\r\n"));
    const std::string theirs = relayed(yaml, "access-control-max-age: 5\r\n", kPreflight);
    CHECK(has(theirs, "\r\naccess-control-max-age: 5\r\n"));
    CHECK_FALSE(has(theirs, "600"));
    CHECK_FALSE(has(relayed(yaml, "", kPreflight), "Expose-Headers"));
    CHECK(has(relayed(yaml, "Access-Control-Expose-Headers: X-Total\r\n", kPreflight),
              kExpose + "X-Total\r\n"));
    CHECK_FALSE(has(relayed(yaml, ""), "Max-Age"));
    CHECK_FALSE(has(relayed(kCors, "", kPreflight), "Max-Age"));
}

TEST_CASE("answers: every answer has a date, the upstream's own if it has one") {
    CHECK(has(denied(kUpstream, ""), "\r\n" + std::string(kDateLine)));
    CHECK(has(relayed(kUpstream, ""), "\r\n" + std::string(kDateLine)));
    const std::string theirs = relayed(kUpstream, "date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    CHECK(has(theirs, "\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"));
    CHECK_FALSE(has(theirs, kDateLine.data()));
    const std::string hop =
        relayed(kUpstream, "Connection: date\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    CHECK(has(hop, "\r\n" + std::string(kDateLine)));
    CHECK_FALSE(has(hop, "1970"));
}

TEST_CASE("answers: with `request_id: on`, a forwarded answer names its request once") {
    const std::string theirs = "X-Request-Id: theirs\r\n";
    CHECK(has(relayed(kUpstream, theirs), "X-Request-Id: theirs\r\n"));
    CHECK_FALSE(has(relayed(kUpstream, ""), "X-Request-Id"));
    const std::string on = kUpstream + "response: {request_id: on}\n";
    for (const std::string& fields : {std::string(), theirs}) {
        const std::string out = relayed(on, fields);
        CHECK(count(out, "X-Request-Id: ") == 1);
        CHECK(has(out, "X-Request-Id: made-here\r\n"));
    }
}

TEST_CASE("answers: extra fields are on answers made here alone") {
    const std::string yaml =
        kUpstream + "response: {extra_headers: {Strict-Transport-Security: max-age=31536000}}\n";
    const std::string line = "\r\nStrict-Transport-Security: max-age=31536000\r\n";
    CHECK(has(denied(yaml, ""), line));
    CHECK_FALSE(has(relayed(yaml, ""), line));
}

TEST_CASE("answers: the first policy of the route that refuses says with which status and body") {
    const std::string begin =
        "upstreams: {a: {servers: [http://127.0.0.1:3000]}}\n"
        "response: {status: 430, body: {content_type: text/plain, text: \"all {policy}\"}}\n"
        "policies:\n"
        "  cap: {key: [\"constant:all\"], limits: [1/h], status: 503,"
        " body: {content_type: text/html, text: \"<p>{policy} {limit}\"}}\n"
        "  own: {key: [ip], limits: [1/h], body: problem}\n"
        "  plain: {key: [ip], limits: [1/h]}\n"
        "  wide: {key: [ip], limits: [9/h], status: 599}\n"
        "routes: [{policies: [wide, ";
    const auto answer = [&](const std::string& policies) {
        World world(begin + policies + "]}]\n");
        Request(world, get()).charge();
        Request request(world, get());
        request.charge();
        return request.refused();
    };
    const std::string cap = answer("cap, own");
    CHECK(cap.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
    CHECK(has(cap, "\r\nContent-Type: text/html\r\n"));
    CHECK(has(cap, "\r\nRetry-After: "));
    CHECK(cap.ends_with("<p>cap cap-1h"));
    const std::string own = answer("own, cap");
    CHECK(own.starts_with("HTTP/1.1 430 "));
    CHECK(has(own, "\r\nContent-Type: application/problem+json\r\n"));
    CHECK(has(own, R"("status":430)"));
    const std::string plain = answer("plain, cap");
    CHECK(plain.starts_with("HTTP/1.1 430 "));
    CHECK(plain.ends_with("all plain"));
}

}  // namespace tidegate::proxy::answers_test
