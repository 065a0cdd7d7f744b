// Every bound and every deadline: what the client sees, and what metrics and log say. No two look
// alike there.
#include <atomic>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/swallowing_server.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::bounds_test {

namespace {

constexpr std::size_t kMebibyte = 1'048'576;
const std::string kPost = "POST / HTTP/1.1\r\nHost: a\r\n";

// The only request failed in this way. Log and metrics have it once the line is written.
void check_told(const Tidegate& tidegate, const std::string& fault, int status,
                const std::string& outcome) {
    const auto line = tidegate.access_log(1).back();
    CHECK(line.at("error") == fault);
    CHECK(line.at("status") == status);
    CHECK(line.at("outcome") == outcome);
    CHECK_SOON(tidegate.metric("tidegate_request_faults_total{fault=\"" + fault + "\"}") == 1);
    CHECK_SOON(tidegate.metric_sum("tidegate_request_faults_total") == 1);
}

// `request` is refused with `status`, in full form, and the connection of HTTP/1 closed; `detail`
// is part of what the client sees.
void check_refused(const std::string& settings, const std::string& request, int status,
                   const std::string& detail, const std::string& fault) {
    CAPTURE(fault);
    const Upstream upstream(ok());
    const Tidegate tidegate(settings + "\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send(request);
    const auto answer = client.response();
    CHECK(answer.status() == status);
    CHECK(answer.field("Content-Type") == "application/problem+json");
    CHECK(same_name(answer.field("Connection"), over_http2() ? "" : "close"));
    CHECK(answer.field("X-Request-Id").size() == 32);
    CHECK(nlohmann::json::parse(answer.body).at("detail").get<std::string>().find(detail) !=
          std::string::npos);
    if (!over_http2()) CHECK(client.closed());
    check_told(tidegate, fault, status, "rejected");
}

void silent(Conversation& conversation) {
    Message request;
    if (conversation.read(request)) conversation.wait_for_end();
}

// The beginning of an answer, then nothing.
void stalling(Conversation& conversation) {
    Message request;
    if (!conversation.read(request)) return;
    conversation.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin");
    conversation.wait_for_end();
}

}  // namespace

TEST_CASE("bounds: a head that is too slow is 408, and the fault is named so" *
          only_over_http1("a head comes in one frame")) {
    check_refused("timeouts: {request_head: 300ms}", "GET / HTTP/1.1\r\nHost: a\r\n", 408,
                  "head did not arrive", "client: slow head");
}

TEST_CASE("bounds: a body that stalls is 408, and the fault is named so") {
    check_refused("timeouts: {request_body: 300ms}", kPost + "Content-Length: 100\r\n\r\nbegin",
                  408, "body did not arrive", "client: slow body");
    check_refused("timeouts: {request_body: 300ms}",
                  kPost + "Transfer-Encoding: chunked\r\n\r\n5\r\nbeg", 408, "body did not arrive",
                  "client: slow body");
}

TEST_CASE(
    "bounds: a head of too many bytes and one of too many fields are 431, with different faults") {
    check_refused("limits_on_requests: {header_bytes: 2KiB}",
                  get_request("/", "X-A: " + std::string(3000, 'a') + "\r\n"), 431, "",
                  "client: head too large");
    std::string many;
    for (int i = 0; i < 30; ++i) many += "A: b\r\n";
    check_refused("limits_on_requests: {headers: 20}", get_request("/", many), 431, "fields",
                  "client: too many fields");
}

TEST_CASE("bounds: a target that is too long is 414, and the fault is named so") {
    check_refused("limits_on_requests: {uri_bytes: 1KiB}",
                  get_request("/" + std::string(1100, 'a')), 414, "target",
                  "client: target too long");
}

TEST_CASE("bounds: a body that is too large is 413, announced or not, and the fault is named so") {
    const std::string bound = "limits_on_requests: {body_bytes: 1KiB}";
    check_refused(bound, post_request("/", std::string(1025, 'a')), 413, "body",
                  "client: body too large");
    check_refused(bound,
                  kPost + "Transfer-Encoding: chunked\r\n\r\n" + chunk(std::string(2000, 'a')), 413,
                  "body", "client: body too large");
}

TEST_CASE("bounds: a client that does not read is cut off, and does not count as one that left") {
    const Upstream upstream(ok(std::string(48 * kMebibyte, 'x')));
    const Tidegate tidegate("timeouts: {client_write: 300ms}\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send(get_request("/"));
    check_told(tidegate, "client: not reading", 200, "aborted");
    CHECK(client.rest().size() < 48 * kMebibyte);
    CHECK(client.was_reset());
    CHECK(tidegate.metric("tidegate_upstream_connections") == 0);
}

TEST_CASE("bounds: a client that reads slowly but steadily is served to the end") {
    const Upstream upstream(ok(std::string(24 * kMebibyte, 'x')));
    const Tidegate tidegate("timeouts: {client_write: 500ms}\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send(get_request("/", "Connection: close\r\n"));
    std::size_t bytes = 0;
    for (auto part = client.some(); !part.empty(); part = client.some()) {
        if (bytes / kMebibyte != (bytes + part.size()) / kMebibyte)
            std::this_thread::sleep_for(milliseconds{50});  // over a second in all
        bytes += part.size();
    }
    CHECK(bytes > 24 * kMebibyte);
    CHECK_FALSE(client.was_reset());
}

TEST_CASE("bounds: a client that leaves in mid-answer counts as such") {
    const Upstream upstream(ok(std::string(48 * kMebibyte, 'x')));
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send(get_request("/"));
    client.some();
    client.reset();
    check_told(tidegate, "client: left", 200, "aborted");
}

TEST_CASE("bounds: an idle client is closed without an answer, and counted as idle") {
    const Upstream upstream(ok());
    const Tidegate tidegate("timeouts: {client_idle: 300ms}\n" + simple(upstream.url()));
    auto fresh = tidegate.client();
    auto used = tidegate.client();
    auto leaves = tidegate.client();
    CHECK(used.get().status() == 200);
    leaves.reset();
    CHECK(fresh.closed());
    CHECK(used.closed());
    CHECK_SOON(tidegate.metric("tidegate_client_connections_idle_closed_total") == 2);
    CHECK(tidegate.metric_sum("tidegate_request_faults_total") == 0);
}

TEST_CASE("bounds: a server that does not accept in time is 504, `upstream: slow to connect`") {
    const Swallowing upstream;
    const Tidegate tidegate(unlimited({upstream.url()}, "timeouts: {connect: 300ms}"));
    const auto begin = Clock::now();
    const auto answer = tidegate.get();
    CHECK(Clock::now() - begin >= milliseconds{280});
    CHECK(answer.status() == 504);
    CHECK(answer.body.find("accept a connection") != std::string::npos);
    check_told(tidegate, "upstream: slow to connect", 504, "failed");
}

TEST_CASE("bounds: the proxy tries the next server when one does not accept in time") {
    const Swallowing first;
    const Upstream second(ok("second"));
    const Tidegate tidegate("threads: 1\n" +
                            unlimited({first.url(), second.url()}, "timeouts: {connect: 200ms}"));
    for (int i = 0; i < 3; ++i) CHECK(tidegate.get().body == "second");
}

TEST_CASE("bounds: a server that refuses is 502, `upstream: unreachable`") {
    const Tidegate tidegate(simple("http://127.0.0.1:" + std::to_string(free_port())));
    CHECK(tidegate.get().status() == 502);
    check_told(tidegate, "upstream: unreachable", 502, "failed");
}

TEST_CASE("bounds: no free connection to the upstream is 503, `upstream: exhausted`") {
    const Upstream upstream(silent);
    const Tidegate tidegate("threads: 1\n" +
                            unlimited({upstream.url()}, "max_connections: 1, queue: off"));
    auto first = tidegate.client();
    first.send(get_request("/"));
    while (upstream.requests() == 0) std::this_thread::sleep_for(milliseconds{5});
    CHECK(tidegate.get().status() == 503);
    check_told(tidegate, "upstream: exhausted", 503, "failed");
}

TEST_CASE("bounds: a server that does not answer in time is 504, `upstream: slow`") {
    const Upstream upstream(silent);
    const Tidegate tidegate(unlimited({upstream.url()}, "timeouts: {response: 300ms}"));
    CHECK(tidegate.get().status() == 504);
    check_told(tidegate, "upstream: slow", 504, "failed");
}

TEST_CASE("bounds: a server that does not take the body is 504, `upstream: slow`") {
    std::atomic<bool> is_answered{false};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        conversation.hold_until([&] { return is_answered.load(); });
    });
    const Tidegate tidegate(unlimited({upstream.url()}, "timeouts: {response: 300ms}"));
    auto client = tidegate.client();
    std::thread sender([&] { client.send(post_request("/", std::string(48 * kMebibyte, 'x'))); });
    check_told(tidegate, "upstream: slow", 504, "failed");
    CHECK(client.response().status() == 504);
    is_answered = true;
    sender.join();
}

TEST_CASE(
    "bounds: an answer that stalls and one that breaks off are broken, with different faults") {
    const Upstream stalls(stalling);
    const Tidegate slow(unlimited({stalls.url()}, "timeouts: {stream_idle: 300ms}"));
    CHECK(slow.get().broken);
    check_told(slow, "upstream: answer stalled", 200, "failed");

    const Upstream breaks([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin");
    });
    const Tidegate cut(unlimited({breaks.url()}));
    CHECK(cut.get().broken);
    check_told(cut, "upstream: answer cut off", 200, "failed");
}

TEST_CASE("bounds: a request that succeeds has no fault") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "1/h"));
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.get().status() == 429);
    tidegate.access_log(2);
    CHECK(tidegate.metric_sum("tidegate_request_faults_total") == 0);
}

}  // namespace tidegate::test::bounds_test
