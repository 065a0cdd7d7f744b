// Requests that wait for one of max_connections, and bodies that are held before they need one.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
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

using namespace tidegate::test;

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

nlohmann::json logged(const Tidegate& tidegate, const std::string& path) {
    nlohmann::json found;
    await_quietly([&] {
        for (const auto& line : tidegate.access_log(0)) {
            if (line.at("path") == path) found = line;
        }
        return !found.is_null();
    });
    return found;
}

// Clients of 127.0.0.1 that send `head` and then a byte a second each. One that is refused or ended
// comes again.
class ByteASecond {
  public:
    ByteASecond(const Tidegate& tidegate, std::size_t count, const std::string& head)
        : tidegate_(tidegate), head_(head), clients_(count) {
        for (auto& client : clients_) begin(client);
        sender_ = std::thread([this] { run(); });
    }
    ~ByteASecond() {
        done_ = true;
        sender_.join();
    }
    ByteASecond(const ByteASecond&) = delete;
    ByteASecond& operator=(const ByteASecond&) = delete;

  private:
    void begin(std::optional<RawClient>& client) {
        client.emplace(tidegate_.port());
        client->send(head_);
    }
    void run() {
        // A tenth of the clients every tenth of a second.
        for (std::size_t turn = 0; !done_; ++turn) {
            const auto due = Clock::now() + milliseconds{100};
            for (std::size_t i = turn % 10; i < clients_.size(); i += 10) {
                if (!clients_[i]->send("x")) begin(clients_[i]);
            }
            std::this_thread::sleep_until(due);
        }
    }

    const Tidegate& tidegate_;
    const std::string head_;
    std::vector<std::optional<RawClient>> clients_;
    std::atomic<bool> done_{false};
    std::thread sender_;
};

// Over three seconds, each request of `from` is answered within a second.
void check_served(const Tidegate& tidegate, const std::string& from) {
    for (int i = 0; i < 20; ++i) {
        const auto begin = Clock::now();
        CHECK(tidegate.get("/", "", from).status() == 200);
        CHECK(Clock::now() - begin < milliseconds{1000});
        std::this_thread::sleep_until(begin + milliseconds{150});
    }
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
    // Both seats are there: two requests are at the server at once.
    std::vector<RawClient> both;
    for (int i = 0; i < 2; ++i) both.push_back(asking(tidegate, "/together"));
    CHECK_SOON(together == 2);
    for (RawClient& client : both) CHECK(client.response().status() == 200);
    CHECK(tidegate.metric("tidegate_upstream_connections") <= 2);
}

TEST_CASE("queue: one address does not fill the queue: its last make room for others") {
    Gate gate;
    const Tidegate tidegate("threads: 1\n" + single(gate.url(), "{max: 4, wait: 9s}"));
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

TEST_CASE("queue: a request that cannot reach its server keeps its place for the next one") {
    Gate gate;
    const std::string dead = "http://127.0.0.1:" + std::to_string(free_port());
    const Tidegate tidegate(
        "threads: 1\n" +
        unlimited({gate.url(), dead}, "max_connections: 1, queue: {max: 9, wait: 9s}"));
    RawClient first = asking(tidegate, "/first");
    CHECK_SOON(gate.come() == 1);
    std::vector<RawClient> line = line_up(tidegate, 3);  // the first of them is for the dead server
    gate.let(4);
    CHECK(first.response().status() == 200);
    for (RawClient& client : line) CHECK(client.response().status() == 200);
    CHECK(gate.order() == std::vector<std::string>{"/first", "/1", "/2", "/3"});
    CHECK(logged(tidegate, "/1").at("tries") == 2);
}

TEST_CASE("queue: a body of known length needs no connection until it is there") {
    const Upstream upstream(ok());
    const Tidegate tidegate(unlimited({upstream.url()}, "request_buffer: 1KiB"));
    auto client = tidegate.client();
    client.send("POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 1024\r\n\r\nbegin");
    auto longer = tidegate.client();
    longer.send("POST /longer HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\nbegin");
    CHECK_SOON(upstream.connections() == 1);  // the longer one streams
    std::this_thread::sleep_for(milliseconds{100});
    CHECK(upstream.connections() == 1);
    CHECK(upstream.requests() == 0);
    client.send(std::string(1019, 'x'));
    CHECK(client.response().status() == 200);
    CHECK(upstream.last().target() == "/held");
    CHECK(upstream.last().body == "begin" + std::string(1019, 'x'));
    CHECK(logged(tidegate, "/held").at("bytes_in") == 1024);
    longer.send(std::string(1020, 'x'));
    CHECK(longer.response().status() == 200);
}

TEST_CASE("queue: a route's `buffer` holds chunked bodies too, and streams what is longer") {
    const Upstream upstream(ok());
    const Tidegate tidegate("upstreams: {api: {servers: [" + upstream.url() +
                            "]}}\nroutes: [{name: all, upstream: api, policies: [], buffer: "
                            "1KiB}]\n");
    const std::string head = "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    auto client = tidegate.client();
    client.send(head + chunk("begin"));
    std::this_thread::sleep_for(milliseconds{100});
    CHECK(upstream.connections() == 0);
    client.send(chunk("end") + "0\r\nX-Sum: 8\r\n\r\n");
    CHECK(client.response().status() == 200);
    CHECK(upstream.last().body == "beginend");
    CHECK(upstream.last().trailers == FieldList{{"X-Sum", "8"}});

    CHECK(client.ask(head + "0\r\n\r\n").status() == 200);
    CHECK(upstream.last().body.empty());
    CHECK(upstream.last().field("Transfer-Encoding") == "chunked");

    auto longer = tidegate.client();
    longer.send(head + chunk(std::string(2000, 'a')));
    CHECK_SOON(upstream.connections() >= 1);
    longer.send(chunk(std::string(100'000, 'b')) + "0\r\n\r\n");
    CHECK(longer.response().status() == 200);
    CHECK(upstream.last().body == std::string(2000, 'a') + std::string(100'000, 'b'));
}

TEST_CASE("queue: an idempotent request whose body is held is sent whole again") {
    std::atomic<int> count{0};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (++count == 2) return;  // it had been idle: the proxy cannot know what came of it
            if (!conversation.send(ok())) return;
        }
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    CHECK(client.get("/first").status() == 200);
    const std::string body = std::string(30'000, 'x') + "end";
    const std::string put = "PUT /put HTTP/1.1\r\nHost: a\r\nContent-Length: 30003\r\n\r\n" + body;
    client.send(put.substr(0, 9'000));
    std::this_thread::sleep_for(milliseconds{50});
    client.send(put.substr(9'000));
    CHECK(client.response().status() == 200);
    const auto seen = upstream.seen();
    REQUIRE(seen.size() == 3);
    CHECK(seen[1].body == body);
    CHECK(seen[2].body == body);
    CHECK(logged(tidegate, "/put").at("bytes_in") == 30'003);
    CHECK(logged(tidegate, "/put").at("tries") == 2);
}

TEST_CASE("queue: 512 uploads of a byte a second that are held take nothing from others") {
    const Upstream upstream(ok());
    const Tidegate tidegate(unlimited({upstream.url()}, "max_connections: 16"));
    const ByteASecond slow(tidegate, 512,
                           "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n");
    check_served(tidegate, "127.0.0.1");
    CHECK(upstream.connections() <= 2);
}

TEST_CASE("queue: 512 uploads of a byte a second that are streamed do not keep others waiting") {
    const Upstream upstream(ok());
    const Tidegate tidegate(unlimited({upstream.url()}, "max_connections: 64"));
    const ByteASecond slow(tidegate, 512,
                           "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "fffff\r\n");
    CHECK_SOON(upstream.connections() >= 64);
    check_served(tidegate, kOther);
    CHECK_SOON(tidegate.metric(
                   "tidegate_request_faults_total{fault=\"client: slow body, made room\"}") >= 1);
}
