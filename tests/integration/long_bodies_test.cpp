// Bodies of megabytes. In the clear, over HTTP/1 on both sides, the kernel hands them on through a
// pipe; everything else holds as it does for bodies that are copied.
#include <atomic>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::long_bodies_test {

namespace {

constexpr std::size_t kMegabyte = 1'000'000;
constexpr std::size_t kEndsOfPipe = 2;
constexpr std::size_t kPipesOfThread = 32;

// Whose bytes differ, so that a lost or doubled portion shows.
std::string numbered(std::size_t size) {
    std::string bytes(size, 'x');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>('a' + i % 23);
    return bytes;
}

std::string head_of(std::size_t length) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
}

std::string post_head(std::size_t length) {
    return "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
}

std::size_t ends_of_pipes(const Tidegate& tidegate) {
    std::size_t count = 0;
    const std::string folder = "/proc/" + std::to_string(tidegate.pid()) + "/fd";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        std::error_code gone;  // closed meanwhile
        const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
        if (target.starts_with("pipe:")) ++count;
    }
    return count;
}

// Answers every request with `body`, which is in memory once.
Upstream::Handler sending(const std::string& body) {
    return [&body](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            conversation.send(head_of(body.size()));
            if (!conversation.send(body)) return;
        }
    };
}

bool in_the_clear() {
    return !over_tls() && !over_http2();
}

// A client that has sent half of a long request. In the clear, a pipe is open for it.
RawClient half_sent(const Tidegate& tidegate) {
    const std::size_t before = ends_of_pipes(tidegate);
    auto client = tidegate.client();
    client.send(post_head(6 * kMegabyte) + numbered(3 * kMegabyte));
    if (in_the_clear()) CHECK_SOON(ends_of_pipes(tidegate) == before + kEndsOfPipe);
    return client;
}

// No connection to an upstream is open, and no more pipes than `before`.
void check_nothing_open(const Tidegate& tidegate, std::size_t before) {
    CHECK_SOON(tidegate.metric("tidegate_upstream_connections") == 0);
    CHECK_SOON(ends_of_pipes(tidegate) == before);
}

}  // namespace

TEST_CASE("long bodies: an answer arrives as it was sent, and both connections go on") {
    const std::string body = numbered(20 * kMegabyte);
    const Upstream upstream(ok(body));
    const Tidegate tidegate(unlimited({upstream.url()}));
    auto client = tidegate.client();
    for (int turn = 0; turn < 3; ++turn) {
        const Message answer = client.get();
        CHECK(answer.status() == 200);
        CHECK((answer.body == body));
        CHECK_FALSE(answer.broken);
    }
    CHECK(upstream.connections() == 1);
    CHECK(tidegate.access_log(3).back().at("bytes_out") == body.size());
}

TEST_CASE("long bodies: a request arrives as it was sent, and both connections go on") {
    const std::string body = numbered(20 * kMegabyte);
    const Upstream upstream(Upstream::answering(
        [&](const Message& request) { return ok(request.body == body ? "same" : "other"); }));
    const Tidegate tidegate(unlimited({upstream.url()}));
    auto client = tidegate.client();
    for (int turn = 0; turn < 3; ++turn) {
        CHECK(client.ask(post_request("/", body)).body == "same");
    }
    CHECK(upstream.connections() == 1);
    CHECK(tidegate.access_log(3).back().at("bytes_in") == body.size());
}

TEST_CASE("long bodies: a body sent after 100 Continue arrives whole") {
    const std::string body = numbered(5 * kMegabyte);
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.send("HTTP/1.1 100 Continue\r\n\r\n");
        std::string seen;
        while (seen.size() < body.size()) seen += conversation.some();
        conversation.send(ok(seen == body ? "same" : "other"));
        conversation.wait_for_end();
    });
    const Tidegate tidegate(unlimited({upstream.url()}));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n");
    CHECK(client.response().status() == 100);
    client.send(body);
    CHECK(client.response().body == "same");
}

TEST_CASE("long bodies: an answer to HEAD has no body, whatever its Content-Length") {
    const std::string body = numbered(3 * kMegabyte);
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            conversation.send(head_of(body.size()));
            if (request.method() != "HEAD") conversation.send(body);
        }
    });
    const Tidegate tidegate(unlimited({upstream.url()}));
    auto client = tidegate.client();
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(client.response_to_head().field("content-length") == std::to_string(body.size()));
    CHECK((client.get().body == body));
    CHECK(upstream.connections() == 1);
}

TEST_CASE("long bodies: a client of HTTP/1.0 gets the whole body" * only_over_http1("it is none")) {
    const std::string body = numbered(3 * kMegabyte);
    const Upstream upstream(ok(body));
    const Tidegate tidegate(unlimited({upstream.url()}));
    auto client = tidegate.client();
    client.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    CHECK(client.rest().ends_with("\r\n\r\n" + body));
}

TEST_CASE("long bodies: an answer is whole though the upstream closes behind its last byte") {
    const std::string body = numbered(3 * kMegabyte);
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(head_of(body.size()) + body);
    });
    const Tidegate tidegate(unlimited({upstream.url()}));
    auto client = tidegate.client();
    for (int turn = 0; turn < 3; ++turn) CHECK((client.get().body == body));
    CHECK(tidegate.metric_sum("tidegate_request_faults_total") == 0);
}

TEST_CASE("long bodies: a request that follows in the same bytes is the next one") {
    const std::string body = numbered(3 * kMegabyte);
    const Upstream upstream(Upstream::answering(
        [](const Message& request) { return ok(std::to_string(request.body.size())); }));
    const Tidegate tidegate(unlimited({upstream.url()}));
    auto client = tidegate.client();
    client.send(post_request("/", body) + post_request("/", "four"));
    CHECK(client.response().body == std::to_string(body.size()));
    CHECK(client.response().body == "4");
}

TEST_CASE("long bodies: what an upstream sends behind an answer is no answer to the next request") {
    const std::string body = numbered(3 * kMegabyte);
    const Upstream upstream(ok(body) + ok("smuggled"));
    const Tidegate tidegate(unlimited({upstream.url()}));
    auto client = tidegate.client();
    CHECK((client.get().body == body));
    CHECK((client.get().body == body));
    CHECK(upstream.connections() == 2);
}

TEST_CASE("long bodies: a pipe carries the body, and is closed after it" *
          only_over_http1("frames cannot be handed on")) {
    const std::string body = numbered(20 * kMegabyte);
    const Upstream upstream(ok(body));
    const Tidegate tidegate(unlimited({upstream.url()}));
    const std::size_t before = ends_of_pipes(tidegate);
    auto client = tidegate.client();
    client.send(get_request("/"));
    if (in_the_clear()) CHECK_SOON(ends_of_pipes(tidegate) == before + kEndsOfPipe);
    CHECK((client.response().body == body));
    CHECK_SOON(ends_of_pipes(tidegate) == before);
}

TEST_CASE("long bodies: of more bodies than pipes the others are copied, and all arrive") {
    constexpr std::size_t kClients = kPipesOfThread + 4;
    const std::string body = numbered(12 * kMegabyte);
    const Upstream upstream(sending(body));
    const Tidegate tidegate("threads: 1\n" + unlimited({upstream.url()}));
    const std::size_t before = ends_of_pipes(tidegate);
    std::vector<RawClient> clients;
    for (std::size_t i = 0; i < kClients; ++i) {
        clients.push_back(tidegate.client());
        clients.back().send(get_request("/"));
    }
    if (in_the_clear()) {
        CHECK_SOON(ends_of_pipes(tidegate) == before + kPipesOfThread * kEndsOfPipe);
    }
    for (RawClient& client : clients) CHECK((client.response().body == body));
    CHECK_SOON(ends_of_pipes(tidegate) == before);
}

TEST_CASE("long bodies: an answer that the upstream cuts off is broken, and leaves nothing open") {
    const std::string half = numbered(3 * kMegabyte);
    std::atomic<bool> resets{false};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(head_of(2 * half.size()) + half);
        if (resets) conversation.reset();
    });
    const Tidegate tidegate(unlimited({upstream.url()}));
    const std::size_t before = ends_of_pipes(tidegate);
    for (const bool by_reset : {false, true}) {
        resets = by_reset;
        const Message answer = tidegate.get();
        CHECK(answer.broken);
        CHECK(half.starts_with(answer.body));
        CHECK(tidegate.access_log(by_reset ? 2 : 1).back().at("error") ==
              "upstream: answer cut off");
    }
    check_nothing_open(tidegate, before);
}

TEST_CASE("long bodies: silence longer than `stream_idle` in the middle breaks the answer off") {
    const std::string half = numbered(3 * kMegabyte);
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(head_of(2 * half.size()) + half);
        conversation.wait_for_end();
    });
    const Tidegate tidegate(unlimited({upstream.url()}, "timeouts: {stream_idle: 300ms}"));
    CHECK(tidegate.get().broken);
    CHECK(tidegate.access_log(1).back().at("error") == "upstream: answer stalled");
    CHECK_SOON(tidegate.metric("tidegate_upstream_connections") == 0);
}

TEST_CASE("long bodies: a client that reads nothing for `client_write` loses its answer") {
    const Upstream upstream(ok(numbered(24 * kMegabyte)));
    const Tidegate tidegate("timeouts: {client_write: 300ms}\n" + unlimited({upstream.url()}));
    const std::size_t before = ends_of_pipes(tidegate);
    auto client = tidegate.client();
    client.send(get_request("/"));
    CHECK(tidegate.access_log(1).back().at("error") == "client: not reading");
    check_nothing_open(tidegate, before);
}

TEST_CASE("long bodies: a client that leaves in the middle ends the transfer" *
          only_over_http1("the translator reads on")) {
    const std::string body = numbered(24 * kMegabyte);
    const Upstream upstream(ok(body));
    const Tidegate tidegate(unlimited({upstream.url()}));
    const std::size_t before = ends_of_pipes(tidegate);
    auto client = tidegate.client();
    client.send(get_request("/"));
    client.some();
    client.reset();
    CHECK(tidegate.access_log(1).back().at("error") == "client: left");
    check_nothing_open(tidegate, before);
}

TEST_CASE("long bodies: a client that leaves in the middle of its request ends it") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (conversation.read(request)) conversation.send(ok("whole"));
    });
    const Tidegate tidegate(unlimited({upstream.url()}));
    const std::size_t before = ends_of_pipes(tidegate);
    half_sent(tidegate).reset();
    CHECK(tidegate.access_log(1).back().at("error") == "client: left");
    check_nothing_open(tidegate, before);
}

TEST_CASE("long bodies: a request whose body stops half-way is 408 after `request_body`") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.wait_for_end();
    });
    const Tidegate tidegate(
        "timeouts: {request_body: 1s}\n"
        "limits_on_requests: {body_rate: off}\n" +
        unlimited({upstream.url()}));
    const std::size_t before = ends_of_pipes(tidegate);
    CHECK(half_sent(tidegate).response().status() == 408);
    CHECK(tidegate.access_log(1).back().at("bytes_in") == 3 * kMegabyte);
    check_nothing_open(tidegate, before);
}

TEST_CASE("long bodies: an answer before the end of the request reaches the client" *
          only_over_http1("the translator sends all first")) {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        std::size_t seen = 0;
        while (seen < kMegabyte) seen += conversation.some().size();
        conversation.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
        conversation.wait_for_end();
    });
    const Tidegate tidegate(unlimited({upstream.url()}));
    const std::size_t before = ends_of_pipes(tidegate);
    auto client = tidegate.client();
    client.send(post_head(6 * kMegabyte) + numbered(2 * kMegabyte));
    CHECK(client.response().status() == 403);
    CHECK_SOON(ends_of_pipes(tidegate) == before);
}

}  // namespace tidegate::test::long_bodies_test
