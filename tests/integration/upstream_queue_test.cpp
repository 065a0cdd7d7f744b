// Requests that wait for one of max_connections.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/server_metric.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::upstream_queue_test {

namespace {

const std::string kOther = "127.0.0.2";

// Works on each request until the test lets one go; keeps its connections.
class Gate {
  public:
    Gate() : upstream_([this](Conversation& conversation) { serve(conversation); }) {}
    ~Gate() { let(1'000'000); }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

    std::string url() const { return upstream_.url(); }
    const Upstream& upstream() const { return upstream_; }
    int come() const { return upstream_.requests(); }
    void let(int count) {
        const std::lock_guard lock(mutex_);
        free_ += count;
        changed_.notify_all();
    }
    // Targets in the order in which they came.
    std::vector<std::string> order() const {
        std::vector<std::string> targets;
        for (const Message& request : upstream_.seen()) targets.push_back(request.target());
        return targets;
    }
    // The most requests that were here at once.
    int most() const { return most_; }

  private:
    void serve(Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            {
                std::unique_lock lock(mutex_);
                most_ = std::max(most_.load(), ++here_);
                changed_.wait_for(lock, kPatience, [&] { return free_ > 0; });
                --free_;
                --here_;
            }
            if (!conversation.send(ok(request.target()))) return;
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    int free_ = 0;
    int here_ = 0;
    std::atomic<int> most_{0};
    Upstream upstream_;
};

// A client whose request is under way.
RawClient asking(const Tidegate& tidegate, const std::string& path,
                 const std::string& from = "127.0.0.1") {
    RawClient client = tidegate.client(from);
    client.send(get_request(path));
    return client;
}

// `count` clients that wait in line, one behind the other: /1, /2, ...
std::vector<RawClient> line_up(const Tidegate& tidegate, int count,
                               const std::string& from = "127.0.0.1") {
    const int before = static_cast<int>(queue_length(tidegate));
    std::vector<RawClient> clients;
    for (int i = 1; i <= count; ++i) {
        clients.push_back(asking(tidegate, "/" + std::to_string(i), from));
        await_quietly([&] { return queue_length(tidegate) == before + i; });
    }
    CHECK(queue_length(tidegate) == before + count);
    return clients;
}

// One connection, and a queue.
std::string single(const std::string& url, const std::string& queue) {
    return unlimited({url}, "max_connections: 1, queue: " + queue);
}

}  // namespace

TEST_CASE("queue: max_connections is a number of the process, whichever thread has a request") {
    Gate gate;
    const Tidegate tidegate("threads: 2\n" + unlimited({gate.url()},
                                                       "max_connections: 4, queue: "
                                                       "{max: 20, wait: 9s}"));
    std::vector<RawClient> clients;
    for (int i = 0; i < 16; ++i) clients.push_back(asking(tidegate, "/"));
    CHECK_SOON(gate.come() == 4);
    CHECK_SOON(queue_length(tidegate) == 12);
    CHECK(gate.come() == 4);
    CHECK(tidegate.metric("tidegate_upstream_connections") == 4);
    gate.let(16);
    for (RawClient& client : clients) CHECK(client.response().status() == 200);
    CHECK(gate.come() == 16);
    CHECK(gate.most() == 4);
    CHECK(queue_length(tidegate) == 0);
}

TEST_CASE("queue: one thread may use all connections while another has nothing to do") {
    Gate gate;
    const Tidegate tidegate("threads: 4\n" + unlimited({gate.url()}, "max_connections: 8"));
    // The kernel spreads them over the threads as it likes: some thread has more than two.
    std::vector<RawClient> clients;
    for (int i = 0; i < 8; ++i) clients.push_back(asking(tidegate, "/"));
    CHECK_SOON(gate.come() == 8);
    gate.let(8);
    for (RawClient& client : clients) CHECK(client.response().status() == 200);
    CHECK(tidegate.metric_sum("tidegate_upstream_queue_seconds_count") == 0);
}

TEST_CASE("queue: requests that wait are served in the order they came, of all threads") {
    Gate gate;
    const Tidegate tidegate("threads: 2\n" + single(gate.url(), "{max: 20, wait: 9s}"));
    RawClient first = asking(tidegate, "/first");
    CHECK_SOON(gate.come() == 1);
    std::vector<RawClient> line = line_up(tidegate, 8);
    std::vector<std::string> expected{"/first"};
    gate.let(1);
    CHECK(first.response().status() == 200);
    for (int i = 1; i <= 8; ++i) {
        expected.push_back("/" + std::to_string(i));
        CHECK_SOON(gate.come() == i + 1);
        CHECK(gate.order() == expected);
        gate.let(1);
    }
    for (RawClient& client : line) CHECK(client.response().status() == 200);
    const auto last = logged(tidegate, "/8");
    CHECK(last.at("queue_us") > 0);
    CHECK(last.at("tries") == 1);
    CHECK(last.at("error") == "");
    CHECK(logged(tidegate, "/first").at("queue_us") == 0);
    CHECK_SOON(tidegate.metric_sum("tidegate_upstream_queue_seconds_count") == 8);
}

TEST_CASE("queue: a request that has just come does not get ahead of one that waits") {
    Gate gate;
    const Tidegate tidegate("threads: 1\n" + single(gate.url(), "{max: 20, wait: 9s}"));
    RawClient first = asking(tidegate, "/first");
    CHECK_SOON(gate.come() == 1);
    std::vector<RawClient> line = line_up(tidegate, 3);
    gate.let(1);
    CHECK(first.response().status() == 200);
    first.send(get_request("/again"));  // at once, where a connection has just come free
    gate.let(4);
    CHECK(first.response().status() == 200);
    for (RawClient& client : line) CHECK(client.response().status() == 200);
    CHECK(gate.order() == std::vector<std::string>{"/first", "/1", "/2", "/3", "/again"});
}

TEST_CASE("queue: a connection that comes free serves the next request at once") {
    const Upstream quick(ok());
    const Tidegate tidegate("threads: 2\n" + single(quick.url(), "{max: 64, wait: 1s}"));
    std::vector<RawClient> clients;
    for (int i = 0; i < 60; ++i) clients.push_back(asking(tidegate, "/"));
    for (RawClient& client : clients) CHECK(client.response().status() == 200);
    CHECK(quick.requests() == 60);
}

TEST_CASE("queue: a full queue is 503 at once, with Retry-After") {
    Gate gate;
    const Tidegate tidegate("threads: 2\n" + single(gate.url(), "{max: 2, wait: 9s}"));
    RawClient first = asking(tidegate, "/first");
    CHECK_SOON(gate.come() == 1);
    std::vector<RawClient> line = line_up(tidegate, 2);
    for (int i = 0; i < 4; ++i) {
        const auto begin = Clock::now();
        const auto refused = tidegate.get("/refused");
        CHECK(refused.status() == 503);
        CHECK(refused.field("Retry-After") == "1");
        CHECK(refused.field("Content-Type") == "application/problem+json");
        CHECK(Clock::now() - begin < milliseconds{1000});
    }
    CHECK(logged(tidegate, "/refused").at("error") == "upstream: exhausted");
    CHECK(logged(tidegate, "/refused").at("tries") == 0);
    gate.let(3);
    CHECK(first.response().status() == 200);
    for (RawClient& client : line) CHECK(client.response().status() == 200);
    CHECK(gate.come() == 3);
}

TEST_CASE("queue: a wait that is over is 503 with Retry-After, and the place is free again") {
    Gate gate;
    const Tidegate tidegate(single(gate.url(), "{max: 1, wait: 300ms}"));
    RawClient first = asking(tidegate, "/first");
    CHECK_SOON(gate.come() == 1);
    for (int i = 0; i < 3; ++i) {
        const auto begin = Clock::now();
        const auto late = tidegate.get("/late");
        CHECK(late.status() == 503);
        CHECK(late.field("Retry-After") == "1");
        CHECK(Clock::now() - begin >= milliseconds{280});
        CHECK(Clock::now() - begin < milliseconds{1000} + slack());
    }
    const auto line = logged(tidegate, "/late");
    CHECK(line.at("error") == "upstream: exhausted");
    CHECK(line.at("queue_us") >= 280'000);
    CHECK(queue_length(tidegate) == 0);
    CHECK_SOON(tidegate.metric_sum("tidegate_upstream_queue_seconds_count") == 3);
    gate.let(2);
    CHECK(first.response().status() == 200);
    CHECK(tidegate.get("/next").status() == 200);
    CHECK(gate.order() == std::vector<std::string>{"/first", "/next"});
}

TEST_CASE("queue: a client that leaves leaves the queue, and its request is never sent") {
    Gate gate;
    const Tidegate tidegate("threads: 2\n" + single(gate.url(), "{max: 3, wait: 9s}"));
    RawClient first = asking(tidegate, "/first");
    CHECK_SOON(gate.come() == 1);
    std::vector<RawClient> line = line_up(tidegate, 3);
    line[1].reset();
    CHECK_SOON(queue_length(tidegate) == 2);
    RawClient behind = asking(tidegate, "/behind");  // there is a place for it
    CHECK_SOON(queue_length(tidegate) == 3);
    gate.let(4);
    for (RawClient* client : {&first, &line[0], &line[2], &behind}) {
        CHECK(client->response().status() == 200);
    }
    CHECK(gate.order() == std::vector<std::string>{"/first", "/1", "/3", "/behind"});
    CHECK(logged(tidegate, "/2").at("error") == "client: left");
}

TEST_CASE("queue: no seat is lost when clients leave as it is given to them") {
    std::atomic<int> together{0};
    const Upstream quick([&](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (request.target() == "/together") {
                ++together;
                await_quietly([&] { return together == 2; });
            }
            if (!conversation.send(ok())) return;
        }
    });
    const Tidegate tidegate("threads: 2\n" + unlimited({quick.url()},
                                                       "max_connections: 2, queue: "
                                                       "{max: 64, wait: 9s}"));
    for (int round = 0; round < 20; ++round) {
        std::vector<RawClient> clients;
        for (int i = 0; i < 16; ++i) clients.push_back(asking(tidegate, "/"));
        for (std::size_t i = 0; i < clients.size(); i += 2) clients[i].reset();
    }
    CHECK_SOON(queue_length(tidegate) == 0);
    CHECK_SOON(tidegate.metric_sum("tidegate_upstream_server_active") == 0);
    // Both seats are in use: two requests are at the server at once.
    std::vector<RawClient> both;
    for (int i = 0; i < 2; ++i) both.push_back(asking(tidegate, "/together"));
    CHECK_SOON(together == 2);
    for (RawClient& client : both) CHECK(client.response().status() == 200);
    CHECK(tidegate.metric("tidegate_upstream_connections") <= 2);
}

TEST_CASE("queue: one address does not fill the queue: its last make room for others") {
    Gate gate;
    const Tidegate tidegate("threads: 2\n" + single(gate.url(), "{max: 4, wait: 9s}"));
    RawClient first = asking(tidegate, "/first");
    CHECK_SOON(gate.come() == 1);
    std::vector<RawClient> line = line_up(tidegate, 4);
    CHECK(tidegate.get("/fifth").status() == 503);
    // Two at once: each finds a place of its own.
    std::vector<RawClient> others;
    for (const std::string path : {"/x", "/y"}) others.push_back(asking(tidegate, path, kOther));
    for (const std::size_t last : {3U, 2U}) {
        const auto answer = line[last].response();
        CHECK(answer.status() == 503);
        CHECK(answer.field("Retry-After") == "1");
    }
    CHECK_SOON(queue_length(tidegate) == 4);
    gate.let(5);
    for (RawClient* client : {&first, &line[0], &line[1], &others[0], &others[1]}) {
        CHECK(client->response().status() == 200);
    }
    CHECK(gate.come() == 5);
}

TEST_CASE("queue: a request that waits while the configuration changes still finds room") {
    Gate gate;
    // Their bodies come only after the server has asked for them, which it does not.
    const std::string upload =
        "POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
        "Transfer-Encoding: chunked\r\n\r\n";
    const std::string settings = "max_connections: 2, queue: {max: 9, wait: 9s}";
    const Tidegate tidegate("threads: 1\n" + unlimited({gate.url()}, settings));
    std::vector<RawClient> uploading;
    for (int i = 0; i < 2; ++i) {
        uploading.push_back(tidegate.client());
        uploading.back().send(upload);
    }
    CHECK_SOON(gate.upstream().connections() == 2);
    RawClient waiting = asking(tidegate, "/waiting", kOther);
    CHECK_SOON(queue_length(tidegate) == 1);
    gate.let(3);  // an upload that is cut off may take one
    tidegate.write_configuration("threads: 1\n" + unlimited({gate.url()}, "max_connections: 3"));
    CHECK(tidegate.reload().status() == 200);
    // Now the server waits for these clients, which are of one address.
    for (RawClient& client : uploading) client.send(chunk("begin"));
    const auto begin = Clock::now();
    CHECK(waiting.response().status() == 200);
    CHECK(Clock::now() - begin < milliseconds{3000});
}

TEST_CASE("queue: a request that cannot reach its server keeps its place for the next one") {
    Gate gate;
    const std::string dead = "http://127.0.0.1:" + std::to_string(free_port());
    const Tidegate tidegate(
        "threads: 1\n" +
        unlimited({gate.url(), dead},
                  "max_connections: 1, idle_connections: 0, queue: {max: 9, wait: 9s}"));
    RawClient first = asking(tidegate, "/first");
    CHECK_SOON(gate.come() == 1);
    std::vector<RawClient> line = line_up(tidegate, 3);  // the first of them is for the dead server
    gate.let(4);
    CHECK(first.response().status() == 200);
    for (RawClient& client : line) CHECK(client.response().status() == 200);
    CHECK(gate.order() == std::vector<std::string>{"/first", "/1", "/2", "/3"});
    CHECK(logged(tidegate, "/1").at("tries") == 2);
}

}  // namespace tidegate::test::upstream_queue_test
