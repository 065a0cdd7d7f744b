// Which header fields pass through the proxy, which end at it, and which it writes.
#include <string>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::fields_test {

namespace {

// 127.0.0.2 is a trusted proxy and may name users; 127.0.0.1 is not trusted.
std::string trusting(const std::string& url) {
    return "identity: {client_ip: {trusted_proxies: [127.0.0.2]}, user: [{header: {name: "
           "x-user-id, from: trusted_proxies}}]}\n" +
           simple(url);
}

constexpr const char* kTrusted = "127.0.0.2";

}  // namespace

TEST_CASE("fields: end-to-end fields pass unchanged and in order, in both directions") {
    const Upstream upstream(
        ok("ok", "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Answer:   spaced out  \r\n"));
    const Tidegate tidegate(simple(upstream.url()));
    const auto answer = tidegate.get(
        "/p%61th?q=%20", "Accept: a\r\nX-Thing: 1\r\nAccept: b\r\nCookie: c=d; e=f\r\n");
    const auto seen = upstream.last();
    CHECK(seen.start_line == "GET /p%61th?q=%20 HTTP/1.1");
    CHECK(seen.field("Accept") == "a, b");
    CHECK(seen.field("X-Thing") == "1");
    CHECK(seen.field("Cookie") == "c=d; e=f");
    CHECK(answer.count("Set-Cookie") == 2);
    CHECK(answer.field("Set-Cookie") == "a=1, b=2");
    CHECK(answer.field("X-Answer") == "spaced out");
}

TEST_CASE("fields: Host is preserved, or the server's own when so configured") {
    const Upstream upstream(ok());
    {
        const Tidegate tidegate(simple(upstream.url()));
        tidegate.client().get();
        CHECK(upstream.last().field("Host") == "example.test");
        CHECK(upstream.last().count("Host") == 1);
    }
    const Tidegate tidegate("forwarding: {host: upstream}\n" + simple(upstream.url()));
    tidegate.client().get();
    CHECK("http://" + upstream.last().field("Host") == upstream.url());
}

TEST_CASE("fields: the absolute form decides the host" *
          only_over_http1("its targets have no authority")) {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    const auto answer =
        client.ask("GET http://real.test/path?q HTTP/1.1\r\nHost: other.test\r\n\r\n");
    CHECK(answer.status() == 200);
    CHECK(upstream.last().field("Host") == "real.test");
    CHECK(upstream.last().target() == "/path?q");
}

TEST_CASE("fields: hop-by-hop fields and those that Connection names end at the proxy" *
          only_over_http1("it has no Connection")) {
    const Upstream upstream(
        ok("ok",
           "Connection: keep-alive, X-Private\r\nKeep-Alive: timeout=5\r\nX-Private: secret\r\n"
           "Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nX-Public: 1\r\n"));
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    const auto answer = client.get(
        "/",
        "Connection: x-mine, TE\r\nX-Mine: 1\r\nX-Other: 2\r\nKeep-Alive: 5\r\nTE: trailers\r\n"
        "Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic abc\r\n");
    const auto seen = upstream.last();
    for (const std::string name :
         {"X-Mine", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Upgrade"}) {
        CAPTURE(name);
        CHECK_FALSE(seen.has(name));
    }
    CHECK(seen.field("X-Other") == "2");
    for (const std::string name : {"X-Private", "Keep-Alive", "Proxy-Authenticate", "Upgrade"}) {
        CAPTURE(name);
        CHECK_FALSE(answer.has(name));
    }
    CHECK(answer.field("X-Public") == "1");
}

TEST_CASE("fields: Connection cannot take away what the proxy itself adds or needs") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "5/h"));
    auto client = tidegate.client();
    client.ask(post_request("/", "body",
                            "Connection: X-Forwarded-For, X-Request-Id, Host, Content-Length\r\n"));
    if (upstream.requests() == 0) return;  // refusing such a request is as good
    const auto seen = upstream.last();
    CHECK(seen.field("X-Forwarded-For") == "127.0.0.1");
    CHECK(seen.has("X-Request-Id"));
    CHECK(seen.field("Host") == "example.test");
    CHECK(seen.body == "body");
}

TEST_CASE("fields: an upgrade that was not configured is not passed on, and 101 is refused") {
    const Upstream upstream(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    const auto answer = client.get("/", "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    CHECK(answer.status() == 502);
    CHECK_FALSE(upstream.last().has("Upgrade"));
}

TEST_CASE("fields: forwarding fields of an untrusted client are replaced") {
    const Upstream upstream(ok());
    const Tidegate tidegate(trusting(upstream.url()));
    tidegate.get("/",
                 "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: gopher\r\n"
                 "X-Forwarded-Host: evil.test\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 192.0.2.1\r\n"
                 "Forwarded: for=192.0.2.1\r\nX-Request-Id: mine\r\n");
    const auto seen = upstream.last();
    CHECK(seen.field("X-Forwarded-For") == "127.0.0.1");
    CHECK(seen.field("X-Forwarded-Proto") == client_scheme());
    CHECK(seen.field("X-Forwarded-Host") == "example.test");
    CHECK(seen.field("X-Forwarded-Port") == (client_scheme() == "https" ? "443" : "80"));
    CHECK(seen.field("X-Real-IP") != "192.0.2.1");
    CHECK(seen.field("Forwarded").find("192.0.2.1") == std::string::npos);
    CHECK(seen.count("X-Request-Id") == 1);
    CHECK(seen.field("X-Request-Id") != "mine");
    CHECK(seen.field("X-Request-Id").size() >= 16);
}

TEST_CASE("fields: forwarding fields of a trusted proxy are continued") {
    const Upstream upstream(ok());
    const Tidegate tidegate(trusting(upstream.url()));
    tidegate.get("/",
                 "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: "
                 "real.test\r\nX-Request-Id: theirs-1\r\n",
                 kTrusted);
    const auto seen = upstream.last();
    CHECK(seen.field("X-Forwarded-For") == "192.0.2.1, 127.0.0.2");
    CHECK(seen.field("X-Forwarded-Proto") == "https");
    CHECK(seen.field("X-Forwarded-Host") == "real.test");
    CHECK(seen.field("X-Forwarded-Port") == "443");  // theirs, not the listener's
    CHECK(seen.field("X-Request-Id") == "theirs-1");
}

TEST_CASE("fields: X-Forwarded-* can be switched off, Forwarded and Via can be switched on") {
    const Upstream upstream(ok());
    {
        const Tidegate tidegate("forwarding: {x_forwarded: off, forwarded: on, via: off}\n" +
                                simple(upstream.url()));
        tidegate.get("/", "X-Forwarded-For: 192.0.2.1\r\n");
        CHECK_FALSE(upstream.last().has("X-Forwarded-For"));
        CHECK(upstream.last().field("Forwarded").find("for=127.0.0.1") != std::string::npos);
        CHECK_FALSE(upstream.last().has("Via"));
    }
    const Tidegate tidegate(simple(upstream.url()));
    tidegate.get("/", "Via: 1.0 before\r\n");
    const std::string via = over_http2() ? "1.0 before, 2.0 " : "1.0 before, 1.1 ";
    CHECK(upstream.last().field("Via").rfind(via, 0) == 0);
}

TEST_CASE("fields: a user's name is passed on from a trusted proxy and removed from others") {
    const Upstream upstream(ok());
    const Tidegate tidegate(trusting(upstream.url()));
    tidegate.get("/", "X-User-Id: alice\r\n", kTrusted);
    CHECK(upstream.last().field("X-User-Id") == "alice");
    tidegate.get("/", "X-User-Id: alice\r\nX_User_Id: alice\r\nx-user_id: alice\r\n");
    for (const auto& [name, value] : upstream.last().fields) {
        CAPTURE(name);
        CHECK(value != "alice");
    }
}

TEST_CASE("fields: trailers are checked like fields, and identity is not smuggled in them" *
          only_over_http1("such trailers reset the stream")) {
    const Upstream upstream(ok());
    const Tidegate tidegate(trusting(upstream.url()));
    auto client = tidegate.client();
    const auto answer = client.ask(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n"
        "X-Checksum: 1\r\nX-User-Id: alice\r\nX-Forwarded-For: 192.0.2.1\r\n"
        "Content-Length: 3\r\nHost: b\r\n\r\n");
    if (upstream.requests() == 0 || answer.status() != 200) return;  // refused: as good
    for (const auto& [name, value] : upstream.last().trailers) CHECK(name == "X-Checksum");
    CHECK(upstream.last().body == "body");
}

TEST_CASE("fields: look-alikes of framing fields go no further") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    const auto answer =
        client.get("/",
                   "Content_Length: 50\r\nTransfer_Encoding: chunked\r\nX-Other: 1\r\n"
                   "Transfer.Encoding: chunked\r\nContent~Length: 9\r\n");
    if (answer.status() == 400) return;  // refused: as good
    for (const std::string name :
         {"Content_Length", "Transfer_Encoding", "Transfer.Encoding", "Content~Length"}) {
        CHECK_FALSE(upstream.last().has(name));
    }
    CHECK(upstream.last().field("X-Other") == "1");
}

TEST_CASE("fields: a Connection that names more than a hundred fields is refused on either side" *
          only_over_http1("it has no Connection")) {
    std::string list = "Connection: close";
    for (int i = 0; i < 100; ++i) list += ",n" + std::to_string(i);
    list += "\r\n";
    const Upstream upstream(ok("ok", list));
    const Tidegate tidegate(simple(upstream.url()));
    const auto refused = tidegate.get("/", list);
    CHECK(refused.status() == 400);
    CHECK(refused.body.find("Connection names more than 100 fields.") != std::string::npos);
    CHECK(upstream.requests() == 0);
    CHECK(tidegate.get("/").status() == 502);
}

TEST_CASE("fields: an answer whose chunks have a broken extension is no answer") {
    const Upstream upstream(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n0\r\n\r\n");
    const Tidegate tidegate(simple(upstream.url()));
    CHECK(tidegate.get("/").status() == 502);
}

TEST_CASE("fields: a field that chooses the route is refused in every spelling but its own") {
    const Upstream upstream(ok());
    const Tidegate tidegate("upstreams: {api: {servers: [\"" + upstream.url() +
                            "\"]}}\n"
                            "routes:\n"
                            "  - {match: {path: /a, headers: {x-beta: \"1\"}}, policies: []}\n"
                            "  - {match: {path: /a}, policies: [{key: [ip], limits: [1/h]}]}\n");
    CHECK(tidegate.get("/a").status() == 200);
    CHECK(tidegate.get("/a").status() == 429);
    CHECK(tidegate.get("/a", "X-Beta: 1\r\n").status() == 200);
    for (const std::string fields :
         {"X-Beta: 1\r\nX-Beta: 0\r\n", "X_Beta: 1\r\n", "X-Beta: 1\r\nX.Beta: 0\r\n",
          "X-Beta: 1\r\nConnection: x-beta\r\n"}) {
        CAPTURE(fields);
        if (over_http2() && fields.find("Connection") != std::string::npos) continue;
        const auto refused = tidegate.get("/a", fields);
        CHECK(refused.status() == 400);
        CHECK(refused.body.find("A header field that chooses the route") != std::string::npos);
    }
    CHECK(upstream.requests() == 2);
}

TEST_CASE("fields: an id from a trusted proxy that would not survive a log is replaced") {
    const Upstream upstream(ok());
    const Tidegate tidegate("identity: {client_ip: {trusted_proxies: [127.0.0.1]}}\n" +
                            simple(upstream.url()));
    for (const std::string& id :
         {std::string("a b"), std::string("a\"b"), std::string("a,b"), std::string("a\\b"),
          std::string("\xe2\x80\xae"), std::string(129, 'a'), std::string()}) {
        CAPTURE(id);
        CHECK(tidegate.get("/", "X-Request-Id: " + id + "\r\n").status() == 200);
        CHECK(upstream.last().count("X-Request-Id") == 1);
        CHECK(upstream.last().field("X-Request-Id").size() == 32);
    }
}

TEST_CASE("fields: every answer made by the proxy carries a new request id") {
    const Upstream upstream(ok());
    const Tidegate tidegate(unlimited({upstream.url()}) + "limits_on_requests: {uri_bytes: 64}\n");
    const auto first = tidegate.get("/" + std::string(100, 'a'));
    const auto second = tidegate.get("/" + std::string(100, 'a'));
    CHECK(first.status() == 414);
    CHECK(first.field("Content-Type") == "application/problem+json");
    CHECK(first.has("X-Request-Id"));
    CHECK(first.field("X-Request-Id") != second.field("X-Request-Id"));
    CHECK(first.body.find("127.0.0.1") == std::string::npos);
}

TEST_CASE("fields: a field that Connection names identifies no user, here or at the upstream" *
          only_over_http1("it has no Connection")) {
    const Upstream upstream(ok());
    for (const std::string field : {"X-User-Id: alice", "Cookie: sid=alice"}) {
        CAPTURE(field);
        const Tidegate tidegate(
            "identity: {client_ip: {trusted_proxies: [127.0.0.1]},\n"
            "  user: [{header: {name: x-user-id, from: trusted_proxies}}, {cookie: {name: sid}}]}\n"
            "policies: {one: {key: [\"user|ip\"], limits: [1/h]}}\n"
            "upstreams: {api: {servers: [\"" +
            upstream.url() + "\"]}}\nroutes: [{policies: [one]}]\n");
        const std::string name = field.substr(0, field.find(':'));
        CHECK(tidegate.get("/", field + "\r\n").status() == 200);
        CHECK(upstream.last().count(name) == 1);
        CHECK(tidegate.get("/", field + "\r\n").status() == 429);
        // A request that identifies no user at the upstream identifies none here: its address
        // counts it.
        CHECK(tidegate.get("/", field + "\r\nConnection: " + name + "\r\n").status() == 200);
        CHECK(upstream.last().count(name) == 0);
    }
}

TEST_CASE("fields: a method that a field names is not served where limits differ by method") {
    const Upstream upstream(ok());
    const Tidegate tidegate(api(upstream,
                                "policies: {deletes: {key: [ip], limits: [3/h]}, rest: {key: [ip], "
                                "limits: [99/h]}}\nroutes:\n"
                                "  - {match: {path: \"/items/{id}\", methods: [DELETE]}, policies: "
                                "[deletes]}\n  - {match: {path: /items/*}, policies: [rest]}\n"));
    auto client = tidegate.client();
    const Message answer = client.ask(post_request(
        "/items/1", "body",
        "X-HTTP-Method-Override: DELETE\r\nX_HTTP_METHOD: DELETE\r\nx-method-override: DELETE\r\n"
        "X-Original-URL: /items/2\r\nX-Rewrite_URL: /items/2\r\nX-Kept: 1\r\n"));
    CHECK(answer.status() == 200);
    const Message seen = upstream.last();
    CHECK(seen.field("X-Kept") == "1");
    for (const auto& [name, value] : seen.fields) {
        CAPTURE(name);
        CHECK(value != "DELETE");
        CHECK(value != "/items/2");
    }
}

TEST_CASE("fields: a trailer names no other method either" *
          only_over_http1("its clients send no trailers here")) {
    const Upstream upstream(ok());
    const Tidegate tidegate(api(
        upstream, "routes:\n  - {match: {methods: [DELETE]}, policies: []}\n  - {policies: []}\n"));
    CHECK(tidegate.client()
              .ask("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"
                   "0\r\nX-Checksum: 1\r\nX-HTTP-Method-Override: DELETE\r\n"
                   "X_HTTP_Method: DELETE\r\n\r\n")
              .status() == 200);
    CHECK(upstream.last().trailers == FieldList{{"X-Checksum", "1"}});
}

}  // namespace tidegate::test::fields_test
