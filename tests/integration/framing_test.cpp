// Requests that must go no further: each is refused, its connection closed, and the next client is
// served as before.
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::framing_test {

namespace {

struct BadRequest {
    std::string fault;
    std::string bytes;
};

const std::string kHead = "POST / HTTP/1.1\r\nHost: a\r\n";
const std::string kChunked = kHead + "Transfer-Encoding: chunked\r\n\r\n";

// Each followed by what a smuggler would like to be the next request.
std::vector<BadRequest> bad_heads() {
    const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n";
    return {
        {"both lengths",
         kHead + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {"both lengths, turned", kHead + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"},
        {"two lengths that differ", kHead + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd"},
        {"the same length twice", kHead + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd"},
        {"a list of lengths", kHead + "Content-Length: 4, 4\r\n\r\nabcd"},
        {"a negative length", kHead + "Content-Length: -1\r\n\r\n"},
        {"a length with a plus", kHead + "Content-Length: +4\r\n\r\nabcd"},
        {"a length in hexadecimal", kHead + "Content-Length: 0x4\r\n\r\nabcd"},
        {"an empty length", kHead + "Content-Length:\r\n\r\n"},
        {"a length beyond 64 bits", kHead + "Content-Length: 99999999999999999999\r\n\r\n"},
        {"a length that wraps to 4", kHead + "Content-Length: 18446744073709551620\r\n\r\nabcd"},
        {"an unknown coding", kHead + "Transfer-Encoding: gzip\r\n\r\n"},
        {"a coding before chunked", kHead + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
        {"chunked twice", kHead + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
        {"two coding fields",
         kHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"},
        {"a hidden coding", kHead + "Transfer-Encoding: \x0b"
                                    "chunked\r\n\r\n0\r\n\r\n"},
        {"an empty coding", kHead + "Transfer-Encoding:\r\n\r\n"},
        {"chunks in HTTP/1.0",
         "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {"a folded field", get + "X-A: b\r\n c\r\n\r\n"},
        {"a folded field at the start", "GET / HTTP/1.1\r\n Host: a\r\n\r\n"},
        {"a bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n"},
        {"a bare LF after a field", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"},
        {"a bare LF at the end", "GET / HTTP/1.1\r\nHost: a\r\n\n"},
        {"a bare CR in a field", get + "X-A: b\rc\r\n\r\n"},
        {"a space before the colon", get + "X-A : b\r\n\r\n"},
        {"a space before the colon of a length", kHead + "Content-Length : 4\r\n\r\nabcd"},
        {"a line without a colon", get + "nothing\r\n\r\n"},
        {"an empty name", get + ": b\r\n\r\n"},
        {"a control character in a value", get + "X-A: a\x01z\r\n\r\n"},
        {"a zero byte in a value", get + "X-A: a" + std::string(1, '\0') + "z\r\n\r\n"},
        {"a zero byte in a name", get + "X" + std::string(1, '\0') + "A: z\r\n\r\n"},
        {"two Hosts", get + "Host: b\r\n\r\n"},
        {"the same Host twice", get + "Host: a\r\n\r\n"},
        {"no Host", "GET / HTTP/1.1\r\nX: y\r\n\r\n"},
        {"a Host that is none", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
        {"a Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
        {"two spaces in the request line", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"a tab in the request line", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"a target that is no path", "GET a HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"a method with a colon", "G:T / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"no version", "GET /\r\nHost: a\r\n\r\n"},
        {"a version in small letters", "GET / http/1.1\r\nHost: a\r\n\r\n"},
        {"a TLS greeting", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)},
        {"rubbish", "\xff\xfe\xfd rubbish\r\n\r\n"},
    };
}

std::vector<BadRequest> bad_chunks() {
    return {
        {"a size that is no number", kChunked + "zz\r\nabcd\r\n0\r\n\r\n"},
        {"an empty size", kChunked + "\r\nabcd\r\n0\r\n\r\n"},
        {"a negative size", kChunked + "-4\r\nabcd\r\n0\r\n\r\n"},
        {"a size with 0x", kChunked + "0x4\r\nabcd\r\n0\r\n\r\n"},
        {"a size beyond 64 bits", kChunked + "10000000000000004\r\nabcd\r\n0\r\n\r\n"},
        {"a space before the size", kChunked + " 4\r\nabcd\r\n0\r\n\r\n"},
        {"a bare LF after the size", kChunked + "4\nabcd\r\n0\r\n\r\n"},
        {"a bare LF in an extension", kChunked + "4;a\nb\r\nabcd\r\n0\r\n\r\n"},
        {"no CRLF after the data", kChunked + "4\r\nabcdef\r\n0\r\n\r\n"},
        {"a bare LF after the data", kChunked + "4\r\nabcd\n0\r\n\r\n"},
        {"a trailer without a colon", kChunked + "0\r\nnothing\r\n\r\n"},
        {"a bare LF in the trailers", kChunked + "0\r\nA: b\n\r\n"},
    };
}

}  // namespace

TEST_CASE("framing: a malformed head is answered 400, closed, and never reaches the upstream") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    for (const auto& bad : bad_heads()) {
        CAPTURE(bad.fault);
        auto client = tidegate.client();
        client.send(bad.bytes + "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        const auto answer = client.response();
        CHECK(answer.status() == 400);
        CHECK(same_name(answer.field("Connection"), "close"));
        CHECK(answer.field("Content-Type") == "application/problem+json");
        CHECK(nlohmann::json::parse(answer.body).at("status") == 400);
        CHECK(client.closed());
    }
    CHECK(upstream.requests() == 0);
    CHECK(tidegate.get().status() == 200);
}

TEST_CASE("framing: a malformed chunk ends the request with an error and the connection") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    for (const auto& bad : bad_chunks()) {
        CAPTURE(bad.fault);
        auto client = tidegate.client();
        client.send(bad.bytes + "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK(client.response().status() == 400);
        CHECK(client.closed());
        CHECK(tidegate.get("/next").status() == 200);
    }
    for (const auto& request : upstream.seen()) {
        // The upstream never got a whole body, nor anything behind it.
        CHECK((request.target() == "/next" || request.broken));
    }
}

TEST_CASE("framing: other versions of HTTP are refused") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    for (const std::string version :
         {"HTTP/0.9", "HTTP/1.2", "HTTP/1.10", "HTTP/2.0", "HTTP/3.0"}) {
        CAPTURE(version);
        auto client = tidegate.client();
        const int status =
            client.ask("GET / " + std::string(version) + "\r\nHost: a\r\n\r\n").status();
        CHECK((status == 400 || status == 505));
        CHECK(client.closed());
    }
    auto client = tidegate.client();
    CHECK(client.ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status() >= 400);
    CHECK(upstream.requests() == 0);
}

TEST_CASE("framing: a head cut off at any byte disturbs no other client") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    const auto whole = post_request("/path", "body", "X-Field: value\r\n");
    for (std::size_t size = 0; size < whole.size() - 4; size += 3) {
        auto client = tidegate.client();
        client.send(std::string_view(whole).substr(0, size));
        if (size % 2 == 0) client.reset();
    }
    CHECK(tidegate.get().status() == 200);
    const auto deadline = Clock::now() + kPatience;
    while (tidegate.metric("tidegate_client_connections") > 0 && Clock::now() < deadline)
        std::this_thread::sleep_for(milliseconds{10});
    CHECK_SOON(tidegate.metric("tidegate_client_connections") == 0);
}

TEST_CASE("framing: a message over a bound on size gets 414, 431 or 413") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "limits_on_requests: {header_bytes: 2KiB, headers: 20, uri_bytes: 1KiB, body_bytes: 1KiB}"
        "\n" +
        simple(upstream.url()));
    const auto status = [&](const std::string& request) {
        auto client = tidegate.client();
        client.send(request);
        const auto answer = client.response();
        CHECK(same_name(answer.field("Connection"), "close"));
        return answer.status();
    };
    CHECK(status(get_request("/" + std::string(1100, 'a'))) == 414);
    CHECK(status("GET /" + std::string(5000, 'a')) == 414);  // no end of the line in sight
    CHECK(status(get_request("/", "X-A: " + std::string(3000, 'a') + "\r\n")) == 431);
    CHECK(status("GET / HTTP/1.1\r\nHost: a\r\nX-A: " + std::string(9000, 'a')) == 431);
    std::string many;
    for (int i = 0; i < 30; ++i) many += "A: b\r\n";
    CHECK(status(get_request("/", many)) == 431);
    CHECK(status(post_request("/", std::string(1025, 'a'))) == 413);
    CHECK(status(kHead + "Content-Length: 1000000000000\r\n\r\n") == 413);
    CHECK(status(kChunked + chunk(std::string(600, 'a')) + chunk(std::string(600, 'a'))) == 413);
    CHECK(status(kChunked + "fffffffff\r\n") == 413);

    auto client = tidegate.client();
    CHECK(client.ask(post_request("/", std::string(1024, 'a'))).status() == 200);
    CHECK(client.get("/" + std::string(1000, 'a')).status() == 200);
}

TEST_CASE("framing: trailers are bounded like fields") {
    const Upstream upstream(ok());
    const Tidegate tidegate("limits_on_requests: {header_bytes: 2KiB}\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send(kChunked + "0\r\n");
    for (int i = 0; i < 200; ++i) client.send("X-Trailer: " + std::string(100, 'a') + "\r\n");
    const int status = client.response().status();
    CHECK((status == 400 || status == 431));
    CHECK(client.closed());
}

TEST_CASE("framing: an endless chunk extension is not read for ever") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send(kChunked + "4;");
    const std::string block(64 * 1024, 'a');
    for (int i = 0; i < 16 && client.send(block); ++i) {
    }
    CHECK(client.response().status() == 400);
}

TEST_CASE("framing: a head that comes too slowly is answered 408, however steadily it drips") {
    const Upstream upstream(ok());
    const Tidegate tidegate("timeouts: {request_head: 500ms}\n" + simple(upstream.url()));
    auto client = tidegate.client();
    const auto begin = Clock::now();
    std::jthread drip([&] {
        for (const char byte : std::string("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: a")) {
            if (!client.send({&byte, 1})) break;
            std::this_thread::sleep_for(milliseconds{100});
        }
    });
    CHECK(client.response().status() == 408);
    CHECK(Clock::now() - begin < milliseconds{2500});
    drip.join();
    CHECK(tidegate.get().status() == 200);
}

TEST_CASE("framing: a body that stops coming is answered 408") {
    const Upstream upstream(ok());
    const Tidegate tidegate("timeouts: {request_body: 300ms}\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send(kHead + "Content-Length: 100\r\n\r\nbegin");
    CHECK(client.response().status() == 408);
    CHECK(client.closed());
}

TEST_CASE("framing: an idle connection is closed without a word") {
    const Upstream upstream(ok());
    const Tidegate tidegate("timeouts: {client_idle: 300ms}\n" + simple(upstream.url()));
    auto fresh = tidegate.client();
    auto used = tidegate.client();
    CHECK(used.get().status() == 200);
    const auto begin = Clock::now();
    CHECK(fresh.closed());
    CHECK(used.closed());
    CHECK(Clock::now() - begin < milliseconds{3000});
}

TEST_CASE("framing: CONNECT and a path of no route are refused") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "upstreams: {api: {servers: [" + upstream.url() +
        "]}}\nroutes: [{name: a, match: {path: /a}, upstream: api, policies: []}]\n");
    auto client = tidegate.client();
    const auto answer = client.get("/b");
    CHECK(answer.status() == 404);
    CHECK(answer.field("Content-Type") == "application/problem+json");
    CHECK(client.get("/a").status() == 200);  // the connection is still good
    CHECK(tidegate.client().ask("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n").status() >= 400);
    CHECK(upstream.requests() == 1);
}

}  // namespace tidegate::test::framing_test
