// Health checks that keep their connection to the server.
#include <atomic>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "integration/process.hpp"
#include "integration/server_metric.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::health_kept_test {

namespace {

// A single failed check is seen.
std::string check_every(int every_ms, const std::string& more = "") {
    return "health_check: {path: /healthz, every: " + std::to_string(every_ms) +
           "ms, unhealthy_after: 1, healthy_after: 1}" + more;
}

bool is_up(const Tidegate& tidegate, std::uint16_t port) {
    return server_metric(tidegate, "up", port) == 1;
}

bool was_ever_unhealthy(const Tidegate& tidegate) {
    return tidegate.errors().find("unhealthy") != std::string::npos;
}

bool asks_to_close(const Message& request) {
    return request.field("Connection") == "close";
}

// An echo upstream as a program of its own, which a signal stops.
class EchoServer {
  public:
    EchoServer()
        : port_(free_port()),
          process_({program(), "echo", "--listen", "127.0.0.1:" + std::to_string(port_)},
                   folder_.path()) {}
    ~EchoServer() { process_.signal(SIGCONT); }
    EchoServer(const EchoServer&) = delete;
    EchoServer& operator=(const EchoServer&) = delete;

    std::uint16_t port() const { return port_; }
    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
    void signal(int number) const { process_.signal(number); }

  private:
    TemporaryFolder folder_;
    std::uint16_t port_;
    Process process_;
};

}  // namespace

TEST_CASE("health: the checks of a server come on one connection, if it keeps it") {
    const Upstream keeps(ok());
    const Upstream closes(ok("ok", "Connection: close\r\n"));
    const Tidegate tidegate(unlimited({keeps.url(), closes.url()}, check_every(100)));
    CHECK_SOON(keeps.requests() >= 5);
    CHECK(keeps.connections() == 1);
    CHECK_SOON(closes.requests() >= 3);
    CHECK(closes.connections() >= 3);
    CHECK_FALSE(was_ever_unhealthy(tidegate));
}

TEST_CASE("health: a server that closes kept connections between checks stays healthy") {
    const Upstream in_pauses([](Conversation& conversation) {
        Message request;
        if (conversation.read(request)) conversation.send(ok());
    });
    const Upstream at_requests([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request) || !conversation.send(ok())) return;
        if (!conversation.read(request)) return;
        if (conversation.number() % 2 == 0) conversation.reset();
    });
    const Tidegate tidegate(unlimited({in_pauses.url(), at_requests.url()}, check_every(100)));
    CHECK_SOON(in_pauses.requests() >= 8);
    CHECK_SOON(at_requests.requests() >= 12);
    CHECK(in_pauses.connections() >= 8);
    CHECK(at_requests.connections() >= 6);
    CHECK(is_up(tidegate, in_pauses.port()));
    CHECK(is_up(tidegate, at_requests.port()));
    CHECK_FALSE(was_ever_unhealthy(tidegate));
}

TEST_CASE("health: a server that is killed, or hangs, is noticed at the next check") {
    const EchoServer killed;
    const EchoServer hangs;
    const Upstream other(ok());
    const Tidegate tidegate(unlimited({killed.url(), hangs.url(), other.url()},
                                      "health_check: {path: /, every: 500ms, timeout: 400ms, "
                                      "unhealthy_after: 1, healthy_after: 1}"));
    CHECK_SOON(is_up(tidegate, killed.port()));
    CHECK_SOON(is_up(tidegate, hangs.port()));
    CHECK_SOON(other.requests() >= 4);  // connections are kept by now
    CHECK(other.connections() == 1);
    killed.signal(SIGKILL);
    hangs.signal(SIGSTOP);
    const auto begin = Clock::now();
    CHECK_SOON(!is_up(tidegate, killed.port()));
    CHECK_SOON(!is_up(tidegate, hangs.port()));
    CHECK(Clock::now() - begin < milliseconds{1500} + slack());
    CHECK_SOON(tidegate.errors().find("Connection refused") != std::string::npos);
    CHECK_SOON(tidegate.errors().find("it does not answer within 400ms") != std::string::npos);
    hangs.signal(SIGCONT);
    const auto woken = Clock::now();
    CHECK_SOON(is_up(tidegate, hangs.port()));
    CHECK(Clock::now() - woken < milliseconds{1500} + slack());
}

TEST_CASE("health: checks connect anew within `timeouts.idle`, and when a check has failed") {
    std::atomic<bool> fails{false};
    const Upstream server(Upstream::answering([&](const Message&) -> std::string {
        return fails ? "HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n" : ok();
    }));
    const Tidegate tidegate(unlimited({server.url()}, check_every(100, ", timeouts: {idle: 1s}")));
    CHECK_SOON(server.connections() >= 3);
    CHECK(server.requests() >= 3 * server.connections());
    // The last check on a connection says so.
    int closing = 0;
    for (const Message& request : server.seen()) closing += asks_to_close(request) ? 1 : 0;
    CHECK(closing >= 2);
    CHECK(closing <= server.connections());

    fails = true;
    CHECK_SOON(!is_up(tidegate, server.port()));
    const int connections = server.connections();
    const int requests = server.requests();
    CHECK_SOON(server.requests() >= requests + 4);
    CHECK(server.connections() - connections >= server.requests() - requests - 1);
}

TEST_CASE("health: with `idle_connections: 0` checks keep no connection") {
    const Upstream server(ok());
    const Tidegate tidegate(unlimited({server.url()}, check_every(100, ", idle_connections: 0")));
    CHECK_SOON(server.requests() >= 3);
    CHECK(server.connections() >= 3);
    CHECK(asks_to_close(server.last()));
}

TEST_CASE("health: a reload that changes an upstream closes the connections of its checks") {
    std::atomic<int> ended{0};
    const auto serve = [&](Conversation& conversation) {
        Message request;
        while (conversation.read(request) && conversation.send(ok())) {
        }
        ++ended;
    };
    const Upstream server(serve);
    const Upstream other(ok());
    const Tidegate tidegate(unlimited({server.url()}, check_every(20'000)));
    CHECK_SOON(server.requests() >= 1);
    CHECK(ended == 0);
    tidegate.write_configuration(unlimited({other.url()}, check_every(20'000)));
    CHECK(tidegate.reload().status() == 200);
    CHECK_SOON(ended == 1);
    CHECK(server.connections() == 1);
}

}  // namespace tidegate::test::health_kept_test
