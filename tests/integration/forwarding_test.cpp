// Messages pass through whole, in both directions, however they are framed.
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::forwarding_test {

namespace {

// Bytes that differ from place to place, so that a lost or doubled part shows.
std::string pattern(std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 31 + i / 251) & 0xff);
    return bytes;
}

// Answers with the body it was sent.
Upstream::Handler mirror() {
    return Upstream::answering([](const Message& request) { return ok(request.body); });
}

constexpr std::size_t kMebibyte = 1024 * 1024;

// Eight, unless $TIDEGATE_LARGE_MIB says how many.
std::size_t large_body_bytes() {
    const char* chosen = std::getenv("TIDEGATE_LARGE_MIB");
    return (chosen == nullptr ? 8 : std::stoul(chosen)) * kMebibyte;
}

}  // namespace

TEST_CASE("forwarding: a connection serves many requests, and so does the one to the upstream") {
    const Upstream upstream(ok("hello"));
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    for (int i = 0; i < 20; ++i) CHECK(client.get("/" + std::to_string(i)).body == "hello");
    CHECK(upstream.requests() == 20);
    CHECK(upstream.connections() == 1);
    CHECK(upstream.last().target() == "/19");
}

TEST_CASE("forwarding: pipelined requests are answered in order") {
    const Upstream upstream(
        Upstream::answering([](const Message& request) { return ok(request.target()); }));
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send(get_request("/a") + post_request("/b", "with a body") + get_request("/c") +
                get_request("/d?e=f"));
    for (const std::string target : {"/a", "/b", "/c", "/d?e=f"})
        CHECK(client.response().body == target);
}

TEST_CASE("forwarding: a request that comes byte by byte is one request") {
    const Upstream upstream(mirror());
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    for (const char byte : post_request("/slow", "body")) {
        client.send({&byte, 1});
        std::this_thread::sleep_for(milliseconds{1});
    }
    CHECK(client.response().body == "body");
    CHECK(upstream.requests() == 1);
}

TEST_CASE("forwarding: HTTP/1.0 closes unless asked to stay, and is never sent chunks" *
          only_over_http1("another version")) {
    const Upstream upstream(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    const auto answer = client.ask("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    CHECK_FALSE(answer.has("Transfer-Encoding"));
    CHECK(answer.body == "hello");
    CHECK(client.closed());

    auto without_host = tidegate.client();
    CHECK(without_host.ask("GET / HTTP/1.0\r\n\r\n").status() == 200);
}

TEST_CASE("forwarding: HTTP/1.0 with keep-alive stays when the length is known" *
          only_over_http1("another version")) {
    const Upstream upstream(ok("hello"));
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    for (int i = 0; i < 2; ++i) {
        const auto answer =
            client.ask("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
        CHECK(answer.body == "hello");
        CHECK(same_name(answer.field("Connection"), "keep-alive"));
    }
}

TEST_CASE("forwarding: Connection: close is honoured and answered by the same" *
          only_over_http1("it has no Connection")) {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    const auto answer = client.get("/", "Connection: close\r\n");
    CHECK(same_name(answer.field("Connection"), "close"));
    CHECK(client.closed());
}

TEST_CASE("forwarding: HEAD, 204 and 304 have no body, whatever their fields say") {
    const Upstream upstream(Upstream::answering([](const Message& request) -> std::string {
        if (request.method() == "HEAD") return "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n";
        if (request.target() == "/204") return "HTTP/1.1 204 No Content\r\n\r\n";
        return "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 500\r\n\r\n";
    }));
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    const auto head = client.response_to_head();
    CHECK(head.status() == 200);
    CHECK(head.field("Content-Length") == "500");
    const auto empty = client.get("/204");
    CHECK(empty.status() == 204);
    CHECK_FALSE(empty.has("Content-Length"));
    CHECK_FALSE(empty.has("Transfer-Encoding"));
    const auto unchanged = client.get("/304");
    CHECK(unchanged.status() == 304);
    CHECK(unchanged.field("ETag") == "\"x\"");
    CHECK(upstream.connections() == 1);
}

TEST_CASE("forwarding: bodies with a length and in chunks arrive as they were sent") {
    const Upstream upstream(mirror());
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    for (const std::size_t size : {0UL, 1UL, 4095UL, 4096UL, 16384UL, 65537UL, 300000UL}) {
        CAPTURE(size);
        const auto body = pattern(size);
        CHECK(client.ask(post_request("/", body)).body == body);
        const auto half = size / 2;
        const std::string_view bytes = body;
        std::string chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        if (half > 0) chunked += chunk(bytes.substr(0, half));
        if (size > 0) chunked += chunk(bytes.substr(half));
        CHECK(client.ask(chunked + "0\r\n\r\n").body == body);
    }
}

TEST_CASE("forwarding: chunk extensions go no further, whatever the size is written like") {
    const Upstream upstream(mirror());
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    const auto answer = client.ask(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n"
        "00A;name=value\r\n0123456789\r\na\r\nabcdefghij\r\n0;last\r\n\r\n");
    CHECK(answer.body == "0123456789abcdefghij");
    const auto seen = upstream.last();
    CHECK(seen.field("Transfer-Encoding") == "chunked");
    CHECK_FALSE(seen.has("Content-Length"));
}

TEST_CASE("forwarding: an answer in chunks, with a length, or ended by the close arrives whole") {
    const auto body = pattern(200'000);
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (request.target() == "/close") {
                conversation.send("HTTP/1.1 200 OK\r\n\r\n" + body);
                return;
            }
            if (request.target() == "/length") {
                conversation.send(ok(body));
                continue;
            }
            conversation.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                              chunk(body.substr(0, 7)) + chunk(body.substr(7)) + "0;x=y\r\n\r\n");
        }
    });
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    for (const std::string path : {"/chunks", "/length", "/close"}) {
        CAPTURE(path);
        const auto answer = client.get(path);
        CHECK(answer.body == body);
        CHECK_FALSE(answer.broken);
    }
}

TEST_CASE("forwarding: 1xx answers are relayed to HTTP/1.1 and kept from HTTP/1.0") {
    const Upstream upstream("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" + ok("final"));
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    const auto early = client.get();
    CHECK(early.status() == 103);
    CHECK(early.field("Link") == "</a.css>");
    CHECK(client.response().body == "final");
    if (over_http2()) return;
    auto old = tidegate.client();
    CHECK(old.ask("GET / HTTP/1.0\r\nHost: a\r\n\r\n").body == "final");
}

TEST_CASE("forwarding: a client that expects 100-continue gets it") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        if (request.has("Expect")) conversation.send("HTTP/1.1 100 Continue\r\n\r\n");
        std::string body;
        while (body.size() < 5) body += conversation.some();
        conversation.send(ok(body));
        conversation.wait_for_end();
    });
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    CHECK(client.response().status() == 100);
    client.send("12345");
    CHECK(client.response().body == "12345");
}

TEST_CASE("forwarding: a limited client that expects 100-continue is refused without its body") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "1/h"));
    CHECK(tidegate.get().status() == 200);
    auto client = tidegate.client();
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5000000\r\n\r\n");
    CHECK(client.response().status() == 429);
}

TEST_CASE("forwarding: bytes are forwarded as they arrive, both ways") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (auto part = conversation.some(); !part.empty(); part = conversation.some()) {
            conversation.send(chunk("<" + std::to_string(part.size()) + ">"));
            if (part.find("\r\n0\r\n") != std::string::npos || part.rfind("0\r\n", 0) == 0) break;
        }
        conversation.send("0\r\n\r\n");
        conversation.wait_for_end();
    });
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    CHECK(client.some().find("200") != std::string::npos);  // before any of the body is sent
    for (int i = 0; i < 3; ++i) {
        client.send(chunk("part"));
        CHECK(client.some().find('<') != std::string::npos);  // and again for each part
    }
    client.send("0\r\n\r\n");
    std::string end;
    while (end.find("0\r\n\r\n") == std::string::npos) {
        const auto more = client.some();
        if (over_http2() && more.empty()) break;
        REQUIRE(!more.empty());
        end += more;
    }
}

TEST_CASE("forwarding: an answer before the end of the upload reaches the client") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send(
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
        conversation.wait_for_end();
    });
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nbegin");
    const auto answer = client.response();
    CHECK(answer.status() == 403);
    CHECK(answer.body == "no");
}

TEST_CASE("forwarding: a large body goes up and down in bounded memory") {
    const auto body = pattern(large_body_bytes());
    const Upstream upstream(mirror());
    const Tidegate tidegate(simple(upstream.url()));
    CHECK(tidegate.get().status() == 200);
    const long before = tidegate.peak_memory_kib();
    auto client = tidegate.client();
    std::jthread sender([&] { client.send(post_request("/", body)); });
    const auto answer = client.response();
    sender.join();
    CHECK(answer.body == body);
    if (!sanitized()) CHECK(tidegate.peak_memory_kib() - before < 2048);
}

TEST_CASE("forwarding: a client that does not read holds back the upstream, not memory") {
    const auto body = pattern(8 * kMebibyte);
    const Upstream upstream(ok(body));
    const Tidegate tidegate(simple(upstream.url()));
    CHECK(tidegate.get().body == body);
    const long before = tidegate.peak_memory_kib();
    std::vector<RawClient> lazy;
    for (int i = 0; i < 8; ++i) {
        lazy.push_back(tidegate.client());
        lazy.back().send(get_request("/"));
    }
    std::this_thread::sleep_for(milliseconds{300});
    if (!sanitized()) CHECK(tidegate.peak_memory_kib() - before < 4096);
    for (auto& client : lazy) CHECK(client.response().body == body);
}

TEST_CASE("forwarding: several servers take turns") {
    const Upstream first(ok("first"));
    const Upstream second(ok("second"));
    const Upstream third(ok("third"));
    const Tidegate tidegate("threads: 1\n" + unlimited({first.url(), second.url(), third.url()}));
    auto client = tidegate.client();
    for (int i = 0; i < 30; ++i) CHECK(client.get().status() == 200);
    CHECK(first.requests() == 10);
    CHECK(second.requests() == 10);
    CHECK(third.requests() == 10);
}

}  // namespace tidegate::test::forwarding_test
