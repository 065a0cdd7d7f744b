// What RFC 9110 and 9112 ask of an intermediary, message by message: targets, methods, interim
// answers, pipelines, fields of one hop.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::messages_test {

namespace {

const std::string kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
const std::string kHints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";

// The fields of `message` that a client or a server wrote, in order.
FieldList own_fields(const Message& message) {
    FieldList own;
    for (const auto& field : message.fields) {
        if (same_name(field.first.substr(0, 4), "x-t-")) own.push_back(field);
    }
    return own;
}

}  // namespace

TEST_CASE("messages: the absolute form loses its authority to Host, whatever Host said" *
          only_over_http1("its targets have no authority")) {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    struct Case {
        std::string target;
        std::string host;
        std::string path;
    };
    const Case cases[] = {
        {"http://real.test/a%2Fb?q=%20", "real.test", "/a%2Fb?q=%20"},
        {"http://real.test:8080/", "real.test:8080", "/"},
        {"HTTP://Real.Test/x", "Real.Test", "/x"},
        {"http://real.test", "real.test", "/"},
        {"http://real.test?q", "real.test", "/?q"},
        {"https://[::1]:443/x", "[::1]:443", "/x"},
    };
    auto client = tidegate.client();
    for (const Case& one : cases) {
        CAPTURE(one.target);
        CHECK(client.ask("GET " + one.target + " HTTP/1.1\r\nHost: other.test\r\n\r\n").status() ==
              200);
        CHECK(upstream.last().target() == one.path);
        CHECK(upstream.last().field("Host") == one.host);
        CHECK(upstream.last().count("Host") == 1);
    }
}

TEST_CASE("messages: OPTIONS goes no further than Max-Forwards says") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    const auto ask = [&](const std::string& method, const std::string& forwards) {
        return client.ask(method + " /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: " + forwards +
                          "\r\n\r\n");
    };
    CHECK(ask("OPTIONS", "7").status() == 200);
    CHECK(upstream.last().field("Max-Forwards") == "6");
    CHECK(ask("OPTIONS", "1").status() == 200);
    CHECK(upstream.last().field("Max-Forwards") == "0");
    const auto answer = ask("OPTIONS", "0");
    CHECK(answer.status() == 200);
    CHECK(answer.field("Content-Length") == "0");
    CHECK(upstream.requests() == 2);
    // It means nothing to other methods.
    CHECK(ask("GET", "0").status() == 200);
    CHECK(upstream.last().field("Max-Forwards") == "0");
    CHECK(ask("TRACE", "0").status() == 501);
    CHECK(upstream.requests() == 3);
}

TEST_CASE("messages: OPTIONS * is forwarded as OPTIONS *") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    CHECK(client.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").status() == 200);
    CHECK(upstream.last().start_line == "OPTIONS * HTTP/1.1");
    CHECK(upstream.last().field("Host") == "a");
    CHECK(client.ask("OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n").status() == 200);
    CHECK(upstream.last().start_line == "OPTIONS / HTTP/1.1");
    if (over_http2()) return;  // where an empty path is none
    CHECK(client.ask("OPTIONS http://b:81 HTTP/1.1\r\nHost: a\r\n\r\n").status() == 200);
    CHECK(upstream.last().start_line == "OPTIONS * HTTP/1.1");
    CHECK(upstream.last().field("Host") == "b:81");
}

TEST_CASE("messages: any token is a method, as it is written, with a body or without") {
    const Upstream upstream(
        Upstream::answering([](const Message& request) { return ok(request.body); }));
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    for (const std::string method :
         {"PROPFIND", "M-SEARCH", "Brew", "QUERY", "A.B", "!#$%&'*+-.^_`|~", "0", "PRI"}) {
        CAPTURE(method);
        CHECK(client.ask(method + " /m HTTP/1.1\r\nHost: a\r\n\r\n").status() == 200);
        CHECK(upstream.last().start_line == method + " /m HTTP/1.1");
        CHECK_FALSE(upstream.last().has("Content-Length"));
        CHECK(
            client.ask(method + " /m HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").body ==
            "body");
    }
}

TEST_CASE("messages: pipelined requests of every kind are answered in order" *
          only_over_http1("streams have no order")) {
    const Upstream upstream(Upstream::answering([](const Message& request) -> std::string {
        const std::string text = request.method() + request.target() + request.body;
        if (request.method() == "HEAD") return "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        if (request.target() == "/204") return "HTTP/1.1 204 No Content\r\n\r\n";
        if (request.target() == "/chunks") {
            return kHints + "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(text) +
                   "0\r\nX-Sum: 1\r\n\r\n";
        }
        return ok(text);
    }));
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    const std::string chunked =
        "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("one") +
        chunk("two") + "0\r\nX: y\r\n\r\n";
    client.send(get_request("/1") + chunked + "HEAD /2 HTTP/1.1\r\nHost: a\r\n\r\n" +
                get_request("/204") + get_request("/chunks") + post_request("/3", "three") +
                get_request("/nowhere%zz") + get_request("/never"));
    CHECK(client.response().body == "GET/1");
    CHECK(client.response().body == "POST/uponetwo");
    CHECK(client.response_to_head().field("Content-Length") == "9");
    CHECK(client.response().status() == 204);
    CHECK(client.response().status() == 103);
    const auto chunks = client.response();
    CHECK(chunks.body == "GET/chunks");
    CHECK(chunks.trailers == FieldList{{"X-Sum", "1"}});
    CHECK(client.response().body == "POST/3three");
    CHECK(client.response().status() == 400);
    CHECK(client.closed());
    CHECK(upstream.requests() == 6);
    CHECK(upstream.connections() == 1);
}

TEST_CASE("messages: bytes after a request that closes are ignored" *
          only_over_http1("no request closes")) {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    for (const std::string& last :
         {get_request("/1", "Connection: close\r\n"), std::string("GET /1 HTTP/1.0\r\n\r\n")}) {
        auto client = tidegate.client();
        client.send(last + get_request("/2"));
        CHECK(client.response().status() == 200);
        CHECK(client.closed());
        CHECK(upstream.last().target() == "/1");
    }
}

TEST_CASE("messages: interim answers come one by one, in order, before the final one") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send(kHints +
                          "HTTP/1.1 102 Processing\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"
                          "Keep-Alive: 5\r\nContent-Length: 3\r\n\r\n");
        conversation.send(kContinue);
        std::string body;
        while (body.size() < 4) body += conversation.some();
        conversation.send(kHints + ok(body));
        conversation.wait_for_end();
    });
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    CHECK(client.response().status() == 103);
    const auto processing = client.response();
    CHECK(processing.status() == 102);
    CHECK(processing.fields.empty());
    CHECK(client.response().status() == 100);
    client.send("body");
    CHECK(client.response().status() == 103);
    CHECK(client.response().body == "body");
    CHECK(upstream.last().field("Expect") == "100-continue");
}

TEST_CASE("messages: HTTP/1.0 sees no interim answer, and its expectation ends here" *
          only_over_http1("another version")) {
    const Upstream upstream(kContinue + kHints + ok("final"));
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    const auto answer =
        client.ask("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody");
    CHECK(answer.status() == 200);
    CHECK(answer.body == "final");
    CHECK(client.closed());
    CHECK_FALSE(upstream.last().has("Expect"));
    CHECK(upstream.last().start_line == "POST / HTTP/1.1");
    CHECK("http://" + upstream.last().field("Host") == upstream.url());
}

TEST_CASE("messages: a client that expects 100-continue may be refused instead") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
        conversation.wait_for_end();
    });
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    const auto answer = client.response();
    CHECK(answer.status() == 417);
    if (over_http2()) return;
    // The body may come or not: bytes behind the head cannot be told from a request.
    CHECK(same_name(answer.field("Connection"), "close"));
    CHECK(client.closed());
}

TEST_CASE("messages: fields keep order, case and number in both directions") {
    const std::string lines =
        "X-T-b: 1\r\nx-t-A: 2\r\nX-T-b: 3\r\nX-T-: \t spaced \t \r\nX-T-e:\r\nx-T-b: \"4, 5\"\r\n"
        "X-T-o: \xff\xe9\r\n";
    const FieldList expected = {{"X-T-b", "1"},       {"x-t-A", "2"}, {"X-T-b", "3"},
                                {"X-T-", "spaced"},   {"X-T-e", ""},  {"x-T-b", "\"4, 5\""},
                                {"X-T-o", "\xff\xe9"}};
    const Upstream upstream(ok("ok", lines));
    const Tidegate tidegate(simple(upstream.url()));
    const auto answer = tidegate.client().get("/", lines);
    CHECK(own_fields(upstream.last()) == as_carried(expected));
    CHECK(own_fields(answer) == as_carried(expected));
}

TEST_CASE("messages: fields of one hop go in both directions, named or not" *
          only_over_http1("it has no Connection")) {
    const std::string lines =
        "Connection: X-One, keep-alive,,x-two\r\nconnection:\tX-THREE\r\nX-One: 1\r\nx-one: 2\r\n"
        "X-Two: 1\r\nX-Three: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n"
        "TE: trailers\r\nUpgrade: h2c\r\nX-Four: 1\r\n";
    const Upstream upstream(ok("ok", lines));
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    const auto answer = client.get("/", lines);
    const auto seen = upstream.last();
    for (const std::string name : {"Connection", "X-One", "X-Two", "X-Three", "Keep-Alive",
                                   "Proxy-Connection", "TE", "Upgrade"}) {
        CAPTURE(name);
        CHECK_FALSE(seen.has(name));
        CHECK_FALSE(answer.has(name));
    }
    CHECK(seen.has("X-Four"));
    CHECK(answer.has("X-Four"));
    // An Upgrade that Connection does not name, and one that it does.
    client.get("/", "Upgrade: websocket\r\n");
    CHECK_FALSE(upstream.last().has("Upgrade"));
    client.get("/",
               "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n");
    CHECK_FALSE(upstream.last().has("Upgrade"));
    CHECK_FALSE(upstream.last().has("HTTP2-Settings"));
}

TEST_CASE("messages: trailers pass both ways, without those that frame or that Connection names" *
          only_over_http1("it has no Connection")) {
    const std::string trailers =
        "X-Sum: 1\r\nContent-Length: 9\r\nTransfer-Encoding: gzip\r\nX-Hop: 2\r\nKeep-Alive: 5\r\n"
        "x-sum: 3\r\n\r\n";
    const Upstream upstream(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n"
        "Connection: x-hop\r\n\r\n4\r\nbody\r\n0\r\n" +
        trailers);
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    for (int i = 0; i < 2; ++i) {
        const auto answer = client.ask(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: X-HOP\r\n"
            "Trailer: X-Sum\r\n\r\n4\r\nbody\r\n0\r\n" +
            trailers);
        const FieldList expected = {{"X-Sum", "1"}, {"x-sum", "3"}};
        CHECK(answer.trailers == expected);
        CHECK(answer.field("Trailer") == "X-Sum");
        CHECK(upstream.last().trailers == expected);
        CHECK(upstream.last().field("Trailer") == "X-Sum");
    }
    CHECK(upstream.connections() == 1);
}

TEST_CASE("messages: an answer of HTTP/1.0 is passed on as one of HTTP/1.1") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (request.target() == "/open") {
                conversation.send("HTTP/1.0 200 OK\r\n\r\nopen");
                return;
            }
            conversation.send(
                "HTTP/1.0 200 OK\r\nContent-Length: 6\r\n" +
                std::string(request.target() == "/keep" ? "Connection: keep-alive\r\n" : "") +
                "\r\nlength");
        }
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    const auto open = client.get("/open");
    CHECK(open.start_line == (over_http2() ? "HTTP/2.0 200" : "HTTP/1.1 200 OK"));
    CHECK(open.body == "open");
    CHECK(client.get("/keep").body == "length");
    CHECK(client.get("/keep").body == "length");
    CHECK(upstream.connections() == 2);
    CHECK(client.get("/once").body == "length");
    CHECK(client.get("/once").body == "length");
    CHECK(upstream.connections() == 3);
}

TEST_CASE("messages: a status line keeps its status and its phrase" *
          only_over_http1("it has no phrase")) {
    const Upstream upstream(Upstream::answering([](const Message& request) {
        return "HTTP/1.1 " + request.target().substr(1) + "\r\nContent-Length: 0\r\n\r\n";
    }));
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    for (const std::string status : {"200", "299", "404", "599"}) {
        CHECK(client.get("/" + status).start_line == "HTTP/1.1 " + status + " ");
    }
}

}  // namespace tidegate::test::messages_test
