#include <string>

#include <doctest/doctest.h>

#include "client/http1_stream.hpp"
#include "unit/proxy_world.hpp"

namespace tidegate::proxy::heads_test {

using http::BodyKind;

namespace {

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";
const std::string kTrusting =
    "identity: {client_ip: {trusted_proxies: [203.0.113.0/24]},"
    " user: [{header: {name: x-user-id, from: trusted_proxies}}]}\n";

std::string forwarded(const std::string& fields, bool trusted = false,
                      const std::string& yaml = kUpstream + kTrusting) {
    World world(yaml);
    return Request(world, get(fields), trusted).forwarded();
}

// The head of an answer as the client of a request gets it.
struct Answered {
    explicit Answered(const std::string& head, const std::string& request = get(),
                      const std::string& yaml = kUpstream)
        : world(yaml), asked(world, request), bytes(head) {
        REQUIRE(asked.decide() == Fault::none);
        REQUIRE(http::parse_response_head(bytes, {}, answer) == http::HeadFault::none);
        REQUIRE(http::response_framing(answer, asked.exchange.facts.head.method == "HEAD",
                                       framing) == http::FramingFault::none);
    }
    std::string relayed() { return write_answer_head(asked.exchange, answer, framing, kDateLine); }

    World world;
    Request asked;
    std::string bytes;
    http::ResponseHead answer;
    http::Framing framing;
};

std::string trailers_left(const std::string& lines, const std::string& yaml,
                          const std::string& head_fields = "") {
    World world(yaml);
    const Request asked(world, get(head_fields));
    const std::string bytes = lines + "\r\n";
    http::Fields fields;
    REQUIRE(http::parse_fields(bytes, 100, fields) == http::HeadFault::none);
    filter_request_trailers(asked.exchange, fields);
    std::string names;
    std::string written;
    http::BodyBatch last;
    last.done = true;
    http::append_batch_suffix(http::BodyKind::chunked, last, fields, written);
    for (const auto& field : fields) {
        if (has(written, "\n" + std::string(field.name) + ": ")) {
            names += std::string(field.name) + " ";
        }
    }
    return names;
}

}  // namespace

TEST_CASE("heads: a request goes on with its fields in their order, case and number") {
    const auto out = forwarded("X-B: 1\r\nx-a: 2\r\nX-B: 3\r\nCookie: a=b\r\n");
    CHECK(
        out.starts_with("GET / HTTP/1.1\r\nHost: api.example\r\n"
                        "X-B: 1\r\nx-a: 2\r\nX-B: 3\r\nCookie: a=b\r\n"));
    CHECK(out.ends_with("\r\n\r\n"));
}

TEST_CASE("heads: the listener's Strict-Transport-Security takes the place of the upstream's") {
    const std::string head =
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nStrict-Transport-Security: max-age=1\r\n"
        "strict-transport-security: max-age=0; includeSubDomains\r\nX-A: b\r\n\r\n";
    const std::string line = "Strict-Transport-Security: max-age=300\r\n";
    Answered over_tls(head);
    over_tls.asked.link.arrival.is_https = true;
    over_tls.asked.link.arrival.hsts_line = &line;
    const std::string ours = over_tls.relayed();
    CHECK(has(ours, "\r\n" + line));
    CHECK_FALSE(has(ours, "max-age=1\r\n"));
    CHECK_FALSE(has(ours, "max-age=0"));
    CHECK(has(ours, "X-A: b\r\n"));

    const std::string theirs = Answered(head).relayed();
    CHECK(has(theirs, "Strict-Transport-Security: max-age=1\r\n"));
    CHECK_FALSE(has(theirs, "max-age=300"));
}

TEST_CASE("heads: strip_prefix removes whole segments, and sends the rest as it came") {
    World world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes:\n"
        "  - {match: {path: /api/v1/**}, strip_prefix: /api/v1, policies: []}\n"
        "  - {match: {path: /api/**}, strip_prefix: /api, policies: []}\n"
        "  - {policies: []}\n");
    const auto sent = [&](const std::string& target) {
        const std::string head = "GET " + target + " HTTP/1.1\r\nHost: h.example\r\n\r\n";
        const std::string out = Request(world, head).forwarded();
        return out.substr(4, out.find(" HTTP/1.1\r\n") - 4);
    };
    CHECK(sent("/api/x") == "/x");
    CHECK(sent("/api/x/") == "/x/");
    CHECK(sent("/api") == "/");
    CHECK(sent("/api/") == "/");
    CHECK(sent("/api?") == "/?");
    CHECK(sent("/api?a=/api") == "/?a=/api");
    CHECK(sent("/api/?a=b") == "/?a=b");
    CHECK(sent("/api/api/x") == "/api/x");
    CHECK(sent("/api/%7Ex/y/../z;a=1") == "/%7Ex/y/../z;a=1");
    CHECK(sent("/api/v1") == "/");
    CHECK(sent("/api/v1/x?api") == "/x?api");
    CHECK(sent("/api/v2/x") == "/v2/x");
    CHECK(sent("/apis/x") == "/apis/x");
    CHECK(sent("/") == "/");
    CHECK(sent("http://h.example/api/x?y") == "/x?y");
    CHECK(sent("http://h.example/api") == "/");
    CHECK(sent("http://h.example?q") == "/?q");
}

TEST_CASE("heads: hop-by-hop fields and those that Connection names go no further") {
    const auto out = forwarded(
        "Connection: keep-alive, X-Secret\r\nKeep-Alive: 5\r\nX-Secret: s\r\nTE: trailers\r\n"
        "Upgrade: h2c\r\nProxy-Connection: x\r\nProxy-Authorization: y\r\nX-Open: o\r\n");
    for (const std::string name :
         {"Connection", "Keep-Alive", "X-Secret", "TE:", "Upgrade", "Proxy-"}) {
        CAPTURE(name);
        CHECK_FALSE(has(out, name));
    }
    CHECK(has(out, "X-Open: o\r\n"));
}

TEST_CASE("heads: Connection cannot remove fields that the proxy adds") {
    const auto out = forwarded(
        "Connection: Host, X-Forwarded-For, X-Request-Id, Content-Length\r\nContent-Length: 4\r\n");
    CHECK(has(out, "Host: api.example\r\n"));
    CHECK(has(out, "X-Forwarded-For: 203.0.113.7\r\n"));
    CHECK(has(out, "X-Request-Id: made-here\r\n"));
    CHECK(has(out, "Content-Length: 4\r\n"));
}

TEST_CASE("heads: a body is framed as it came, look-alikes of its length stay behind") {
    const auto length = forwarded("Content_Length: 9\r\nContent-Length: 0004\r\n");
    CHECK(has(length, "\r\nContent-Length: 4\r\n"));
    CHECK_FALSE(has(length, "Content_Length"));
    const auto chunked = forwarded("Transfer_Encoding: x\r\ntransfer-encoding: CHUNKED\r\n");
    CHECK(has(chunked, "\r\nTransfer-Encoding: chunked\r\n"));
    CHECK_FALSE(has(chunked, "Content-Length"));
    CHECK_FALSE(has(chunked, "Transfer_Encoding"));
    CHECK(has(forwarded("Content-Length: 0\r\n"), "\r\nContent-Length: 0\r\n"));
    CHECK_FALSE(has(forwarded(""), "Content-Length"));
}

TEST_CASE("heads: an expectation goes on only where there is a body to wait for") {
    CHECK(has(forwarded("Expect: 100-continue\r\nContent-Length: 1\r\n"), "Expect: 100-continue"));
    CHECK_FALSE(has(forwarded("Expect: 100-continue\r\n"), "Expect"));
}

TEST_CASE("heads: identity fields of an untrusted peer are removed, in any spelling") {
    const auto out = forwarded(
        "X-User-Id: a\r\nx_user_id: b\r\nX-USER_ID: c\r\nX-Request-Id: d\r\nX_Request_Id: e\r\n"
        "X-Forwarded-For: 1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n"
        "X-Real-IP: 1.2.3.4\r\nX_Real_IP: 1.2.3.4\r\nX-Forwarded-Prefix: /x\r\nX-Users: f\r\n");
    CHECK_FALSE(has(out, "1.2.3.4"));
    CHECK_FALSE(has(out, "/x\r\n"));
    for (const std::string value : {": a\r", ": b\r", ": c\r", ": d\r", ": e\r"}) {
        CAPTURE(value);
        CHECK_FALSE(has(out, value));
    }
    CHECK(has(out, "X-Users: f\r\n"));
    CHECK(has(out, "X-Request-Id: made-here\r\n"));
}

TEST_CASE("heads: of a trusted peer only the field that is read goes on") {
    const auto one = forwarded("X-User-Id: alice\r\nX_User_Id: admin\r\n", true);
    CHECK(has(one, "X-User-Id: alice\r\n"));
    CHECK_FALSE(has(one, "admin"));
    const auto two = forwarded("X-User-Id: admin\r\nX-User-Id: alice\r\n", true);
    CHECK_FALSE(has(two, "admin"));
    CHECK_FALSE(has(two, "alice"));
}

TEST_CASE("heads: the same holds for the field that names the client's address") {
    const std::string yaml =
        kUpstream +
        "identity: {client_ip: {trusted_proxies: [203.0.113.0/24], header: cf-connecting-ip}}\n";
    const std::string both = "CF-Connecting-IP: 198.51.100.1\r\nCF_Connecting_IP: 198.51.100.2\r\n";
    const auto trusted = forwarded(both, true, yaml);
    CHECK(has(trusted, "CF-Connecting-IP: 198.51.100.1\r\n"));
    CHECK_FALSE(has(trusted, "198.51.100.2"));
    CHECK_FALSE(has(forwarded(both, false, yaml), "198.51.100"));
}

TEST_CASE("heads: Host is the client's, or the server's own where the configuration says so") {
    CHECK(has(forwarded(""), "Host: api.example\r\n"));
    CHECK(has(forwarded("", false, kUpstream + "forwarding: {host: upstream}\n"),
              "Host: 127.0.0.1:3000\r\n"));
    World world(kUpstream);
    CHECK(has(Request(world, "GET / HTTP/1.0\r\n\r\n").forwarded(), "Host: 127.0.0.1:3000\r\n"));
    CHECK(has(Request(world, "GET http://b.example/x?y HTTP/1.1\r\nHost: a\r\n\r\n").forwarded(),
              "GET /x?y HTTP/1.1\r\nHost: b.example\r\n"));
}

TEST_CASE("heads: OPTIONS * goes on as OPTIONS *") {
    World world(kUpstream);
    CHECK(Request(world, "OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n")
              .forwarded()
              .starts_with("OPTIONS * HTTP/1.1\r\n"));
    CHECK(Request(world, "OPTIONS http://a/ HTTP/1.1\r\nHost: a\r\n\r\n")
              .forwarded()
              .starts_with("OPTIONS / HTTP/1.1\r\n"));
    CHECK(Request(world, "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n")
              .forwarded()
              .starts_with("GET / HTTP/1.1\r\n"));
}

TEST_CASE("heads: identity fields are removed from the trailers of any peer") {
    CHECK(trailers_left("X-User-Id: a\r\nX_User_Id: a\r\nX-Forwarded-For: 1.1.1.1\r\n"
                        "X-Request-Id: r\r\nX-Checksum: c\r\nX-Forwarded-Client-Cert: h\r\n",
                        kUpstream + kTrusting) == "X-Checksum ");
}

TEST_CASE("heads: trailers may not direct a request, nor say what chose its route or was counted") {
    const std::string counted =
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
        "policies:\n"
        "  p: {key: [\"header:x-tenant\", \"user|header:x-other+ip\"], on_missing: skip,"
        " limits: [1/s]}\n"
        "  s: {key: [ip], limits: [{quota: 1, per: 1min, algorithm: schedule, at: {header: x-at}}],"
        " mode: shadow}\n"
        "routes:\n"
        "  - {match: {path: /b, headers: {x-beta: \"1\"}}, policies: []}\n"
        "  - {cost: {header: x-cost}, policies: [p, s]}\n";
    const std::string fields = "X-Tenant: t\r\n";
    for (const std::string name :
         {"Expect", "Range", "Content-Type", "Content-Encoding", "Authorization", "Cookie", "Host",
          "If-Match", "X-Tenant", "X-Other", "X-At", "X-Beta", "X-Cost", "Connection",
          "Transfer-Encoding", "Content-Length", "Keep-Alive"}) {
        for (const char mark : {'-', '_', '.'}) {
            std::string spelled = name;
            for (char& c : spelled) {
                if (c == '-') c = mark;
            }
            CAPTURE(spelled);
            CHECK(trailers_left(spelled + ": 1\r\nX-Sum: 2\r\n", counted, fields) == "X-Sum ");
        }
    }
    CHECK(trailers_left("X-Tenants: 1\r\nTenant: 1\r\n", counted, fields) == "X-Tenants Tenant ");
}

TEST_CASE("heads: fields that Connection names are removed from the trailers of a request, too") {
    CHECK(trailers_left("X-Hop: 1\r\nX-Sum: 2\r\n", kUpstream, "Connection: close, x-hop\r\n") ==
          "X-Sum ");
}

TEST_CASE("heads: an expectation that Connection names is for this hop alone") {
    CHECK_FALSE(has(forwarded("Expect: 100-continue\r\nContent-Length: 1\r\n"
                              "Connection: expect\r\n"),
                    "Expect"));
}

TEST_CASE("heads: an answer goes on as it came, without what is for one hop") {
    Answered answered(
        "HTTP/1.1 201 Made It\r\nConnection: X-Hop\r\nX-Hop: h\r\nSet-Cookie: a\r\nSet-Cookie: "
        "b\r\n"
        "Content_Length: 9\r\nContent-Length: 3\r\n\r\n");
    const auto out = answered.relayed();
    CHECK(out.starts_with("HTTP/1.1 201 Made It\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"));
    CHECK(has(out, "Content-Length: 3\r\n"));
    CHECK_FALSE(has(out, "X-Hop"));
    CHECK_FALSE(has(out, "Content_Length"));
}

TEST_CASE("heads: an answer without a length is chunked, but not for HTTP/1.0") {
    const std::string open = "HTTP/1.1 200 OK\r\n\r\n";
    CHECK(has(Answered(open).relayed(), "Transfer-Encoding: chunked\r\n"));
    CHECK_FALSE(has(Answered(open, "GET / HTTP/1.0\r\n\r\n").relayed(), "Transfer-Encoding"));
}

TEST_CASE("heads: an answer to HEAD keeps its length, 204 has none") {
    const std::string head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
    CHECK(has(Answered("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", head).relayed(),
              "Content-Length: 7\r\n"));
    CHECK_FALSE(has(Answered("HTTP/1.1 200 OK\r\n\r\n", head).relayed(), "Content-Length"));
    CHECK(has(Answered("HTTP/1.1 304 No\r\nContent-Length: 7\r\n\r\n").relayed(),
              "Content-Length: 7\r\n"));
    CHECK_FALSE(
        has(Answered("HTTP/1.1 204 No\r\nContent-Length: 7\r\n\r\n").relayed(), "Content-Length"));
}

TEST_CASE("heads: whether the connection goes on is said where the version leaves it open") {
    const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    Answered eleven(answer);
    CHECK_FALSE(has(eleven.relayed(), "Connection"));
    eleven.asked.client.close_after_answer();
    CHECK(has(eleven.relayed(), "Connection: close\r\n"));
    Answered ten(answer, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    CHECK(has(ten.relayed(), "Connection: keep-alive\r\n"));
}

TEST_CASE("heads: the proxy's fields about limits replace the upstream's") {
    const std::string answer =
        "HTTP/1.1 200 OK\r\nRateLimit: theirs\r\nRateLimit-Policy: theirs\r\n"
        "RateLimit-Remaining: theirs\r\nX-RateLimit-Limit: theirs\r\nContent-Length: 0\r\n\r\n";
    Answered limited(answer, get(), kUpstream + "limits: [10/s]\n");
    limited.asked.exchange.decision.ratelimit = {{"default-1s", 10, 1, 7, 1}};
    const auto out = limited.relayed();
    CHECK(has(out, "RateLimit-Policy: \"default-1s\";q=10;w=1\r\n"));
    CHECK(has(out, "RateLimit: \"default-1s\";r=7;t=1\r\n"));
    CHECK_FALSE(has(out, "RateLimit: theirs"));
    CHECK_FALSE(has(out, "RateLimit-Remaining"));
    CHECK(has(out, "X-RateLimit-Limit: theirs\r\n"));  // those are not ours here
    CHECK(has(Answered(answer).relayed(), "RateLimit: theirs\r\n"));
}

TEST_CASE("heads: fields of providers of models replace the upstream's where they are chosen") {
    const std::string answer =
        "HTTP/1.1 200 OK\r\nx-ratelimit-remaining-tokens: theirs\r\n"
        "anthropic-ratelimit-tokens-reset: theirs\r\nContent-Length: 0\r\n\r\n";
    Answered limited(answer, get(), kUpstream + "limits: [10/s]\nresponse: {headers: [openai]}\n");
    limited.asked.exchange.decision.ratelimit = {{"default-1s", 10, 1, 7, 1}};
    const auto out = limited.relayed();
    CHECK(has(out, "x-ratelimit-remaining-requests: 7\r\n"));
    CHECK_FALSE(has(out, "x-ratelimit-remaining-tokens"));
    CHECK(has(out, "anthropic-ratelimit-tokens-reset: theirs\r\n"));
    CHECK_FALSE(has(out, "RateLimit-Policy"));
}

TEST_CASE("heads: the proxy's fields about limits replace the upstream's in trailers, too") {
    const auto trailers_of = [](const std::string& yaml) {
        Answered answered("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", get(), yaml);
        if (yaml != kUpstream)
            answered.asked.exchange.decision.ratelimit = {{"default-1s", 10, 1, 7, 1}};
        const std::string lines =
            "RateLimit: x\r\nRateLimit-Policy: x\r\nX-RateLimit-Reset: 9\r\nRetry-After: 9\r\n"
            "X-Sum: 1\r\n\r\n";
        http::Fields fields;
        REQUIRE(http::parse_fields(lines, 100, fields) == http::HeadFault::none);
        filter_answer_trailers(answered.asked.exchange, fields);
        std::string names;
        for (const auto& field : fields) names += std::string(field.name) + " ";
        return names;
    };
    CHECK(trailers_of(kUpstream) == "RateLimit RateLimit-Policy X-RateLimit-Reset X-Sum ");
    CHECK(trailers_of(kUpstream + "limits: [1/s]\n") == "X-RateLimit-Reset X-Sum ");
    CHECK(
        trailers_of(kUpstream + "limits: [1/s]\nresponse: {headers: [ratelimit, x-ratelimit]}\n") ==
        "X-Sum ");
}

TEST_CASE("heads: an interim answer goes on without anything that would frame or name a hop") {
    const std::string bytes =
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 5\r\nConnection: X-Hop\r\n"
        "X-Hop: h\r\n\r\n";
    http::ResponseHead head;
    http::Framing framing;
    REQUIRE(http::parse_response_head(bytes, {}, head) == http::HeadFault::none);
    REQUIRE(http::response_framing(head, false, framing) == http::FramingFault::none);
    World world(kUpstream);
    Request request(world, get());
    CHECK(write_interim_head(request.stream, head) == "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n");
}

TEST_CASE("heads: the proxy's own answer has a body of the length that it states") {
    World world(kUpstream);
    Request request(world, get());
    request.exchange.decision.fault = Fault::upstream_timeout;
    const std::string out = request.refused();
    const std::size_t size = out.size() - (out.find("\r\n\r\n") + 4);
    CHECK(out.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"));
    CHECK(has(out, "Content-Type: application/problem+json\r\n"));
    CHECK(has(out, "X-Request-Id: made-here\r\n"));
    CHECK(size > 0);
    CHECK(has(out, "Content-Length: " + std::to_string(size) + "\r\n"));
}

TEST_CASE("heads: the proxy's own answer to HEAD has a length but no body") {
    World world(kUpstream);
    Request request(world, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    request.exchange.decision.fault = Fault::no_route;
    const std::string out = request.refused();
    CHECK(out.ends_with("\r\n\r\n"));
    CHECK(has(out, "Content-Length: "));
}

TEST_CASE("heads: a refusal names the limits that refused, each once, and when to come back") {
    World world(kUpstream + "limits: [1/h, 2/day]\n");
    for (int i = 0; i < 2; ++i) {
        Request request(world, get());
        request.charge();
        if (i == 0) continue;
        REQUIRE(request.exchange.decision.fault == Fault::limited);
        const std::string out = request.refused();
        CHECK(out.starts_with("HTTP/1.1 429 Too Many Requests\r\n"));
        CHECK(has(out, "Retry-After: "));
        CHECK(has(out, R"("violated-policies":["default-1h"])"));
        CHECK(has(out, "RateLimit: \"default-1h\";r=0"));
    }
}

TEST_CASE("heads: the operator's own text is filled in, braces that mean nothing stay") {
    World world(kUpstream +
                "limits: [1/h]\nresponse: {status: 503, headers: [], body: {content_type: "
                "text/plain, text: \"{policy}/{limit} {retry_after} {x} {{limit}\"}}\n");
    for (int i = 0; i < 2; ++i) {
        Request request(world, get());
        request.charge();
        if (i == 0) continue;
        request.exchange.decision.charge.verdict.retry_after = std::chrono::seconds(7);
        request.exchange.decision.charge.verdict.limits[0].next_unit = std::chrono::seconds(7);
        const std::string out = request.refused();
        CHECK(out.starts_with("HTTP/1.1 503 "));
        CHECK(has(out, "Content-Type: text/plain\r\n"));
        CHECK(out.ends_with("\r\n\r\ndefault/default-1h 7 {x} {default-1h"));
    }
}

TEST_CASE("heads: a schedule's denial names the earliest moment and no time to come back") {
    World world(
        "upstreams: {u: {servers: [http://127.0.0.1:3000]}}\n"
        "policies: {p: {key: [ip], limits: [{quota: 1, per: 1min, algorithm: schedule, "
        "at: {query: at}}]}}\n"
        "routes: [{match: {path: /**}, upstream: u, policies: [p]}]\n");
    Request request(world, "GET /7?at=1000 HTTP/1.1\r\nHost: a\r\n\r\n");
    REQUIRE(request.decide() == Fault::none);
    auto& decision = request.exchange.decision.charge;
    decision.result = store::LimitDecision::Result::limited;
    decision.verdict.admitted = false;
    decision.verdict.retry_after = limit::kNever;
    decision.verdict.earliest = std::chrono::milliseconds(1'060'500);
    decision.verdict.limits = {{.next_unit = limit::kNever, .denied = true}};
    ask::apply_verdict(*world.generation, world.ask_metrics, request.exchange.decision);
    const std::string answer = request.refused();
    CHECK(answer.starts_with("HTTP/1.1 429 "));
    CHECK_FALSE(has(answer, "Retry-After"));
    CHECK_FALSE(has(answer, "RateLimit:"));
    CHECK(has(answer, "RateLimit-Policy: \"p-1min-schedule\";q=1\r\n"));
    CHECK(has(answer, R"("earliest":"1970-01-01T00:17:40.500000Z"})"));
}

TEST_CASE("heads: the answer to a request for more than a limit ever allows says so") {
    const std::string reason =
        "This request would use 9 units of a quota of 5 (limit `p-1day`): it never passes. Ask for "
        "less.";
    const auto refused = [&](const std::string& body) {
        World world(
            "upstreams: {u: {servers: [http://127.0.0.1:3000]}}\n"
            "policies: {p: {key: [ip], limits: [5/day], cost: {reserve: 5, settle: {header: x}}}}\n"
            "routes: [{match: {path: /**}, upstream: u, policies: [p]}]\n"
            "response: {body: " +
            body + "}\n");
        Request request(world, get());
        REQUIRE(request.decide() == Fault::none);
        auto& decision = request.exchange.decision.charge;
        decision.items[0].own_cost = 9;
        decision.result = store::LimitDecision::Result::limited;
        decision.verdict.admitted = false;
        decision.verdict.retry_after = limit::kNever;
        decision.verdict.limits = {{.remaining = 5, .next_unit = limit::Micros{0}, .denied = true}};
        ask::apply_verdict(*world.generation, world.ask_metrics, request.exchange.decision);
        return request.refused();
    };
    for (const std::string body : {"problem", "openai", "anthropic"}) {
        const std::string answer = refused(body);
        CAPTURE(answer);
        CHECK(answer.starts_with("HTTP/1.1 429 "));
        CHECK_FALSE(has(answer, "Retry-After"));
        CHECK(has(answer, reason));
        CHECK(has(answer, "x-should-retry: false\r\n") == (body != "problem"));
        CHECK_FALSE(has(answer, "insufficient_quota"));
    }
}

TEST_CASE(
    "heads: a refusal by a limit with costs says what is used and what the request may take") {
    const auto refused = [&](const std::string& limit, const std::string& cost,
                             const std::string& body, limit::LimitVerdict verdict,
                             std::int64_t own_cost) {
        World world(
            "upstreams: {u: {servers: [http://127.0.0.1:3000]}}\n"
            "policies: {p: {key: [ip], limits: [" +
            limit + "], cost: {" + cost +
            "}}}\nroutes: [{match: {path: /**}, upstream: u, policies: [p]}]\n"
            "response: {body: " +
            body + "}\n");
        Request request(world, get());
        REQUIRE(request.decide() == Fault::none);
        auto& decision = request.exchange.decision.charge;
        decision.items[0].own_cost = own_cost;
        decision.result = store::LimitDecision::Result::limited;
        decision.verdict.admitted = false;
        decision.verdict.retry_after = std::chrono::seconds(59);
        verdict.denied = true;
        decision.verdict.limits = {verdict};
        ask::apply_verdict(*world.generation, world.ask_metrics, request.exchange.decision);
        return request.refused();
    };
    const std::string tokens = "reserve: 5, settle: openai";
    for (const std::string body : {"openai", "anthropic"}) {
        CHECK(has(refused("40000/min", tokens, body, {.remaining = 19'997}, 30'032),
                  "Rate limit reached: limit p-1min, 40000 tokens: 20003 used, this request may "
                  "take 30032. Please try again in 59s."));
    }
    CHECK(has(refused("40000/min", tokens, "problem", {.remaining = 19'997}, 30'032),
              R"("detail":"The request is over the limit p-1min, 40000 tokens: 20003 used, this )"
              R"(request may take 30032.")"));
    CHECK(has(refused("{quota: 5, unit: usd, per: 1h}", "reserve: 0.05, unit: usd", "openai",
                      {.remaining = 10'000}, 50'000),
              "limit p-1h, 5.000000 USD: 4.990000 used, this request may take 0.050000. Please"));
    // The body is not read yet; what is used is not known.
    CHECK(has(refused("40000/min", tokens, "openai", {.remaining = 0}, 1),
              "limit p-1min, 40000 tokens: 40000 used. Please"));
    CHECK(has(refused("40000/min", tokens, "openai", {.is_current = false}, 30'032),
              "limit p-1min, 40000 tokens: this request may take 30032. Please"));
    CHECK(has(refused("9/min", "reserve: 2, settle: {header: x}", "openai", {.remaining = 1}, 2),
              "limit p-1min, 9 units: 8 used, this request may take 2. Please"));
}

TEST_CASE("heads: POST, PUT and PATCH without a body have a length, as some servers insist on it") {
    World world(kUpstream);
    const auto length = [&](const std::string& method, const std::string& fields = "") {
        const std::string out =
            Request(world, method + " / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n").forwarded();
        const std::string name = "\r\nContent-Length: ";
        const std::size_t at = out.find(name);
        if (at == std::string::npos) return std::string("none");
        return out.substr(at + name.size(), out.find('\r', at + 2) - at - name.size());
    };
    for (const char* method : {"POST", "PUT", "PATCH"}) {
        CHECK(length(method) == "0");
        CHECK(length(method, "Content-Length: 7\r\n") == "7");
        CHECK(length(method, "Transfer-Encoding: chunked\r\n") == "none");
    }
    for (const char* method : {"GET", "HEAD", "DELETE", "OPTIONS", "PROPFIND", "P"}) {
        CHECK(length(method) == "none");
        CHECK(length(method, "Content-Length: 0\r\n") == "0");
    }
}

TEST_CASE("heads: a body that is at hand as a whole goes with its length") {
    World world(kUpstream);
    const std::string chunked = get("Transfer-Encoding: chunked\r\n");
    const auto written = [&](const std::string& head, std::uint64_t bytes) {
        Request request(world, head);
        REQUIRE(request.decide() == Fault::none);
        return write_request_head(request.exchange, "127.0.0.1:3000", bytes);
    };
    for (const std::uint64_t bytes : {0, 7}) {
        const std::string out = written(chunked, bytes);
        CHECK(has(out, "\r\nContent-Length: " + std::to_string(bytes) + "\r\n"));
        CHECK_FALSE(has(out, "Transfer-Encoding"));
    }
    CHECK(has(written(get("Content-Length: 7\r\n"), 7), "\r\nContent-Length: 7\r\n"));
    CHECK_FALSE(has(written(get(), 0), "Content-Length"));
}

namespace {

const std::string kOverrides =
    "X-HTTP-Method-Override: DELETE\r\nx-http-method: DELETE\r\nX_Method_Override: DELETE\r\n"
    "X-Original-URL: /other\r\nX_REWRITE.URL: /other\r\nX-Kept: 1\r\n";

// Of `kOverrides`, which kinds an upstream of this configuration gets, in head and trailers alike.
std::string overrides_passed(const std::string& routes_and_policies) {
    const std::string yaml =
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n" + routes_and_policies;
    const std::string head = forwarded(kOverrides, false, yaml);
    const std::string trailers = trailers_left(kOverrides, yaml);
    CHECK(has(head, "X-Kept: 1\r\n"));
    CHECK(has(trailers, "X-Kept "));
    std::string passed;
    for (const auto& [kind, names] : std::vector<std::pair<std::string, std::vector<std::string>>>{
             {"method", {"X-HTTP-Method-Override", "x-http-method", "X_Method_Override"}},
             {"target", {"X-Original-URL", "X_REWRITE.URL"}}}) {
        const bool first = has(head, "\r\n" + names.front() + ": ");
        for (const std::string& name : names) {
            CAPTURE(name);
            CHECK(has(head, "\r\n" + name + ": ") == first);
            CHECK(has(trailers, name + " ") == first);
        }
        if (first) passed += kind + " ";
    }
    return passed;
}

}  // namespace

TEST_CASE("heads: fields that override the method go no further where limits depend on it") {
    const std::string all = "  - {policies: []}\n";
    CHECK(overrides_passed("routes:\n" + all) == "method target ");
    CHECK(overrides_passed("routes:\n  - {match: {methods: [POST, GET]}, policies: []}\n" + all) ==
          "target ");
    CHECK(overrides_passed("routes:\n  - {policies: [{key: [\"ip+method\"], limits: [9/s]}]}\n") ==
          "target ");
    // A policy that the check API names counts, too.
    CHECK(overrides_passed("policies: {p: {key: [\"ip+method\"], limits: [9/s]}}\nroutes:\n" +
                           all) == "target ");
    // Otherwise a preflight, which counts for no policy, could be anything.
    CHECK(overrides_passed("response: {cors: {origins: [\"https://a.example\"]}}\nroutes:\n" +
                           all) == "target ");
    CHECK(overrides_passed("method_override: pass\nroutes:\n"
                           "  - {match: {methods: [POST, GET]}, policies: []}\n" +
                           all) == "method target ");
}

TEST_CASE("heads: fields that override the target go no further where limits depend on it") {
    const std::string all = "  - {policies: []}\n";
    for (const std::string path : {"/admin", "/admin/**", "regex:/admin.*", "/{x}", "*"}) {
        CAPTURE(path);
        CHECK(overrides_passed("routes:\n  - {match: {path: \"" + path + "\"}, policies: []}\n" +
                               all) == "method ");
    }
    CHECK(overrides_passed("routes:\n  - {policies: [{key: [\"query:t\"], on_missing: skip, "
                           "limits: [9/s]}]}\n") == "method ");
    CHECK(overrides_passed("method_override: remove\nroutes:\n"
                           "  - {match: {path: /admin}, policies: []}\n" +
                           all) == "method ");
    CHECK(overrides_passed("method_override: pass\nroutes:\n"
                           "  - {match: {path: /admin}, policies: []}\n" +
                           all) == "method target ");
    // Hosts and header fields are no part of either.
    CHECK(overrides_passed("routes:\n  - {match: {host: a.example}, policies: []}\n" + all) ==
          "method target ");
}

TEST_CASE("heads: a trusted peer overrides neither, as it may pass on what its client wrote") {
    const std::string yaml =
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n" + kTrusting +
        "routes:\n  - {match: {path: /a, methods: [PUT]}, policies: []}\n  - {policies: []}\n";
    const std::string head = forwarded(kOverrides, true, yaml);
    CHECK_FALSE(has(head, "DELETE"));
    CHECK_FALSE(has(head, "/other"));
}

}  // namespace tidegate::proxy::heads_test
