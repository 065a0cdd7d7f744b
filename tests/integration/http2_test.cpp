// Requests over HTTP/2: what upstreams get, and what clients get back. Tests that are the same over
// every transport are in the other files, which run over HTTP/2, too.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/h2_proxy.hpp"
#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::http2_test {

namespace {

constexpr std::size_t kMebibyte = 1'048'576;

std::string pattern(std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 31 + i / 251) & 0xff);
    return bytes;
}

Upstream::Handler mirror() {
    return Upstream::answering([](const Message& request) { return ok(request.body); });
}

FieldList length(std::size_t bytes) {
    return {{"content-length", std::to_string(bytes)}};
}

}  // namespace

TEST_CASE("http2: the upstream sees a request of HTTP/1.1, and the client a whole answer") {
    const Upstream upstream(ok("hello", "X-Answer: 1\r\nConnection: keep-alive\r\n"));
    const H2Proxy proxy(simple(upstream.url()));
    H2Client client = proxy.client();
    const H2Answer answer = client.get("/p%61th?q=%20", {{"x-thing", "1"}, {"te", "trailers"}});
    CHECK(answer.status() == 200);
    CHECK(answer.body == "hello");
    CHECK(answer.is_whole);
    CHECK(answer.field("content-length") == "5");
    CHECK(answer.field("x-answer") == "1");
    for (const auto& [name, value] : answer.fields) {
        CHECK(std::none_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
    }
    CHECK_FALSE(answer.has("connection"));
    const Message seen = upstream.last();
    CHECK(seen.start_line == "GET /p%61th?q=%20 HTTP/1.1");
    CHECK(seen.field("Host") == "example.test");
    CHECK(seen.count("Host") == 1);
    CHECK(seen.field("X-Thing") == "1");
    CHECK(seen.field("Via").starts_with("2.0 "));
    CHECK(seen.field("X-Forwarded-For") == "127.0.0.1");
    CHECK(seen.field("X-Forwarded-Proto") == "http");
    CHECK(seen.field("X-Forwarded-Host") == "example.test");
    CHECK_FALSE(seen.has("Content-Length"));
    CHECK_FALSE(seen.has("Transfer-Encoding"));
    CHECK(std::none_of(seen.fields.begin(), seen.fields.end(),
                       [](const auto& field) { return field.first.starts_with(":"); }));
    CHECK(client.fault().empty());
}

TEST_CASE("http2: over TLS the same, and the upstream gets https as the scheme") {
    const Upstream upstream(mirror());
    const H2Proxy proxy(simple(upstream.url()));
    H2Client client = proxy.secure_client();
    CHECK(alpn_of(client.socket().tls()) == "h2");
    CHECK(client.ask({.method = "POST", .fields = length(4), .body = "body"}).body == "body");
    CHECK(upstream.last().field("X-Forwarded-Proto") == "https");
    CHECK(upstream.last().field("Via").starts_with("2.0 "));
    CHECK(client.fault().empty());
}

TEST_CASE("http2: a known length stays, and a body without one goes on in chunks") {
    const Upstream upstream(mirror());
    const H2Proxy proxy(simple(upstream.url()));
    H2Client client = proxy.client();
    for (const std::size_t size : {0UL, 1UL, 16'384UL, 16'385UL, 300'000UL}) {
        CAPTURE(size);
        const std::string body = pattern(size);
        CHECK(client.ask({.method = "POST", .fields = length(size), .body = body}).body == body);
        CHECK(upstream.last().field("Content-Length") == std::to_string(size));
        CHECK_FALSE(upstream.last().has("Transfer-Encoding"));
        if (size == 0) continue;
        CHECK(client.ask({.method = "POST", .body = body}).body == body);
        CHECK(upstream.last().field("Transfer-Encoding") == "chunked");
        CHECK_FALSE(upstream.last().has("Content-Length"));
    }
    CHECK(client.fault().empty());
}

TEST_CASE("http2: a request without a body says so to HTTP/1.1 where its method expects one") {
    const Upstream upstream(mirror());
    const H2Proxy proxy(simple(upstream.url()));
    H2Client client = proxy.client();
    for (const std::string method : {"POST", "PUT", "PATCH", "GET", "DELETE"}) {
        CAPTURE(method);
        CHECK(client.ask({.method = method}).is_whole);
        const Message seen = upstream.last();
        CHECK(seen.start_line == method + " / HTTP/1.1");
        CHECK(seen.has("Content-Length") == method.starts_with('P'));
        CHECK((method.front() != 'P' || seen.field("Content-Length") == "0"));
        CHECK_FALSE(seen.has("Transfer-Encoding"));
    }
    CHECK(client.fault().empty());
}

TEST_CASE("http2: a body without a length that the route holds goes on with one") {
    const Upstream upstream(mirror());
    const H2Proxy proxy("upstreams: {api: {servers: [" + upstream.url() +
                        "]}}\nroutes: [{policies: [], buffer: 64KiB}]\n");
    H2Client client = proxy.client();
    for (const std::size_t size : {1UL, 20'000UL, 65'535UL}) {
        CAPTURE(size);
        const std::string body = pattern(size);
        CHECK(client.ask({.method = "POST", .body = body}).body == body);
        CHECK(upstream.last().field("Content-Length") == std::to_string(size));
        CHECK_FALSE(upstream.last().has("Transfer-Encoding"));
    }
    CHECK(client.ask({.method = "POST", .body = pattern(70'000)}).body == pattern(70'000));
    CHECK_FALSE(upstream.last().has("Content-Length"));
    CHECK(client.fault().empty());
}

TEST_CASE("http2: trailers pass both ways") {
    const Upstream upstream(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" + chunk("body") +
        "0\r\nX-Sum: 7\r\nX-Other: 8\r\n\r\n");
    const H2Proxy proxy(simple(upstream.url()));
    H2Client client = proxy.client();
    for (int i = 0; i < 2; ++i) {
        const H2Answer answer = client.ask({.method = "POST",
                                            .fields = {{"trailer", "x-sum"}, {"te", "trailers"}},
                                            .body = "body",
                                            .trailers = {{"x-sum", "9"}}});
        CHECK(answer.body == "body");
        CHECK(answer.trailers == FieldList{{"x-sum", "7"}, {"x-other", "8"}});
        CHECK(answer.field("trailer") == "X-Sum");
        CHECK(answer.is_whole);
        CHECK(upstream.last().body == "body");
        CHECK(upstream.last().trailers == FieldList{{"x-sum", "9"}});
    }
    CHECK(client.fault().empty());
}

TEST_CASE("http2: interim answers come before the final one, 100 only if the client expects it") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
        if (request.has("Expect")) conversation.send("HTTP/1.1 100 Continue\r\n\r\n");
        std::string body;
        while (body.size() < 4) body += conversation.some();
        conversation.send(ok(body));
        conversation.wait_for_end();
    });
    const H2Proxy proxy(simple(upstream.url()));
    H2Client client = proxy.client();
    FieldList fields = length(4);
    fields.emplace_back("expect", "100-continue");
    const int stream = client.begin({.method = "POST", .fields = fields, .stays_open = true});
    CHECK(client.run_until([&] { return client.progress(stream).interim == 2; }));
    CHECK(client.send(stream, "body"));
    client.finish(stream);
    const H2Answer answer = client.answer(stream);
    REQUIRE(answer.interim.size() == 2);
    CHECK(answer.interim[0].status() == 103);
    CHECK(answer.interim[0].field("link") == "</a.css>");
    CHECK(answer.interim[1].status() == 100);
    CHECK(answer.status() == 200);
    CHECK(answer.body == "body");
    CHECK(client.fault().empty());
}

TEST_CASE("http2: cookies in crumbs are one field for the upstream, and name one user") {
    const Upstream upstream(ok());
    const H2Proxy proxy("identity: {user: [{cookie: {name: sid}}]}\n" +
                        one_policy(upstream, "{key: [user], on_missing: reject, limits: [2/h]}"));
    H2Client client = proxy.client();
    const FieldList crumbs{
        {"cookie", "a=b"}, {"x-between", "1"}, {"cookie", "sid=alice"}, {"cookie", "c=d"}};
    CHECK(client.get("/", crumbs).status() == 200);
    CHECK(upstream.last().count("Cookie") == 1);
    CHECK(upstream.last().field("Cookie") == "a=b; sid=alice; c=d");
    CHECK(client.get("/", {{"cookie", "sid=alice"}}).status() == 200);
    CHECK(client.get("/", crumbs).status() == 429);
    CHECK(client.get("/", {{"cookie", "sid=bob"}}).status() == 200);
    CHECK(client.get("/", {{"cookie", "a=b"}}).status() == 401);
}

TEST_CASE("http2: HEAD, 204 and 304 have no body, whatever their fields say") {
    const Upstream upstream(Upstream::answering([](const Message& request) -> std::string {
        if (request.method() == "HEAD") return "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n";
        if (request.target() == "/204") return "HTTP/1.1 204 No Content\r\n\r\n";
        return "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 500\r\n\r\n";
    }));
    const H2Proxy proxy(simple(upstream.url()));
    H2Client client = proxy.client();
    const H2Answer head = client.ask({.method = "HEAD"});
    CHECK(head.status() == 200);
    CHECK(head.field("content-length") == "500");
    CHECK(client.get("/204").status() == 204);
    const H2Answer unchanged = client.get("/304");
    CHECK(unchanged.status() == 304);
    CHECK(unchanged.field("etag") == "\"x\"");
    CHECK(client.count(NGHTTP2_DATA) == 0);  // each head ended its stream
    CHECK(client.fault().empty());
}

TEST_CASE("http2: large bodies go both ways at once, on several streams") {
    const std::string body = pattern(3 * kMebibyte);
    const Upstream upstream(mirror());
    const H2Proxy proxy(simple(upstream.url()));
    for (const bool is_secure : {false, true}) {
        CAPTURE(is_secure);
        H2Client client = is_secure ? proxy.secure_client() : proxy.client();
        std::vector<int> streams;
        for (int i = 0; i < 3; ++i) {
            const FieldList fields = i == 0 ? FieldList{} : length(body.size());
            streams.push_back(client.begin({.method = "POST", .fields = fields, .body = body}));
        }
        for (const int stream : streams) {
            const H2Answer answer = client.answer(stream);
            CHECK(answer.status() == 200);
            CHECK(answer.is_whole);
            CHECK(answer.body == body);
        }
        CHECK(client.fault().empty());
    }
}

TEST_CASE("http2: of a hundred streams at once the quota is admitted, and no more") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const H2Proxy proxy(counted.yaml() +
                        one_policy(upstream,
                                   "{key: [ip], limits: [{name: few, quota: 10, per: "
                                   "1h}]}"));
    H2Client client = proxy.client();
    std::vector<int> streams;
    for (int i = 0; i < 100; ++i) streams.push_back(client.begin({}));
    int admitted = 0;
    for (const int stream : streams) {
        const H2Answer answer = client.answer(stream);
        CHECK(answer.is_whole);
        CHECK(answer.has("ratelimit"));
        CHECK(answer.field("ratelimit-policy") == "\"p-few\";q=10;w=3600");
        if (answer.status() == 200) ++admitted;
        if (answer.status() == 200) continue;
        CHECK(answer.status() == 429);
        CHECK(std::stoi(answer.field("retry-after")) > 0);
        CHECK(answer.field("ratelimit").starts_with("\"p-few\";r=0"));
        CHECK(nlohmann::json::parse(answer.body).at("status") == 429);
    }
    CHECK(admitted == 10);
    CHECK(upstream.requests() == 10);
    // The same client in HTTP/1 has no count of its own.
    CHECK(http_get(proxy.port()).status() == 429);
}

TEST_CASE("http2: an answer that breaks off is reset, and the other streams go on") {
    const std::string status = "HTTP/1.1 200 OK\r\n";
    const std::vector<std::string> broken{
        status + "Content-Length: 1000\r\n\r\npart",
        status + "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n",
        status + "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\nzz\r\n",
        status + "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n0\r\nX: y\r\n",
    };
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        while (conversation.read(request) && request.target() == "/good") {
            conversation.send(ok("good"));
        }
        if (request.start_line.empty()) return;
        conversation.send(broken[std::stoul(request.target().substr(1))]);
        std::this_thread::sleep_for(milliseconds{50});  // the head goes on before the end is known
    });
    const H2Proxy proxy(simple(upstream.url()));
    H2Client client = proxy.client();
    for (std::size_t i = 0; i < broken.size(); ++i) {
        CAPTURE(broken[i]);
        const int bad = client.begin({.path = "/" + std::to_string(i)});
        const int good = client.begin({.path = "/good"});
        const H2Answer answer = client.answer(bad);
        // Where the fault came with the head, the head was never sent on.
        const bool is_refused = answer.has_head() && answer.status() == 502;
        CHECK(answer.is_whole == is_refused);
        if (!is_refused) CHECK(answer.reset == std::uint32_t{NGHTTP2_INTERNAL_ERROR});
        CHECK(client.answer(good).body == "good");
    }
    CHECK(client.is_connected());
    CHECK(client.fault().empty());
}

TEST_CASE("http2: an answer in the middle of an upload is whole, and the connection stays") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
        conversation.wait_for_end();
    });
    const H2Proxy proxy("limits_on_requests: {body_bytes: 64KiB}\n" +
                        unlimited({upstream.url()}, "request_buffer: off"));
    H2Client client = proxy.client();
    SUBCASE("of the upstream's") {
        const int stream = client.begin({.method = "POST", .body = "begin", .stays_open = true});
        const H2Answer answer = client.answer(stream);
        CHECK(answer.status() == 403);
        CHECK(answer.body == "no");
        CHECK(answer.is_whole);
    }
    SUBCASE("of ours, announced too long") {
        const int stream =
            client.begin({.method = "POST", .fields = length(kMebibyte), .stays_open = true});
        const H2Answer answer = client.answer(stream);
        CHECK(answer.status() == 413);
        CHECK(answer.is_whole);
    }
    SUBCASE("of ours, too long as it comes") {
        const Upstream patient([](Conversation& conversation) {
            Message request;
            if (conversation.read(request)) conversation.wait_for_end();
        });
        const H2Proxy other("limits_on_requests: {body_bytes: 64KiB}\n" + simple(patient.url()));
        H2Client uploads = other.client();
        const H2Answer answer =
            uploads.ask({.method = "POST", .body = std::string(kMebibyte, 'x')});
        CHECK(answer.status() == 413);
        CHECK(answer.is_whole);
        CHECK(answer.reset.value_or(NGHTTP2_NO_ERROR) == NGHTTP2_NO_ERROR);
        CHECK(uploads.get("/%zz").status() == 400);
    }
    CHECK(client.get("/next").status() == 403);
    CHECK(client.fault().empty());
}

TEST_CASE("http2: an upload goes on while its answer already streams") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("first"));
        std::string body;
        while (body.size() < 10) body += conversation.some();
        conversation.send(chunk(body) + "0\r\n\r\n");
        conversation.wait_for_end();
    });
    const H2Proxy proxy(unlimited({upstream.url()}, "request_buffer: off"));
    H2Client client = proxy.client();
    const int stream =
        client.begin({.method = "POST", .fields = length(10), .body = "01234", .stays_open = true});
    CHECK(client.some(stream) == "first");
    CHECK(client.send(stream, "56789"));
    client.finish(stream);
    const H2Answer answer = client.answer(stream);
    CHECK(answer.body == "first0123456789");
    CHECK(answer.is_whole);
}

TEST_CASE("http2: a stream that is slow, or not read, holds up no other") {
    GatedUpstream gate;
    const Upstream large(ok(std::string(4 * kMebibyte, 'x')));
    const Upstream quick(ok("quick"));
    const H2Proxy proxy("upstreams: {gate: {servers: [" + gate.upstream().url() +
                        "]}, large: {servers: [" + large.url() + "]}, quick: {servers: [" +
                        quick.url() +
                        "]}}\nroutes:\n  - {match: {path: /gate}, upstream: gate, policies: []}\n"
                        "  - {match: {path: /large}, upstream: large, policies: []}\n"
                        "  - {match: {path: /quick}, upstream: quick, policies: []}\n");
    H2Client client = proxy.client({.connection_window = 1'000'000, .is_reading = false});
    const int slow = client.begin({.path = "/gate"});
    const int unread = client.begin({.path = "/large"});
    CHECK(client.run_until([&] { return client.progress(unread).body == 65'535; }));
    for (int i = 0; i < 10; ++i) CHECK(client.get("/quick").body == "quick");
    // Nothing more came than the window allows.
    CHECK(client.progress(unread).body == 65'535);
    CHECK_FALSE(client.progress(slow).has_head);
    gate.open();
    CHECK(client.answer(slow).status() == 200);
    for (std::size_t taken = 0; taken < 4 * kMebibyte;) {
        const std::size_t more = client.some(unread).size();
        REQUIRE(more > 0);
        client.consume(unread, more);
        taken += more;
    }
    CHECK(client.answer(unread).is_whole);
}

TEST_CASE("http2: a client that resets a stream takes that request from the server, and no other") {
    std::atomic<int> left{0};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        if (request.target() == "/stays") {
            while (left == 0) std::this_thread::sleep_for(milliseconds{2});
            conversation.send(ok("stays"));
        }
        conversation.wait_for_end();
        if (request.target() == "/leaves") ++left;
    });
    H2Proxy proxy(simple(upstream.url()));
    H2Client client = proxy.client();
    const int stays = client.begin({.path = "/stays"});
    const int leaves = client.begin({.path = "/leaves"});
    CHECK_SOON(upstream.requests() == 2);
    client.reset(leaves);
    CHECK(client.answer(stays).body == "stays");
    CHECK(left == 1);
    const auto line = logged(proxy.tidegate(), "/leaves");
    CHECK(line.at("outcome") == "aborted");
    CHECK(line.at("error") == "client: left");
    CHECK(client.is_connected());
}

}  // namespace tidegate::test::http2_test
