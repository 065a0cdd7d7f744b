// Upstreams that speak HTTP/2, through the built program.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/h2_proxy.hpp"
#include "integration/h2_upstream.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"

namespace tidegate::test::upstream_http2_test {

namespace {

// One worker, so that the test knows whose connections are counted.
std::string to(const H2Upstream& upstream, const std::string& more = "") {
    return "threads: 1\n" + unlimited({upstream.url()}, more);
}

// Answers with the path that was asked for, and what came with it.
H2Reply echo(const H2Call& call) {
    H2Reply reply{.fields = {{"x-path", call.path()}}, .body = call.body};
    reply.trailers = call.trailers;
    return reply;
}

// Answers later.
std::optional<H2Reply> wait(const H2Call&) {
    return std::nullopt;
}

std::vector<int> begin_many(H2Client& client, int count) {
    std::vector<int> streams;
    for (int i = 0; i < count; ++i) {
        streams.push_back(client.begin({.path = "/" + std::to_string(i)}));
    }
    return streams;
}

}  // namespace

TEST_CASE("upstream http2: a request and its answer go over h2c") {
    H2Upstream upstream(echo);
    const Tidegate tidegate(to(upstream));
    RawClient client = tidegate.client();
    Message answer = client.get("/a?b=1", "X-One: 1\r\nConnection: keep-alive\r\n");
    CHECK(answer.start_line == "HTTP/1.1 200 OK");
    CHECK(answer.field("x-path") == "/a?b=1");
    CHECK(answer.body.empty());
    answer = client.ask(post_request("/post", "hello"));
    CHECK(answer.status() == 200);
    CHECK(answer.body == "hello");
    const H2Call first = upstream.call("/a?b=1");
    CHECK(first.field(":method") == "GET");
    CHECK(first.field(":scheme") == "http");
    CHECK_FALSE(first.field(":authority").empty());
    CHECK(first.fields[3].first == ":authority");
    CHECK(first.field("x-one") == "1");
    CHECK(first.field("connection").empty());
    CHECK(first.field("host").empty());
    CHECK(upstream.call("/post").field("content-length") == "5");
    CHECK(upstream.connections() == 1);
    CHECK(upstream.pings() == 0);
}

TEST_CASE("upstream http2: bodies, trailers and interim answers pass both ways") {
    H2Upstream upstream([](const H2Call& call) {
        H2Reply reply = echo(call);
        reply.interim = {103};
        if (call.path() == "/only-trailers") {
            reply = {.fields = {{"grpc-status", "12"}, {"content-type", "application/grpc"}}};
        }
        return reply;
    });
    H2Proxy proxy(to(upstream));
    H2Client client = proxy.client();
    const std::string large(300'000, 'x');
    const H2Answer answer = client.ask({.method = "POST",
                                        .path = "/both",
                                        .fields = {{"te", "trailers"}, {"grpc-timeout", "5S"}},
                                        .body = large,
                                        .trailers = {{"x-sum", "7"}}});
    CHECK(answer.status() == 200);
    CHECK(answer.body == large);
    CHECK(answer.trailers == FieldList{{"x-sum", "7"}});
    REQUIRE(answer.interim.size() == 1);
    CHECK(answer.interim[0].status() == 103);
    const H2Call call = upstream.call("/both");
    CHECK(call.field("te") == "trailers");
    CHECK(call.field("grpc-timeout") == "5S");
    const H2Answer bare = client.get("/only-trailers");
    CHECK(bare.is_whole);
    CHECK(bare.field("grpc-status") == "12");
    CHECK(bare.chunks == 0);
    CHECK(bare.count("content-length") == 0);
}

TEST_CASE("upstream http2: HEAD, 204 and 304 have no body, and their connection stays") {
    H2Upstream upstream([](const H2Call& call) {
        if (call.path() == "/204") return H2Reply{.status = 204};
        if (call.path() == "/304") return H2Reply{.status = 304};
        return H2Reply{.fields = {{"content-length", "7"}}};
    });
    const Tidegate tidegate(to(upstream));
    RawClient client = tidegate.client();
    CHECK(client.get("/204").status() == 204);
    CHECK(client.get("/304").status() == 304);
    client.send("HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n");
    const Message head = client.response_to_head();
    CHECK(head.status() == 200);
    CHECK(head.field("content-length") == "7");
    CHECK(upstream.connections() == 1);
}

TEST_CASE("upstream http2: more requests at once than a connection takes open further ones") {
    H2Upstream upstream(wait, {.settings = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 50}}});
    H2Proxy proxy(to(upstream));
    H2Client client = proxy.client({.settings = {}});
    // So the proxy knows what the server takes.
    const int first = client.begin({.path = "/first"});
    CHECK_SOON(upstream.whole_calls() == 1);
    upstream.answer(upstream.call("/first"), {});
    CHECK(client.answer(first).status() == 200);
    H2Client second = proxy.client();
    const std::vector<int> streams = begin_many(client, 80);
    const std::vector<int> others = begin_many(second, 40);
    CHECK_SOON(upstream.whole_calls() >= 81);
    CHECK_SOON(upstream.whole_calls() == 121);
    CHECK(upstream.whole_calls() == 121);
    CHECK(upstream.connections() == 3);
    for (const H2Call& call : upstream.calls()) {
        if (call.path() != "/first") upstream.answer(call, {.body = call.path()});
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
        const H2Answer answer = client.answer(streams[i]);
        CHECK(answer.status() == 200);
        CHECK(answer.body == "/" + std::to_string(i));
    }
    for (const int stream : others) CHECK(second.answer(stream).status() == 200);
}

TEST_CASE("upstream http2: each request in flight has a seat") {
    H2Upstream upstream(wait);
    const Tidegate tidegate(to(upstream, "max_connections: 2, queue: off"));
    RawClient first = tidegate.client();
    RawClient second = tidegate.client();
    first.send(get_request("/1"));
    second.send(get_request("/2"));
    CHECK_SOON(upstream.whole_calls() == 2);
    CHECK(tidegate.get("/3").status() == 503);
    upstream.answer(upstream.call("/1"), {});
    CHECK(first.response().status() == 200);
    first.send(get_request("/4"));
    CHECK_SOON(upstream.whole_calls() == 3);
    upstream.answer(upstream.call("/2"), {});
    upstream.answer(upstream.call("/4"), {});
    CHECK(second.response().status() == 200);
    CHECK(first.response().status() == 200);
    CHECK(upstream.connections() == 1);
}

TEST_CASE("upstream http2: a client that does not read stalls no other client") {
    const std::string large(4'000'000, 'x');
    H2Upstream upstream([&](const H2Call& call) {
        return H2Reply{.body = call.path() == "/large" ? large : "small"};
    });
    const Tidegate tidegate(to(upstream));
    RawClient slow = tidegate.client();
    slow.send(get_request("/large"));
    CHECK_SOON(upstream.whole_calls() == 1);
    RawClient quick = tidegate.client();
    for (int i = 0; i < 20; ++i) {
        const Message answer = quick.get("/quick");
        CHECK(answer.body == "small");
    }
    CHECK(upstream.connections() == 1);
    CHECK(slow.response().body.size() == large.size());
}

TEST_CASE("upstream http2: an upload may be answered before its end") {
    H2Upstream upstream(always({.status = 413, .body = "enough"}), {.early = true});
    H2Proxy proxy(to(upstream));
    H2Client client = proxy.client();
    const int stream = client.begin({.method = "POST", .path = "/up", .stays_open = true});
    client.send(stream, std::string(1'000, 'x'));
    const H2Answer answer = client.answer(stream);
    CHECK(answer.status() == 413);
    CHECK(answer.body == "enough");
    CHECK(client.get("/next").status() == 413);
    CHECK(upstream.connections() == 1);
}

TEST_CASE("upstream http2: idle connections close, and a reload leaves requests alone") {
    H2Upstream upstream(wait);
    Tidegate tidegate(to(upstream, "timeouts: {idle: 300ms}"));
    RawClient client = tidegate.client();
    client.send(get_request("/long"));
    CHECK_SOON(upstream.whole_calls() == 1);
    tidegate.write_configuration(to(upstream, "timeouts: {idle: 400ms}"));
    CHECK(tidegate.reload().status() == 200);
    upstream.answer(upstream.call("/long"), {.body = "long"});
    CHECK(client.response().body == "long");
    CHECK_SOON(upstream.open() == 0);
}

}  // namespace tidegate::test::upstream_http2_test
