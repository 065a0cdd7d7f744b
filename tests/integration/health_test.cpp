// Servers that get no requests: checks, ejections, and how they come back.
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/server_metric.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::health_test {

namespace {

// Answers checks as the test says, and counts requests and checks apart.
class Checked {
  public:
    explicit Checked(int health = 200)
        : health_(health), upstream_([this](Conversation& conversation) { serve(conversation); }) {}

    const Upstream& upstream() const { return upstream_; }
    std::string url() const { return upstream_.url(); }
    std::uint16_t port() const { return upstream_.port(); }
    // 0: checks get no answer.
    void set_health(int status) { health_ = status; }
    int served() const { return served_; }
    int checks() const { return checks_; }
    // Of the last check.
    Message check() const {
        for (const auto seen = upstream_.seen(); const Message& request : seen) {
            if (request.target().starts_with("/healthz")) return request;
        }
        return {};
    }

  private:
    void serve(Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (!request.target().starts_with("/healthz")) {
                ++served_;
                if (!conversation.send(ok())) return;
                continue;
            }
            ++checks_;
            const int health = health_;
            if (health == 0) return conversation.wait_for_end();
            conversation.send("HTTP/1.1 " + std::to_string(health) +
                              " Said\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
            return;
        }
    }

    std::atomic<int> health_;
    std::atomic<int> served_{0};
    std::atomic<int> checks_{0};
    Upstream upstream_;
};

const std::string kPromptCheck =
    "health_check: {path: /healthz, every: 500ms, unhealthy_after: 1, healthy_after: 1}";

bool is_up(const Tidegate& tidegate, std::uint16_t port) {
    return server_metric(tidegate, "up", port) == 1;
}

// How many of `count` requests `server` gets.
int share_of(const Tidegate& tidegate, const Checked& server, int count) {
    const int before = server.served();
    auto client = tidegate.client();
    for (int i = 0; i < count; ++i) CHECK(client.get().status() == 200);
    return server.served() - before;
}

// Takes each request and answers it or not, as the test wants.
class Failing {
  public:
    Failing()
        : upstream_([this](Conversation& conversation) {
              Message request;
              while (conversation.read(request)) {
                  if (fails_ || !conversation.send(answer_)) return;
              }
          }) {}
    explicit Failing(std::string answer) : Failing() {
        answer_ = std::move(answer);
        fails_ = false;
    }
    void heal() { fails_ = false; }
    const Upstream& upstream() const { return upstream_; }
    std::string url() const { return upstream_.url(); }
    int requests() const { return upstream_.requests(); }

  private:
    std::atomic<bool> fails_{true};
    std::string answer_ = ok();
    Upstream upstream_;
};

// POSTs, which are never sent twice; the statuses.
std::vector<int> post(const Tidegate& tidegate, int count) {
    std::vector<int> statuses;
    for (int i = 0; i < count; ++i) {
        statuses.push_back(
            tidegate.client().ask(post_request("/", "x", "Connection: close\r\n")).status());
    }
    return statuses;
}

}  // namespace

TEST_CASE("health: a server whose checks fail gets no requests, and gets them again in time") {
    Checked ill;
    const Checked well;
    const Tidegate tidegate(unlimited({ill.url(), well.url()}, kPromptCheck));
    CHECK(share_of(tidegate, ill, 20) >= 8);
    ill.set_health(503);
    CHECK_SOON(!is_up(tidegate, ill.port()));
    CHECK(share_of(tidegate, ill, 20) == 0);
    CHECK(is_up(tidegate, well.port()));
    CHECK_SOON(tidegate.errors().find("is unhealthy and gets no requests: it answers 503") !=
               std::string::npos);

    ill.set_health(200);
    const auto begin = Clock::now();
    const int before = ill.served();
    await_quietly([&] { return tidegate.get().status() != 200 || ill.served() > before; });
    CHECK(ill.served() > before);
    CHECK(Clock::now() - begin < milliseconds{1500} + slack());
    CHECK_SOON(tidegate.errors().find("is healthy again") != std::string::npos);
}

TEST_CASE("health: so many checks in a row decide, but the first one decides at once") {
    Checked late(500);
    const Checked well;
    const Tidegate tidegate(unlimited(
        {late.url(), well.url()},
        "health_check: {path: /healthz, every: 100ms, unhealthy_after: 100, healthy_after: 4}"));
    CHECK_SOON(!is_up(tidegate, late.port()));
    CHECK(late.checks() < 50);
    late.set_health(204);
    const int before = late.checks();
    CHECK_SOON(is_up(tidegate, late.port()));
    CHECK(late.checks() >= before + 4);
    // One that was just under way may still have failed.
    late.set_health(500);
    const int failed = late.checks();
    CHECK_SOON(late.checks() >= failed + 5);
    CHECK(is_up(tidegate, late.port()));
}

TEST_CASE("health: where all servers are down, requests get 503 and when to come back") {
    Checked first(500);
    const Checked second(500);
    const Tidegate tidegate(
        unlimited({first.url(), second.url()},
                  "health_check: {path: /healthz, every: 2500ms, healthy_after: 1}"));
    CHECK_SOON(tidegate.metric_sum("tidegate_upstream_server_up") == 0);
    const auto begin = Clock::now();
    const auto answer = tidegate.get();
    CHECK(Clock::now() - begin < milliseconds{1000});
    CHECK(answer.status() == 503);
    CHECK(answer.field("Retry-After") == "3");
    CHECK(answer.field("Content-Type") == "application/problem+json");
    CHECK(first.served() + second.served() == 0);
    const auto line = tidegate.access_log(1).back();
    CHECK(line.at("error") == "upstream: down");
    CHECK(line.at("upstream_server") == "");
    CHECK(line.at("tries") == 0);
    // Readiness does not change: another proxy would have the same servers.
    CHECK(tidegate.admin("/readyz").value().status() == 200);
    first.set_health(200);
    await_quietly([&] { return tidegate.get().status() == 200; });
    CHECK(first.served() == 1);
}

TEST_CASE("health: a lone server that its check finds unhealthy gets no requests") {
    Checked only(500);
    const Tidegate tidegate(unlimited({only.url()}, kPromptCheck));
    CHECK_SOON(!is_up(tidegate, only.port()));
    CHECK(tidegate.get().status() == 503);
    CHECK(tidegate.get().field("Retry-After") == "1");
    CHECK(only.served() == 0);
}

TEST_CASE("health: one check for the process, as configured, from first to last") {
    const Checked server;
    const Tidegate tidegate(
        "threads: 4\n" +
        unlimited({server.url()},
                  "health_check: {path: \"/healthz?deep=1\", host: api.internal, every: 200ms}"));
    CHECK_SOON(server.checks() >= 1);
    const int before = server.checks();
    const auto begin = Clock::now();
    CHECK_SOON(server.checks() >= before + 5);
    // Ten percent of jitter. Four threads that each check would need a quarter of it.
    CHECK(Clock::now() - begin >= milliseconds{4 * 180 - 50});
    const Message check = server.check();
    CHECK(check.start_line == "GET /healthz?deep=1 HTTP/1.1");
    CHECK(check.field("Host") == "api.internal");
    CHECK(check.field("User-Agent").starts_with("tidegate-health/"));
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.access_log(1).size() == 1);
    // Requests are not what the checks are counted as.
    CHECK(server_metric(tidegate, "requests_total", server.port()) == 1);
}

TEST_CASE("health: statuses that are not listed, silence and a refusal are all unhealthy") {
    Checked redirects(301);
    Checked silent(0);
    const std::uint16_t refusing = free_port();
    const Checked well(204);
    const Tidegate tidegate(unlimited(
        {redirects.url(), silent.url(), "http://127.0.0.1:" + std::to_string(refusing), well.url()},
        "health_check: {path: /healthz, every: 400ms, timeout: 200ms, status: [200-299]}"));
    CHECK_SOON(!is_up(tidegate, redirects.port()));
    CHECK_SOON(!is_up(tidegate, silent.port()));
    CHECK_SOON(!is_up(tidegate, refusing));
    CHECK(is_up(tidegate, well.port()));
    CHECK(share_of(tidegate, well, 12) == 12);
    CHECK_SOON(tidegate.errors().find("it does not answer within 200ms") != std::string::npos);
    CHECK_SOON(tidegate.errors().find("Connection refused") != std::string::npos);
}

TEST_CASE("health: a check that the server answers counts at once, though the connection stays") {
    std::atomic<bool> fails{false};
    const Upstream keeps(Upstream::answering([&](const Message&) -> std::string {
        return fails ? "HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n" : ok();
    }));
    const Upstream other(ok());
    const Tidegate tidegate(
        unlimited({keeps.url(), other.url()},
                  "health_check: {path: /healthz, every: 2s, timeout: 2s, unhealthy_after: 1}"));
    CHECK_SOON(keeps.requests() >= 1);
    fails = true;
    const int before = keeps.requests();
    CHECK_SOON(keeps.requests() > before);
    const auto begin = Clock::now();
    CHECK_SOON(!is_up(tidegate, keeps.port()));
    CHECK(Clock::now() - begin < milliseconds{700} + slack());
}

TEST_CASE("health: `tcp` connects, and needs no answer") {
    const std::uint16_t port = free_port();
    const Upstream other(ok("other"));
    std::optional<Upstream> server;
    server.emplace(ok("server"), port);
    const Tidegate tidegate(
        unlimited({server->url(), other.url()},
                  "health_check: {tcp: on, every: 200ms, unhealthy_after: 1, healthy_after: 1}"));
    CHECK_SOON(server->connections() >= 2);
    CHECK(server->requests() == 0);
    CHECK(is_up(tidegate, port));
    server.reset();
    CHECK_SOON(!is_up(tidegate, port));
    for (int i = 0; i < 6; ++i) CHECK(tidegate.get().body == "other");
    server.emplace(ok("server"), port);
    const auto begin = Clock::now();
    await_quietly([&] { return tidegate.get().body == "server"; });
    CHECK(Clock::now() - begin < milliseconds{1200} + slack());
}

TEST_CASE("health: a server that is back gets its share little by little") {
    Checked back;
    const Checked other;
    const Tidegate tidegate(
        "threads: 1\n" + unlimited({back.url(), other.url()}, "slow_start: 2s, " + kPromptCheck));
    CHECK(share_of(tidegate, back, 40) == 20);  // none at the start of the program
    back.set_health(500);
    CHECK_SOON(!is_up(tidegate, back.port()));
    back.set_health(200);
    CHECK_SOON(is_up(tidegate, back.port()));
    const auto begin = Clock::now();
    const int first = share_of(tidegate, back, 40);
    if (Clock::now() - begin < milliseconds{400}) {
        CHECK(first >= 1);
        CHECK(first <= 12);
    }
    std::this_thread::sleep_until(begin + milliseconds{2100});
    CHECK(share_of(tidegate, back, 40) >= 19);
}

TEST_CASE("health: a server that fails requests in a row is ejected for a while") {
    Failing bad;
    const Upstream good(ok());
    const Tidegate tidegate("threads: 1\n" +
                            unlimited({bad.url(), good.url()}, "eject: {failures: 3, for: 1s}"));
    int failed = 0;
    for (const int status : post(tidegate, 6)) failed += status == 502 ? 1 : 0;
    CHECK(failed == 3);
    CHECK(bad.requests() == 3);
    const auto ejected = Clock::now();
    CHECK(post(tidegate, 10) == std::vector<int>(10, 200));
    if (Clock::now() - ejected < milliseconds{900}) CHECK(bad.requests() == 3);
    CHECK(server_metric(tidegate, "ejections_total", bad.upstream().port()) == 1);
    CHECK(server_metric(tidegate, "failures_total", bad.upstream().port()) == 3);
    CHECK_SOON(tidegate.errors().find("failed 3 requests in a row (its answers are broken) and is "
                                      "ejected for 1s") != std::string::npos);
    bad.heal();
    await_quietly([&] { return tidegate.get().status() != 200 || bad.requests() > 3; });
    CHECK(bad.requests() > 3);
    CHECK(Clock::now() - ejected < milliseconds{2000} + slack());
}

TEST_CASE("health: answers of 500 are no failures, and one good answer begins the count anew") {
    const Failing complains("HTTP/1.1 500 Sorry\r\nContent-Length: 0\r\n\r\n");
    const Upstream good(ok());
    const Tidegate tidegate("threads: 1\n" + unlimited({complains.url(), good.url()},
                                                       "eject: {failures: 2, for: 1min}"));
    post(tidegate, 20);
    CHECK(complains.requests() == 10);

    std::atomic<int> count{0};
    const Upstream third([&](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (++count % 3 != 0) return;  // two of three
            conversation.send(ok());
        }
    });
    const Tidegate other("threads: 1\n" +
                         unlimited({third.url(), good.url()}, "eject: {failures: 3, for: 1min}"));
    post(other, 24);
    CHECK(third.requests() == 12);
    CHECK(server_metric(other, "ejections_total", third.port()) == 0);
}

TEST_CASE("health: an answer that only its client ends begins the count anew, too") {
    std::atomic<int> count{0};
    const Upstream streams([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request) || ++count % 2 != 0) return;
        conversation.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("event"));
        conversation.wait_for_end();
    });
    const Upstream good(ok());
    const Tidegate tidegate(
        "threads: 1\n" + unlimited({streams.url(), good.url()}, "eject: {failures: 2, for: 1min}"));
    int left = 0;
    for (int i = 0; i < 12; ++i) {
        auto client = tidegate.client();
        client.send(get_request("/"));
        if (client.some().find("chunked") == std::string::npos) continue;
        client.reset();
        ++left;
        CHECK_SOON(tidegate.metric("tidegate_request_faults_total{fault=\"client: left\"}") ==
                   left);
    }
    CHECK(left == 3);
    CHECK(streams.requests() == 6);
    CHECK(server_metric(tidegate, "ejections_total", streams.port()) == 0);
}

TEST_CASE("health: a lone server is never ejected, and of many that fail some stay") {
    const Failing only;
    const Tidegate lone(unlimited({only.url()}, "eject: {failures: 1, for: 1min}"));
    CHECK(post(lone, 8) == std::vector<int>(8, 502));
    CHECK(only.requests() == 8);

    const Failing first;
    const Failing second;
    const Tidegate both(unlimited({first.url(), second.url()}, "eject: {failures: 1, for: 1min}"));
    CHECK(post(both, 8) == std::vector<int>(8, 502));
    CHECK(first.requests() + second.requests() == 8);
}

}  // namespace tidegate::test::health_test
