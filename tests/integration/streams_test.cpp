// Answers that take their time: events, long polling, silence before the head and after it.
#include <atomic>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::streams_test {

namespace {

constexpr std::size_t kMebibyte = 1'048'576;
const std::string kEvents =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const std::string kEnd = "0\r\n\r\n";

void pause(int milliseconds_long) {
    std::this_thread::sleep_for(milliseconds{milliseconds_long});
}

std::string timeouts(const std::string& inside) {
    return "timeouts: {" + inside + "}";
}

// Reads what comes until `part` has come, or the end.
std::string until(RawClient& client, const std::string& part) {
    std::string seen;
    while (seen.find(part) == std::string::npos) {
        const std::string more = client.some();
        if (more.empty()) break;
        seen += more;
    }
    return seen;
}

}  // namespace

TEST_CASE("streams: an answer with silence between its events may last longer than `response`") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            conversation.send(kEvents);
            for (const char* event : {"one", "two", "three"}) {
                pause(500);
                conversation.send(chunk(event));
            }
            conversation.send(kEnd);
        }
    });
    const Tidegate tidegate(
        unlimited({upstream.url()}, timeouts("response: 250ms, stream_idle: 2s")));
    auto client = tidegate.client();
    const auto answer = client.get();
    CHECK(answer.status() == 200);
    CHECK(answer.body == "onetwothree");
    CHECK_FALSE(answer.broken);
    // The connection takes the next request.
    CHECK(client.get().body == "onetwothree");
    CHECK(tidegate.metric_sum("tidegate_request_faults_total") == 0);
}

TEST_CASE("streams: silence longer than `stream_idle` breaks the answer off, as a stalled one") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(kEvents + chunk("one"));
        pause(200);
        conversation.send(chunk("two"));
        conversation.wait_for_end();
    });
    const Tidegate tidegate(
        unlimited({upstream.url()}, timeouts("response: 10s, stream_idle: 400ms")));
    const auto begin = Clock::now();
    const auto answer = tidegate.get();
    const auto took = Clock::now() - begin;
    CHECK(answer.broken);
    // Each byte begins the time anew.
    CHECK(took >= milliseconds{580});
    CHECK(took < milliseconds{3000} + slack());
    const auto line = tidegate.access_log(1).back();
    CHECK(line.at("error") == "upstream: answer stalled");
    CHECK(line.at("status") == 200);
    CHECK_SOON(tidegate.metric("tidegate_upstream_connections") == 0);
}

TEST_CASE("streams: `response` bounds the head of an answer, however the head drips") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        if (request.target() == "/drips") {
            for (const char* part : {"HTTP/1.1 200 OK\r\n", "A: b\r\n", "C: d\r\n", "E: f\r\n"}) {
                conversation.send(part);
                pause(150);
            }
        } else {
            conversation.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
            for (const char* byte : {"b", "o", "d", "y"}) {
                pause(200);
                conversation.send(byte);
            }
        }
        conversation.wait_for_end();
    });
    const Tidegate tidegate(unlimited({upstream.url()}, timeouts("response: 300ms")));
    CHECK(tidegate.get("/drips").status() == 504);
    CHECK(tidegate.get("/body").body == "body");
}

TEST_CASE("streams: an interim answer begins the time for the head anew") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            pause(250);
            conversation.send("HTTP/1.1 103 Early Hints\r\n\r\n");
            pause(250);
            if (request.target() == "/answers") conversation.send(ok("done"));
        }
    });
    const Tidegate tidegate(unlimited({upstream.url()}, timeouts("response: 400ms")));
    auto client = tidegate.client();
    client.send(get_request("/answers"));
    CHECK(client.response().status() == 103);
    CHECK(client.response().body == "done");
    client.send(get_request("/silent"));
    CHECK(client.response().status() == 103);
    CHECK(client.response().status() == 504);
}

TEST_CASE("streams: a route waits for its own timeout, the others for that of their upstream") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            const bool events = request.target() == "/events";
            if (events) conversation.send(kEvents + chunk("one"));
            pause(1500);
            conversation.send(events ? chunk("two") + kEnd : ok("polled"));
        }
    });
    const Tidegate tidegate(
        "upstreams: {api: {servers: [" + upstream.url() +
        "], timeouts: {response: 700ms, stream_idle: 700ms}}}\nroutes:\n"
        "  - {match: {path: /poll}, timeouts: {response: 5s}, policies: []}\n"
        "  - {match: {path: /events}, timeouts: {stream_idle: 5s}, policies: []}\n"
        "  - {policies: []}\n");
    CHECK(tidegate.get("/poll").body == "polled");
    CHECK(tidegate.get("/events").body == "onetwo");
    CHECK(tidegate.get("/other").status() == 504);
}

TEST_CASE("streams: an upload that ends inside an answer leaves the answer its own time" *
          only_over_http1("what is read are chunks")) {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send(kEvents + chunk("first"));
        std::string body;
        while (body.size() < 10) body += conversation.some();
        pause(700);  // longer than `response`, shorter than `stream_idle`
        conversation.send(chunk(body) + kEnd);
        conversation.wait_for_end();
    });
    const Tidegate tidegate(unlimited(
        {upstream.url()}, timeouts("response: 200ms, stream_idle: 5s") + ", request_buffer: off"));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    std::string seen = until(client, "first");
    client.send("56789");
    seen += client.rest();
    CHECK(seen.find("\r\n0123456789\r\n0\r\n\r\n") != std::string::npos);
    CHECK(tidegate.access_log(1).back().at("error") == "");
}

TEST_CASE("streams: after the end of an upload a client that reads nothing has `client_write`") {
    const std::string large(24 * kMebibyte, 'x');
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(large.size()) +
                          "\r\n\r\n");
        conversation.send(large);
        conversation.wait_for_end();
    });
    const Tidegate tidegate(
        "timeouts: {client_write: 5s}\n" +
        unlimited({upstream.url()}, timeouts("response: 200ms") + ", request_buffer: off"));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    std::string seen = until(client, "\r\n\r\n");
    pause(200);
    client.send("56789");
    pause(700);
    seen += client.rest();
    CHECK(seen.size() > large.size());
    CHECK_FALSE(client.was_reset());
}

TEST_CASE("streams: `response` begins when the whole request was sent, not before") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        if (request.target() == "/answers") conversation.send(ok(request.body));
        conversation.wait_for_end();
    });
    const Tidegate tidegate(unlimited({upstream.url()}, timeouts("response: 300ms")));
    const auto upload = [&](const std::string& path) {
        auto client = tidegate.client();
        client.send("POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo");
        pause(600);
        client.send("dy");
        return client.response();
    };
    CHECK(upload("/answers").body == "body");
    CHECK(upload("/silent").status() == 504);
}

TEST_CASE("streams: a silent stream keeps its slot of concurrency, and gives it back at the end") {
    const CountedIn counted = either_store();
    std::atomic<bool> go{false};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(kEvents + chunk("one"));
        while (!go && request.target() == "/ends") pause(5);
        if (request.target() == "/ends") conversation.send(kEnd);
        if (request.target() != "/ends") conversation.wait_for_end();
    });
    const Tidegate tidegate(
        counted.yaml() + "timeouts: {hold_aborted: 100ms}\nupstreams: {api: {servers: [" +
        upstream.url() +
        "], timeouts: {response: 200ms, stream_idle: 1s}}}\n"
        "policies: {p: {key: [ip], limits: [{quota: 1, algorithm: concurrency}]}}\nroutes:\n"
        "  - {match: {path: /ends}, timeouts: {stream_idle: 1min}, policies: [p]}\n"
        "  - {policies: [p]}\n");
    auto first = tidegate.client();
    first.send(get_request("/ends"));
    until(first, "one");
    pause(400);  // silent for longer than `response`
    CHECK(tidegate.get("/refused").status() == 429);
    go = true;
    until(first, kEnd);
    // The next one stalls: the slot is free again once `stream_idle` and `hold_aborted` are over.
    await("a slot", [&] { return tidegate.get("/stalls").status() == 200; });
    await("a slot", [&] { return tidegate.get("/stalls").status() == 200; });
}

// A closed socket shows that only when something is sent to it: the proxy probes the client.
TEST_CASE("streams: a client that has closed for good does not hold a silent stream to its end" *
          only_over_http1("the kernel decides")) {
    std::atomic<bool> over{false};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(kEvents + chunk("one"));
        // Silent for longer than every other time in this test.
        const auto end = Clock::now() + milliseconds{45'000};
        while (!over && Clock::now() < end) pause(5);
    });
    const Tidegate tidegate(unlimited({upstream.url()}, timeouts("stream_idle: 1h")));
    Socket client = Socket::connect(tidegate.port());
    client.forget_soon();
    client.send(get_request("/"));
    client.receive();
    client.close();
    await(
        "the end",
        [&] { return tidegate.metric_sum("tidegate_requests_total", "outcome=\"aborted\"") == 1; },
        milliseconds{40'000});
    over = true;
    CHECK(tidegate.access_log(1).back().at("error") == "client: left");
    CHECK_SOON(tidegate.metric("tidegate_upstream_connections") == 0);
}

}  // namespace tidegate::test::streams_test
