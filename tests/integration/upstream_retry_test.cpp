// Requests that go on to another server, or over another connection, with more of them in flight
// than any minimum of the retry budget.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/h2_proxy.hpp"
#include "integration/h2_upstream.hpp"
#include "integration/soon.hpp"
#include "integration/swallowing_server.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::upstream_retry_test {

namespace {

constexpr int kBurst = 20;

std::string refused() {
    return "http://127.0.0.1:" + std::to_string(free_port());
}

// Sends a request of each client at once. Returns how many answers are of `status`.
std::ptrdiff_t burst(std::vector<RawClient>& clients, const std::string& request, int status) {
    for (RawClient& client : clients) client.send(request);
    return std::count_if(clients.begin(), clients.end(),
                         [&](RawClient& client) { return client.response().status() == status; });
}

std::vector<RawClient> clients_of(const Tidegate& tidegate, int count = kBurst) {
    std::vector<RawClient> clients;
    for (int i = 0; i < count; ++i) clients.push_back(tidegate.client());
    return clients;
}

// For so long a server that could not be reached comes after the others.
void await_end_of_avoidance() {
    std::this_thread::sleep_for(milliseconds{1'100});
}

std::string to(const H2Upstream& upstream, const std::string& more = "") {
    return "threads: 1\n" + unlimited({upstream.url()}, more);
}

// Answers later.
std::optional<H2Reply> wait(const H2Call&) {
    return std::nullopt;
}

std::vector<int> begin_many(H2Client& client, int count, const H2Request& request = {}) {
    std::vector<int> streams;
    for (int i = 0; i < count; ++i) streams.push_back(client.begin(request));
    return streams;
}

std::ptrdiff_t count_of(H2Client& client, const std::vector<int>& streams, int status) {
    return std::count_if(streams.begin(), streams.end(),
                         [&](int stream) { return client.answer(stream).status() == status; });
}

// The lowest stream of that connection.
int first_stream(const H2Upstream& upstream, int connection) {
    int first = std::numeric_limits<int>::max();
    for (const H2Call& call : upstream.calls()) {
        if (call.connection == connection) first = std::min(first, call.stream);
    }
    return first;
}

}  // namespace

TEST_CASE("retry: of two servers one refuses connections, and bursts of any size lose nothing") {
    const Upstream alive(ok());
    for (const std::string balance : {"round_robin", "least_connections", "{hash: \"header:x\"}"}) {
        for (const std::string& dead : {refused(), std::string("unix:/no/such/socket")}) {
            CAPTURE(balance);
            CAPTURE(dead);
            const Tidegate tidegate("threads: 1\n" +
                                    unlimited({dead, alive.url()}, "balance: " + balance));
            std::vector<RawClient> clients = clients_of(tidegate);
            CHECK(burst(clients, get_request("/"), 200) == kBurst);
            await_end_of_avoidance();
            CHECK(burst(clients, post_request("/", "body"), 200) == kBurst);
        }
    }
}

TEST_CASE("retry: a burst over HTTP/2 goes past a server that refuses connections") {
    H2Upstream alive(always({.body = "alive"}));
    const Tidegate tidegate(
        "threads: 1\n" +
        unlimited({"h2c://127.0.0.1:" + std::to_string(free_port()), alive.url()}));
    std::vector<RawClient> clients = clients_of(tidegate);
    CHECK(burst(clients, post_request("/", "body"), 200) == kBurst);
}

TEST_CASE("retry: a request tries each server once, those that failed lately, too") {
    const Upstream alive(ok());
    const std::vector<std::string> dead{refused(), refused(), refused()};
    const Tidegate tidegate("threads: 1\n" + unlimited({dead[0], dead[1], dead[2], alive.url()},
                                                       "retries: 3, balance: {hash: ip}"));
    std::vector<RawClient> clients = clients_of(tidegate);
    for (int i = 0; i < 3; ++i) CHECK(burst(clients, get_request("/"), 200) == kBurst);
    const Tidegate lost("threads: 1\n" + unlimited({dead[0], dead[1], dead[2]}, "retries: 9"));
    for (int i = 0; i < 5; ++i) CHECK(lost.get().status() == 502);
    for (const auto& line : lost.access_log(5)) CHECK(line.at("tries") == 3);
}

TEST_CASE("retry: with `retries: 0` a request is tried once, whatever the server says") {
    const Upstream alive(ok());
    const Tidegate tidegate("threads: 1\n" + unlimited({refused(), alive.url()}, "retries: 0"));
    std::vector<RawClient> clients = clients_of(tidegate);
    // The rest is sent when the server is known to refuse connections.
    CHECK(burst(clients, get_request("/"), 502) >= 1);
    for (const auto& line : tidegate.access_log(kBurst)) CHECK(line.at("tries") == 1);

    H2Upstream leaving(wait);
    H2Proxy proxy(to(leaving, "retries: 0"));
    H2Client client = proxy.client();
    const std::vector<int> streams = begin_many(client, 2);
    CHECK_SOON(leaving.whole_calls() == 2);
    leaving.goaway(1, 0);
    CHECK(count_of(client, streams, 503) == 2);
    CHECK(leaving.connections() == 1);
}

TEST_CASE("retry: a GOAWAY costs none of the requests that the server has not looked at") {
    H2Upstream upstream(wait);
    H2Proxy proxy(to(upstream));
    H2Client client = proxy.client();
    std::vector<int> streams = begin_many(client, kBurst);
    // A call as gRPC makes it: its body has no length, and has come whole.
    for (const int stream : begin_many(client, kBurst, {.method = "POST", .body = "call"})) {
        streams.push_back(stream);
    }
    const std::size_t all = streams.size();
    std::size_t left = all;
    // A server that ends each connection after its first request.
    for (int connection = 1; connection <= 3; ++connection, --left) {
        CAPTURE(connection);
        CHECK_SOON(upstream.whole_calls() ==
                   all * static_cast<std::size_t>(connection) -
                       static_cast<std::size_t>(connection * (connection - 1) / 2));
        const int first = first_stream(upstream, connection);
        H2Call taken;
        for (const H2Call& call : upstream.calls()) {
            if (call.connection == connection && call.stream == first) taken = call;
        }
        upstream.goaway(connection, first);
        upstream.answer(taken, {});
    }
    CHECK_SOON(upstream.connections() == 4);
    const auto calls_of_last = [&] {
        const std::vector<H2Call> calls = upstream.calls();
        return static_cast<std::size_t>(std::count_if(
            calls.begin(), calls.end(),
            [](const H2Call& call) { return call.connection == 4 && call.is_whole; }));
    };
    CHECK_SOON(calls_of_last() == left);
    for (const H2Call& call : upstream.calls()) {
        if (call.connection == 4) upstream.answer(call, {});
    }
    CHECK(count_of(client, streams, 200) == static_cast<std::ptrdiff_t>(all));
}

TEST_CASE("retry: a server that takes nothing on a fresh connection either is left") {
    H2Upstream upstream(wait);
    H2Proxy proxy(to(upstream));
    H2Client client = proxy.client();
    const std::vector<int> streams = begin_many(client, kBurst);
    for (int connection = 1; connection <= 2; ++connection) {
        CHECK_SOON(upstream.whole_calls() == static_cast<std::size_t>(connection * kBurst));
        upstream.goaway(connection, 0);
    }
    CHECK(count_of(client, streams, 503) == kBurst);
    CHECK(upstream.connections() == 2);
}

TEST_CASE("retry: refused streams mean load, and only a fifth of them goes once more") {
    H2Upstream upstream(wait);
    H2Proxy proxy(to(upstream));
    H2Client client = proxy.client();
    const std::vector<int> streams = begin_many(client, kBurst);
    CHECK_SOON(upstream.whole_calls() == kBurst);
    for (const H2Call& call : upstream.calls()) upstream.reset(call, NGHTTP2_REFUSED_STREAM);
    constexpr std::size_t kFifth = kBurst / 5;
    CHECK_SOON(upstream.whole_calls() == kBurst + kFifth);
    // The first answers make room for no more: these requests have been answered.
    const std::vector<H2Call> calls = upstream.calls();
    for (std::size_t i = kBurst; i < calls.size(); ++i) upstream.answer(calls[i], {});
    CHECK(count_of(client, streams, 200) == static_cast<std::ptrdiff_t>(kFifth));
    CHECK(count_of(client, streams, 503) == kBurst - static_cast<std::ptrdiff_t>(kFifth));
    CHECK(upstream.whole_calls() == kBurst + kFifth);
}

TEST_CASE("retry: kept connections that die together lose no idempotent request, and no other") {
    std::atomic<int> come{0};
    const auto come_together = [&](int all) {
        ++come;
        await_quietly([&] { return come >= all; });
    };
    const auto dies = [&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        if (conversation.number() <= kBurst) {
            come_together(kBurst);
            conversation.send(ok());
            if (conversation.read(request)) come_together(2 * kBurst);
            return;  // without an answer
        }
        conversation.send(ok());
        while (conversation.read(request) && conversation.send(ok())) {
        }
    };
    for (const bool is_idempotent : {true, false}) {
        CAPTURE(is_idempotent);
        come = 0;
        const Upstream upstream(dies);
        const Tidegate tidegate("threads: 1\n" + unlimited({upstream.url()}));
        std::vector<RawClient> clients = clients_of(tidegate);
        for (RawClient& client : clients) client.send(get_request("/"));
        for (RawClient& client : clients) CHECK(client.response().status() == 200);
        REQUIRE(upstream.connections() == kBurst);
        const std::string put = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
        CHECK(burst(clients, is_idempotent ? put : post_request("/", "body"),
                    is_idempotent ? 200 : 502) == kBurst);
    }
}

TEST_CASE("retry: addresses that swallow connections cost a request one `connect` at most") {
    const Swallowing one;
    const Swallowing two;
    const Swallowing three;
    const std::string bounds = "retries: 3, timeouts: {connect: 1s}";
    const auto took = [](const Tidegate& tidegate, int status) {
        const auto began = Clock::now();
        CHECK(tidegate.get().status() == status);
        return Clock::now() - began;
    };
    const Tidegate lost("threads: 1\n" + unlimited({one.url(), two.url(), three.url()}, bounds));
    CHECK(took(lost, 504) < milliseconds{1'500} + slack());
    const Upstream alive(ok());
    const Tidegate found("threads: 1\n" +
                         unlimited({one.url(), two.url(), three.url(), alive.url()}, bounds));
    for (int i = 0; i < 4; ++i) CHECK(took(found, 200) < milliseconds{1'300} + slack());
    // A lone server has all of the time.
    const Tidegate lone("threads: 1\n" + unlimited({one.url()}, bounds));
    CHECK(took(lone, 504) > milliseconds{950});
}

TEST_CASE("retry: of the addresses of a name those that refuse are tried last" *
          doctest::skip(sanitized())) {
    TemporaryFolder folder;
    const std::string hosts = folder.write("hosts", "127.0.0.2 app.test\n127.0.0.3 app.test\n");
    const Upstream alive(Upstream::answering([](const Message&) { return ok(); }), 0, "127.0.0.3");
    const std::string port = std::to_string(alive.port());
    const Tidegate tidegate(
        "threads: 1\n" + unlimited({"http://app.test:" + port}), "",
        {.environment = {"LD_PRELOAD=libnss_wrapper.so", "NSS_WRAPPER_HOSTS=" + hosts}});
    RawClient client = tidegate.client();
    const auto until = Clock::now() + milliseconds{3'900};
    int requests = 0;
    for (; Clock::now() < until; ++requests) {
        REQUIRE(client.get().status() == 200);
        std::this_thread::sleep_for(milliseconds{10});
    }
    // A request that is refused goes on over the connection that is there.
    CHECK(alive.connections() == 1);
    CHECK(alive.requests() == requests);
    // At once, after one second, and after three.
    const double failures = tidegate.metric_sum("tidegate_upstream_server_failures_total",
                                                "server=\"127.0.0.2:" + port + "\"");
    CHECK(failures >= 1);
    CHECK(failures <= 3);
}

}  // namespace tidegate::test::upstream_retry_test
