// More connections than there is room for: some wait or are refused, nothing breaks.
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::connections_test {

namespace {

const char* const kTold = "over TLS, Tidegate closes a refused connection without an answer";

// The first answer with status 200 within ten seconds; false if none comes.
bool served_in_the_end(const Tidegate& tidegate) {
    const auto deadline = Clock::now() + kPatience;
    while (Clock::now() < deadline) {
        try {
            if (tidegate.get().status() == 200) return true;
        } catch (const std::exception&) {
            // Refused: again.
        }
        std::this_thread::sleep_for(milliseconds{20});
    }
    return false;
}

// The client gets an answer that there is no room, in words that contain `detail`.
void check_turned_away(RawClient client, const std::string& detail) {
    client.send(get_request("/"));
    const auto answer = client.response();
    CHECK(answer.status() == 503);
    CHECK(answer.field("Content-Type") == "application/problem+json");
    CHECK(answer.field("Retry-After") == "1");
    CHECK(answer.field("Connection") == "close");
    const auto problem = nlohmann::json::parse(answer.body);
    CHECK(problem.at("status") == 503);
    CHECK(problem.at("request_id") == answer.field("X-Request-Id"));
    CHECK(problem.at("detail").get<std::string>().find(detail) != std::string::npos);
    CHECK(client.closed());
    CHECK_FALSE(client.was_reset());
}

double refused(const Tidegate& tidegate, const std::string& reason) {
    return tidegate.metric("tidegate_client_connections_refused_total{reason=\"" + reason + "\"}");
}

// Waits until no client is connected any more.
void wait_for_none(const Tidegate& tidegate) {
    const auto deadline = Clock::now() + kPatience;
    while (tidegate.metric("tidegate_client_connections") > 0 && Clock::now() < deadline)
        std::this_thread::sleep_for(milliseconds{10});
    CHECK_SOON(tidegate.metric("tidegate_client_connections") == 0);
}

// One address gets as many connections as it may have, and no more.
void check_room_for(const Tidegate& tidegate, int count) {
    std::vector<RawClient> clients;
    for (int i = 0; i < count; ++i) {
        clients.push_back(tidegate.client());
        CHECK(clients.back().get().status() == 200);
    }
    CHECK(tidegate.get().status() == 503);
}

}  // namespace

TEST_CASE(
    "connections: an address has its own bound over all threads, and other addresses have theirs" *
    only_in_the_clear(kTold)) {
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 2\nconnections: {per_ip: 6}\n" + simple(upstream.url()));
    std::vector<RawClient> clients;
    for (int i = 0; i < 6; ++i) {
        clients.push_back(tidegate.client("127.0.0.2"));
        CHECK(clients.back().get().status() == 200);
    }
    for (int i = 0; i < 8; ++i) {
        check_turned_away(tidegate.client("127.0.0.2"), "from this client's address");
        CHECK(tidegate.get("/", "", "127.0.0.3").status() == 200);
    }
    CHECK(refused(tidegate, "per_ip") == 8);
    CHECK(refused(tidegate, "max") == 0);
    for (auto& client : clients) CHECK(client.get().status() == 200);
    CHECK_SOON(tidegate.errors().find("127.0.0.2 has connections.per_ip connections open") !=
               std::string::npos);
}

TEST_CASE("connections: an address gets its slot back however a connection ends" *
          only_in_the_clear(kTold)) {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (request.target() == "/hang") return conversation.wait_for_end();
            if (!conversation.send(ok())) return;
        }
    });
    const Tidegate tidegate(
        "connections: {per_ip: 3}\n"
        "timeouts: {request_head: 200ms, request_body: 200ms, client_idle: 400ms}\n" +
        simple(upstream.url()));
    const std::vector<void (*)(RawClient&)> endings{
        [](RawClient&) {},                                             // never sends a byte
        [](RawClient& client) { CHECK(client.closed()); },             // and waits for the end
        [](RawClient& client) { client.reset(); },                     // before anything was sent
        [](RawClient& client) { client.finish_sending(); },            // half closed
        [](RawClient& client) { client.get(); },                       // between requests
        [](RawClient& client) { client.send("GET / HT"); },            // within a head
        [](RawClient& client) { client.ask("GET / HT"); },             // refused: 408
        [](RawClient& client) { client.ask("BAD\r\n\r\n"); },          // refused: 400
        [](RawClient& client) { client.send(get_request("/hang")); },  // within a request
        [](RawClient& client) { client.get("/", "Connection: close\r\n"); }};
    for (int round = 0; round < 2; ++round) {
        for (const auto& end : endings) {
            auto client = tidegate.client();
            end(client);
        }
        wait_for_none(tidegate);
        check_room_for(tidegate, 3);
        wait_for_none(tidegate);
    }
}

TEST_CASE("connections: trusted proxies are not counted" * only_in_the_clear(kTold)) {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "connections: {per_ip: 2}\n"
        "identity: {client_ip: {trusted_proxies: [127.0.0.9]}}\n" +
        simple(upstream.url()));
    std::vector<RawClient> clients;
    for (int i = 0; i < 12; ++i) {
        clients.push_back(tidegate.client("127.0.0.9"));
        // Whichever client it forwards for: the bound is on connections, and these are the proxy's.
        CHECK(clients.back().get("/", "X-Forwarded-For: 203.0.113.7\r\n").status() == 200);
    }
    check_room_for(tidegate, 2);
}

TEST_CASE("connections: a client that is refused gets the answer though its request comes late" *
          only_in_the_clear(kTold)) {
    const Upstream upstream(ok());
    const Tidegate tidegate("connections: {per_ip: 1}\n" + simple(upstream.url()));
    auto first = tidegate.client();
    CHECK(first.get().status() == 200);
    auto second = tidegate.client();
    std::this_thread::sleep_for(milliseconds{200});
    CHECK(second.send(get_request("/")));
    std::this_thread::sleep_for(milliseconds{100});
    CHECK(second.response().status() == 503);
    CHECK_FALSE(second.was_reset());
}

TEST_CASE("connections: a flood from one address does not keep others out") {
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\nconnections: {max: 50, per_ip: 5}\n" +
                            simple(upstream.url()));
    std::atomic<bool> stopping{false};
    std::thread flood([&] {
        std::deque<Socket> open;
        while (!stopping) {
            try {
                open.push_back(Socket::connect(tidegate.port(), "127.0.0.2"));
            } catch (const std::exception&) {
                // No port is left to come from: some will be free again.
            }
            if (open.size() > 200) open.pop_front();
        }
    });
    auto client = tidegate.client("127.0.0.3");
    const auto begin = Clock::now();
    for (int i = 0; i < 100; ++i) {
        CHECK(client.get().status() == 200);
        CHECK(tidegate.get("/", "", "127.0.0.3").status() == 200);
    }
    CHECK(Clock::now() - begin < milliseconds{5000});
    stopping = true;
    flood.join();
    CHECK(refused(tidegate, "per_ip") > 100);
    CHECK(refused(tidegate, "max") == 0);
}

TEST_CASE("connections: connections over the maximum are refused, and accepted again later" *
          only_in_the_clear(kTold)) {
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\nconnections: {max: 4}\n" + simple(upstream.url()));
    {
        std::vector<RawClient> clients;
        for (int i = 0; i < 4; ++i) {
            clients.push_back(tidegate.client());
            CHECK(clients.back().get().status() == 200);
        }
        for (int i = 0; i < 4; ++i) check_turned_away(tidegate.client(), "open here.");
        CHECK(clients.front().get().status() == 200);
    }
    CHECK(served_in_the_end(tidegate));
    CHECK(refused(tidegate, "max") >= 4);
    CHECK(refused(tidegate, "per_ip") == 0);
    CHECK_SOON(tidegate.errors().find("connections.max is reached") != std::string::npos);
}

TEST_CASE("connections: an address with most of them gives up those without a request" *
          only_in_the_clear(kTold)) {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (request.target() == "/long") return conversation.wait_for_end();
            if (!conversation.send(ok())) return;
        }
    });
    const Tidegate tidegate("threads: 1\nconnections: {max: 16}\n" + simple(upstream.url()));
    std::vector<RawClient> holding;
    for (int i = 0; i < 16; ++i) {
        holding.push_back(tidegate.client());
        if (i < 10) holding.back().send(get_request("/long"));
        if (i == 10) holding.back().send("GET / HTTP/1.1\r\nHo");
        if (i == 11) holding.back().get();
    }
    CHECK_SOON(upstream.requests() == 11);
    CHECK_SOON(tidegate.metric("tidegate_client_connections") == 16);
    check_turned_away(tidegate.client(), "open here.");
    // Others get more than three quarters of the room: connections without a request are closed for
    // them.
    std::vector<RawClient> others;
    for (int i = 0; i < 6; ++i) {
        others.push_back(tidegate.client("127.0.0.2"));
        CHECK(others.back().get().status() == 200);
    }
    CHECK_SOON(tidegate.metric("tidegate_client_connections_made_room_total") == 6);
    CHECK_SOON(tidegate.metric("tidegate_client_connections") == 16);
    check_turned_away(tidegate.client(), "open here.");
    for (int i = 10; i < 16; ++i) CHECK(holding[static_cast<std::size_t>(i)].closed());
    for (auto& client : others) CHECK(client.get().status() == 200);
    CHECK_SOON(tidegate.errors().find("127.0.0.1 has more than a quarter") != std::string::npos);
}

TEST_CASE("connections: running out of descriptors does not end the listening" *
          only_in_the_clear("clients that are not accepted cannot shake hands")) {
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    CHECK(tidegate.get().status() == 200);
    rlimit before{};
    rlimit few{};
    REQUIRE(::prlimit(tidegate.pid(), RLIMIT_NOFILE, nullptr, &before) == 0);
    few = before;
    few.rlim_cur = 48;
    REQUIRE(::prlimit(tidegate.pid(), RLIMIT_NOFILE, &few, nullptr) == 0);
    {
        std::vector<RawClient> clients;
        for (int i = 0; i < 80; ++i) clients.push_back(tidegate.client());
        std::this_thread::sleep_for(milliseconds{300});
    }
    CHECK(served_in_the_end(tidegate));
    REQUIRE(::prlimit(tidegate.pid(), RLIMIT_NOFILE, &before, nullptr) == 0);
    CHECK(hammer({tidegate.port()}, 8, 80) == Statuses{{200, 80}});
}

TEST_CASE(
    "connections: silent clients leave the admin listener and the upstream their descriptors") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::uint16_t port = free_port();
    std::uint16_t admin_port = free_port();
    while (admin_port == port) admin_port = free_port();
    const std::string file =
        folder.write("tidegate.yaml", "listen: 127.0.0.1:" + std::to_string(port) +
                                          "\nadmin: 127.0.0.1:" + std::to_string(admin_port) +
                                          "\nlog: {access: off}\n" + simple(upstream.url()));
    Process process(
        {"/bin/sh", "-c", "ulimit -n 256 && exec \"$0\" run -c \"$1\"", program(), file},
        folder.path());
    await_quietly([&] { return Socket::try_connect(admin_port).has_value(); });
    RawClient used(port);
    CHECK(used.get().status() == 200);  // so it was accepted before the others
    std::vector<RawClient> silent;
    for (int i = 0; i < 300; ++i) silent.emplace_back(port);
    for (const std::string path : {"/healthz", "/readyz"}) {
        CHECK(http_get(admin_port, path).status() == 200);
    }
    CHECK(used.get().status() == 200);
    CHECK(process.errors().find("takes at most 128 connections from clients") != std::string::npos);
    process.signal(SIGTERM);
    CHECK(process.wait(kPatience) == 0);
}

TEST_CASE("connections: two hundred connections at once are all served") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    CHECK(hammer({tidegate.port()}, 200, 2000) == Statuses{{200, 2000}});
    CHECK_SOON(tidegate.metric_sum("tidegate_requests_total") == 2000);
}

TEST_CASE("connections: the gauge falls back when clients leave, however they do it") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    {
        std::vector<RawClient> clients;
        for (int i = 0; i < 20; ++i) {
            clients.push_back(tidegate.client());
            clients.back().get();
        }
        CHECK_SOON(tidegate.metric_sum("tidegate_client_connections") == 20);
        for (int i = 0; i < 10; ++i) clients[static_cast<std::size_t>(i)].reset();
    }
    const auto deadline = Clock::now() + kPatience;
    while (tidegate.metric_sum("tidegate_client_connections") > 0 && Clock::now() < deadline)
        std::this_thread::sleep_for(milliseconds{10});
    CHECK_SOON(tidegate.metric_sum("tidegate_client_connections") == 0);
}

}  // namespace tidegate::test::connections_test
