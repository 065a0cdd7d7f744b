// Upstreams that are away, slow or broken, or send wrong bytes.
#include "integration/upstream.hpp"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"

namespace tidegate::test::upstream_test {

namespace {

struct BadResponse {
    std::string fault;
    std::string bytes;
};

std::vector<BadResponse> bad_responses() {
    const std::string status = "HTTP/1.1 200 OK\r\n";
    return {
        {"nothing at all", ""},
        {"garbage", "this is not HTTP\r\n\r\n"},
        {"binary garbage", std::string("\x00\xff\x15\x03\x01", 5)},
        {"half a status line", "HTTP/1.1 20"},
        {"half a head", status + "Content-Length: 2\r\nX-A"},
        {"a status of two digits", "HTTP/1.1 20 OK\r\n\r\n"},
        {"a status below 100", "HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n"},
        {"a version that is none", "HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n"},
        {"two lengths that differ", status + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc"},
        {"a length and a coding",
         status + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {"an unknown coding", status + "Transfer-Encoding: gzip\r\n\r\nabc"},
        {"a negative length", status + "Content-Length: -1\r\n\r\n"},
        {"a length that is no number", status + "Content-Length: two\r\n\r\nab"},
        {"a folded field", status + "X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n"},
        {"a space before the colon", status + "Content-Length : 2\r\n\r\nab"},
        {"a zero byte", status + "X-A: a" + std::string(1, '\0') + "\r\nContent-Length: 0\r\n\r\n"},
        {"a bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
        {"a line without a colon", status + "nothing\r\nContent-Length: 0\r\n\r\n"},
        {"a head without end", status + "X-A: " + std::string(200'000, 'a')},
        {"a 101 nobody asked for", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"},
    };
}

// Sends `bytes` on each connection, and closes.
Upstream::Handler saying(std::string bytes) {
    return [bytes = std::move(bytes)](Conversation& conversation) {
        Message request;
        if (conversation.read(request)) conversation.send(bytes);
    };
}

std::string refused() {
    return "http://127.0.0.1:" + std::to_string(free_port());
}

}  // namespace

TEST_CASE("upstream: whatever is no valid answer is 502, and does not show the server's address") {
    for (const auto& bad : bad_responses()) {
        CAPTURE(bad.fault);
        const Upstream upstream(saying(bad.bytes));
        const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
        auto client = tidegate.client();
        const auto answer = client.ask(post_request("/", "body"));
        CHECK(answer.status() == 502);
        CHECK(answer.field("Content-Type") == "application/problem+json");
        CHECK(answer.body.find(std::to_string(upstream.port())) == std::string::npos);
        CHECK(upstream.requests() == 1);
    }
}

TEST_CASE("upstream: a server that is away is 502, at once") {
    const Tidegate tidegate(simple(refused()));
    auto client = tidegate.client();
    const auto begin = Clock::now();
    CHECK(client.get().status() == 502);
    CHECK(client.ask(post_request("/", "body")).status() == 502);
    CHECK(Clock::now() - begin < milliseconds{2000});
}

TEST_CASE("upstream: any request goes to the next server when one cannot be reached") {
    const Upstream alive(ok("alive"));
    const Tidegate tidegate("threads: 1\n" + unlimited({refused(), alive.url()}));
    auto client = tidegate.client();
    for (int i = 0; i < 6; ++i) {
        CHECK(client.get().body == "alive");
        CHECK(client.ask(post_request("/", "body")).body == "alive");
    }
    CHECK(alive.requests() == 12);
}

TEST_CASE("upstream: a server that comes back is used again") {
    const auto port = free_port();
    const Tidegate tidegate(simple("http://127.0.0.1:" + std::to_string(port)));
    CHECK(tidegate.get().status() == 502);
    const Upstream upstream(ok("back"), port);
    const auto answer = tidegate.get();
    CHECK(answer.status() == 200);
    CHECK(answer.body == "back");
}

TEST_CASE("upstream: a server that is slow to answer is 504") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (conversation.read(request)) conversation.wait_for_end();
    });
    const Tidegate tidegate(unlimited({upstream.url()}, "timeouts: {response: 300ms}"));
    auto client = tidegate.client();
    const auto begin = Clock::now();
    CHECK(client.get().status() == 504);
    const auto took = Clock::now() - begin;
    CHECK(took >= milliseconds{280});
    CHECK(took < milliseconds{2000});
    CHECK(upstream.requests() == 1);
}

TEST_CASE("upstream: a late answer never reaches the next request") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (request.target() == "/late") std::this_thread::sleep_for(milliseconds{500});
            if (!conversation.send(ok(request.target()))) return;
        }
    });
    const Tidegate tidegate("threads: 1\n" +
                            unlimited({upstream.url()}, "timeouts: {response: 200ms}"));
    auto client = tidegate.client();
    CHECK(client.get("/late").status() == 504);
    CHECK(tidegate.get("/next").body == "/next");
    std::this_thread::sleep_for(milliseconds{500});
    CHECK(tidegate.get("/after").body == "/after");
}

TEST_CASE("upstream: no more connections than allowed, and 503 at once without a queue") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        std::this_thread::sleep_for(milliseconds{1000});
        conversation.send(ok());
        conversation.wait_for_end();
    });
    const Tidegate tidegate(
        "threads: 1\n" +
        unlimited({upstream.url()}, "max_connections: 1, queue: off, timeouts: {connect: 200ms}"));
    auto first = tidegate.client();
    first.send(get_request("/"));
    CHECK_SOON(upstream.requests() == 1);
    const auto begin = Clock::now();
    CHECK(tidegate.get().status() == 503);
    CHECK(Clock::now() - begin < milliseconds{500});
    CHECK(first.response().status() == 200);
    CHECK(upstream.connections() == 1);
}

TEST_CASE("upstream: an answer that breaks off looks broken to the client") {
    const std::string status = "HTTP/1.1 200 OK\r\n";
    const std::vector<BadResponse> broken = {
        {"a length not reached", status + "Content-Length: 1000\r\n\r\npart"},
        {"chunks without an end", status + "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"},
        {"half a chunk", status + "Transfer-Encoding: chunked\r\n\r\n100\r\npart"},
        {"a size that is no number",
         status + "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\nzz\r\n"},
        {"a chunk without its CRLF", status + "Transfer-Encoding: chunked\r\n\r\n4\r\npartpart"},
        {"no end of the trailers", status + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n"},
    };
    for (const auto& bad : broken) {
        CAPTURE(bad.fault);
        const Upstream upstream(saying(bad.bytes));
        const Tidegate tidegate(simple(upstream.url()));
        auto client = tidegate.client();
        bool visible = false;
        try {
            const auto answer = client.get();
            visible = answer.broken || answer.status() == 502;
        } catch (const MalformedMessage&) {
            visible = true;
        }
        CHECK(visible);
        if (over_http2()) continue;
        auto old = tidegate.client();
        old.send("GET / HTTP/1.0\r\n\r\n");
        const auto raw = old.rest();
        // HTTP/1.0 has no chunks to miss: a reset is the only way to say it.
        const bool length_tells = raw.find("Content-Length: 1000") != std::string::npos;
        CHECK((old.was_reset() || length_tells || raw.find(" 502 ") != std::string::npos));
    }
}

TEST_CASE("upstream: a reset in mid-answer looks broken to the client") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart");
        std::this_thread::sleep_for(milliseconds{50});
        conversation.reset();
    });
    const Tidegate tidegate(simple(upstream.url()));
    CHECK(tidegate.client().get().broken);
}

TEST_CASE("upstream: a GET on a pooled connection that died is sent once more, on a new one") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(ok("first"));
        if (conversation.number() == 1) {
            conversation.read(request);  // takes the second request, and closes without an answer
            return;
        }
        conversation.wait_for_end();
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    CHECK(client.get("/1").status() == 200);
    CHECK(client.get("/2").status() == 200);
    CHECK(upstream.connections() == 2);
    CHECK(upstream.requests() == 3);
}

TEST_CASE("upstream: a POST on a pooled connection that died is not sent again") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(ok("first"));
        if (conversation.number() == 1) conversation.read(request);
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    CHECK(client.get("/1").status() == 200);
    CHECK(client.ask(post_request("/2", "body")).status() == 502);
    CHECK(upstream.requests() == 2);
}

TEST_CASE("upstream: a request that dies on its second connection too is 502, not tried for ever") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        if (conversation.number() > 1) return;
        conversation.send(ok());
        conversation.read(request);
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    CHECK(client.get().status() == 200);
    CHECK(client.get().status() == 502);
    CHECK(upstream.requests() == 3);
}

TEST_CASE("upstream: bytes that a server sends unasked are discarded with its connection") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(ok("asked"));
        std::this_thread::sleep_for(milliseconds{100});
        conversation.send(ok("unasked"));
        conversation.wait_for_end();
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    for (int i = 0; i < 3; ++i) {
        CHECK(client.get().body == "asked");
        std::this_thread::sleep_for(milliseconds{200});
    }
    CHECK(upstream.connections() == 3);
}

TEST_CASE("upstream: bytes behind an answer never become the next one") {
    const Upstream upstream(saying(ok("asked") + ok("unasked")));
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    for (int i = 0; i < 3; ++i) CHECK(client.get().body == "asked");
}

TEST_CASE("upstream: a connection whose answer asks to close is not used again") {
    const Upstream upstream(ok("ok", "Connection: close\r\n"));
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    for (int i = 0; i < 3; ++i) CHECK(client.get().status() == 200);
    CHECK(upstream.connections() == 3);
}

TEST_CASE("upstream: a client that leaves takes its request with it, and no other") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (request.target() == "/slow") return conversation.wait_for_end();
            conversation.send(ok("quick"));
        }
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    for (int i = 0; i < 10; ++i) {
        auto leaver = tidegate.client();
        leaver.send(get_request("/slow"));
        std::this_thread::sleep_for(milliseconds{5});
        leaver.reset();
    }
    CHECK(tidegate.get("/quick").body == "quick");
}

TEST_CASE("upstream: an upload that breaks off never looks whole to the server") {
    std::atomic<int> whole{0};
    std::atomic<int> broken{0};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        try {
            while (conversation.read(request)) {
                ++(request.broken ? broken : whole);
                if (!request.broken) conversation.send(ok());
            }
        } catch (const MalformedMessage&) {
            ++broken;
        }
    });
    const Tidegate tidegate(unlimited({upstream.url()}, "request_buffer: off"));
    const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
    for (const std::string& upload :
         {head + "Content-Length: 1000\r\n\r\npart",
          head + "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n",
          head + "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n0\r\n"}) {
        auto client = tidegate.client();
        client.send(upload);
        std::this_thread::sleep_for(milliseconds{50});
        client.reset();
    }
    const auto deadline = Clock::now() + milliseconds{3000};
    while (broken < 3 && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds{10});
    CHECK(broken == 3);
    CHECK(whole == 0);
    CHECK(tidegate.get().status() == 200);
}

}  // namespace tidegate::test::upstream_test
