// Bodies that are held before they need a connection, and slow uploads: neither takes connections
// from others.
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/server_metric.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::request_buffer_test {

namespace {

// Clients of 127.0.0.1 that send `head` and then a byte a second each. A client that is refused or
// cut off connects again.
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

TEST_CASE("queue: a body of known length takes no connection until it has arrived") {
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
    CHECK(upstream.last().trailers == as_carried({{"X-Sum", "8"}}));

    CHECK(client.ask(head + "0\r\n\r\n").status() == 200);
    CHECK(upstream.last().body.empty());
    CHECK(upstream.last().field("Content-Length") == "0");
    CHECK_FALSE(upstream.last().has("Transfer-Encoding"));

    auto longer = tidegate.client();
    longer.send(head + chunk(std::string(2000, 'a')));
    CHECK_SOON(upstream.connections() >= 1);
    longer.send(chunk(std::string(100'000, 'b')) + "0\r\n\r\n");
    CHECK(longer.response().status() == 200);
    CHECK(upstream.last().body == std::string(2000, 'a') + std::string(100'000, 'b'));
}

TEST_CASE("queue: a body that is held whole is sent with its length, whatever its framing was") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "upstreams: {api: {servers: [" + upstream.url() +
        "]}}\nroutes:\n  - {match: {path: /held}, policies: [], buffer: 64KiB}\n"
        "  - {policies: []}\n");
    const std::string rest =
        " HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
    const std::string body(20'000, 'a');
    auto client = tidegate.client();
    // In one piece, which needs no wait, and in several.
    CHECK(client.ask("POST /held" + rest + chunk("begin") + "0\r\n\r\n").status() == 200);
    CHECK(upstream.last().field("Content-Length") == "5");
    CHECK(upstream.last().body == "begin");
    client.send("PUT /held" + rest + chunk(body));
    std::this_thread::sleep_for(milliseconds{50});
    client.send(chunk("end") + "0\r\n\r\n");
    CHECK(client.response().status() == 200);
    CHECK(upstream.last().field("Content-Length") == "20003");
    CHECK_FALSE(upstream.last().has("Transfer-Encoding"));
    CHECK(upstream.last().body == body + "end");
    // What goes on as it comes keeps its framing, and so does what has trailers.
    CHECK(client.ask("POST /other" + rest + chunk("begin") + "0\r\n\r\n").status() == 200);
    CHECK_FALSE(upstream.last().has("Content-Length"));
    CHECK(client.ask("POST /held" + rest + chunk("begin") + "0\r\nX-Sum: 5\r\n\r\n").status() ==
          200);
    CHECK_FALSE(upstream.last().has("Content-Length"));
    CHECK(upstream.last().trailers == as_carried({{"X-Sum", "5"}}));
}

TEST_CASE("queue: no byte of the next request gets into the trailers of a body that is held" *
          only_over_http1("no other request follows in its stream")) {
    GatedUpstream upstream;
    const Tidegate tidegate("threads: 1\nupstreams: {api: {servers: [" + upstream.upstream().url() +
                            "], max_connections: 1, queue: {max: 5, wait: 9s}}}\n"
                            "routes: [{name: all, upstream: api, policies: [], buffer: 64KiB}]\n");
    auto first = tidegate.client();
    first.send(get_request("/first"));
    CHECK_SOON(upstream.come() == 1);
    // Its beginning fills the buffer of the head, and its end is in another one.
    const std::string body(20'000, 'a');
    const std::string sum(100, 's');
    auto client = tidegate.client();
    client.send("POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(body) +
                "0\r\nX-Sum: " + sum + "\r\n\r\n");
    CHECK_SOON(queue_length(tidegate) == 1);
    // While it waits, bytes that may be a request follow where the trailers were.
    std::string next;
    while (next.size() < 8'000) next += "z\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(next);
    std::this_thread::sleep_for(milliseconds{100});
    upstream.open();
    CHECK(first.response().status() == 200);
    CHECK(client.response().status() == 200);
    const auto seen = upstream.upstream().seen();
    REQUIRE(seen.size() == 2);
    CHECK(seen[1].target() == "/up");
    CHECK(seen[1].body == body);
    CHECK(seen[1].trailers == FieldList{{"X-Sum", sum}});
    CHECK(client.response().status() == 400);  // `z` is no request
}

TEST_CASE("queue: an idempotent request whose body is held is sent whole again") {
    std::atomic<int> count{0};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (++count == 2) return;  // on an idle connection: may be repeated
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
    check_served(tidegate, "127.0.0.2");
    CHECK_SOON(tidegate.metric(
                   "tidegate_request_faults_total{fault=\"client: slow body, made room\"}") >= 1);
}

TEST_CASE("queue: the end of a drain cuts off a body that is held") {
    const Upstream upstream(ok());
    Tidegate tidegate("timeouts: {drain: 200ms}\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nbegin");
    std::this_thread::sleep_for(milliseconds{100});
    const auto begin = Clock::now();
    CHECK(tidegate.stop() == 0);
    CHECK(Clock::now() - begin < milliseconds{1500} + slack());
    CHECK(client.closed());
    CHECK(upstream.connections() == 0);
}

}  // namespace tidegate::test::request_buffer_test
