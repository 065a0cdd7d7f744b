// What happens to clients when the program stops.
#include <signal.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::drain_test {

namespace {

void until(const auto& holds) {
    const auto deadline = Clock::now() + kPatience;
    while (!holds() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds{2});
    CHECK(holds());
}

bool accepts(const Tidegate& tidegate) {
    try {
        return Socket::try_connect(tidegate.port()).has_value();
    } catch (const std::exception&) {
        return true;  // reset as the listener closed: the next is refused
    }
}

// Sends TERM, and waits until the drain has begun.
void begin_drain(const Tidegate& tidegate, int signal = SIGTERM) {
    tidegate.signal(signal);
    until([&] { return !accepts(tidegate); });
}

// Answers with a head and half a body, and with the rest when the test says so.
class Halfway {
  public:
    static constexpr std::string_view kHalf = "the first half, ";

    void operator()(Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send("HTTP/1.1 200 OK\r\nContent-Length: 31\r\n\r\n" + std::string(kHalf));
        begun = true;
        while (!go_on && Clock::now() < deadline_) std::this_thread::sleep_for(milliseconds{2});
        if (go_on) conversation.send("the second half");
        conversation.wait_for_end();
    }

    std::atomic<bool> begun{false};
    std::atomic<bool> go_on{false};

  private:
    Clock::time_point deadline_ = Clock::now() + kPatience;
};

void silent(Conversation& conversation) {
    Message request;
    if (conversation.read(request)) conversation.wait_for_end();
}

bool says_close(const Message& answer) {
    return same_name(answer.field("Connection"), "close");
}

}  // namespace

TEST_CASE("drain: a request whose head has half arrived is served, as the last of its connection") {
    const Upstream upstream(ok());
    Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send("GET / HTTP/1.1\r\nHo");
    std::this_thread::sleep_for(milliseconds{50});
    begin_drain(tidegate);
    client.send("st: a\r\n\r\n");
    const auto answer = client.response();
    CHECK(answer.status() == 200);
    CHECK(says_close(answer));
    CHECK(client.closed());
    CHECK(tidegate.wait() == 0);
}

TEST_CASE("drain: the proxy's own answers close the connection, too") {
    const Upstream upstream(ok());
    Tidegate tidegate(simple(upstream.url(), "1/h"));
    CHECK(tidegate.get().status() == 200);
    auto client = tidegate.client();
    client.send("GET / HTTP/1.1\r\nHo");
    std::this_thread::sleep_for(milliseconds{50});
    begin_drain(tidegate);
    client.send("st: a\r\n\r\n");
    const auto answer = client.response();
    CHECK(answer.status() == 429);
    CHECK(says_close(answer));
    CHECK(client.closed());
    CHECK(tidegate.wait() == 0);
}

TEST_CASE("drain: an upload in flight is forwarded to its end") {
    const Upstream upstream(ok("taken"));
    Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nfour");
    std::this_thread::sleep_for(milliseconds{50});
    begin_drain(tidegate);
    std::this_thread::sleep_for(milliseconds{100});
    client.send("more");
    const auto answer = client.response();
    CHECK(answer.body == "taken");
    CHECK(says_close(answer));
    CHECK(upstream.last().body == "fourmore");
    CHECK(tidegate.wait() == 0);
}

TEST_CASE("drain: an answer that has begun comes whole, and then the connection closes") {
    Halfway halfway;
    const Upstream upstream(std::ref(halfway));
    Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    client.send(get_request("/"));
    until([&] { return halfway.begun.load(); });
    std::this_thread::sleep_for(milliseconds{50});
    begin_drain(tidegate);
    halfway.go_on = true;
    const auto answer = client.response();
    CHECK_FALSE(answer.broken);
    CHECK(answer.body == "the first half, the second half");
    CHECK(client.closed());
    CHECK(tidegate.wait() == 0);
}

TEST_CASE("drain: a client that was connected before is answered, though never accepted yet" *
          only_in_the_clear("a client that has shaken hands was accepted")) {
    const Upstream upstream(ok());
    Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    std::vector<RawClient> clients;
    for (int i = 0; i < 100; ++i) clients.push_back(tidegate.client());
    tidegate.signal(SIGTERM);
    for (auto& client : clients) client.send(get_request("/"));
    for (auto& client : clients) {
        const auto answer = client.response();
        CHECK(answer.status() == 200);
    }
    CHECK(tidegate.wait() == 0);
    CHECK(tidegate.access_log(100).size() == 100);
}

TEST_CASE("drain: silent clients do not delay it") {
    const Upstream upstream(ok());
    Tidegate tidegate("timeouts: {client_idle: 1h}\n" + simple(upstream.url()));
    auto fresh = tidegate.client();
    auto used = tidegate.client();
    CHECK(used.get().status() == 200);
    const auto begin = Clock::now();
    tidegate.signal(SIGTERM);
    CHECK(used.closed());
    CHECK(fresh.closed());
    CHECK(tidegate.wait() == 0);
    CHECK(Clock::now() - begin < milliseconds{1500} + slack());
}

TEST_CASE("drain: at the deadline the rest is cut off visibly, with the error `stopped`") {
    Halfway halfway;
    const Upstream upstream(std::ref(halfway));
    Tidegate tidegate("timeouts: {drain: 400ms}\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send(get_request("/"));
    until([&] { return halfway.begun.load(); });
    const auto begin = Clock::now();
    tidegate.signal(SIGTERM);
    CHECK(client.response().broken);
    CHECK(client.was_reset());
    CHECK(tidegate.wait() == 0);
    const auto took = Clock::now() - begin;
    CHECK(took >= milliseconds{380});
    CHECK(took < milliseconds{1000} + slack());
    const auto line = tidegate.access_log(1).back();
    CHECK(line.at("error") == "stopped");
    CHECK(line.at("outcome") == "aborted");
    CHECK_SOON(tidegate.errors().find("timeouts.drain has ended with requests in flight") !=
               std::string::npos);
    halfway.go_on = true;
}

TEST_CASE("drain: a request that ends before the deadline does not wait for it") {
    const Upstream upstream(ok());
    Tidegate tidegate("timeouts: {drain: 1h}\n" + simple(upstream.url()));
    CHECK(tidegate.get().status() == 200);
    const auto begin = Clock::now();
    CHECK(tidegate.stop() == 0);
    CHECK(Clock::now() - begin < milliseconds{1500} + slack());
}

TEST_CASE("drain: the second signal cuts at once, whichever the two are") {
    for (const auto& [first, second] :
         {std::pair{SIGTERM, SIGTERM}, std::pair{SIGTERM, SIGINT}, std::pair{SIGINT, SIGTERM}}) {
        const Upstream upstream(silent);
        Tidegate tidegate("timeouts: {drain: 1h}\n" + simple(upstream.url()));
        auto client = tidegate.client();
        client.send(get_request("/"));
        until([&] { return upstream.requests() == 1; });
        begin_drain(tidegate, first);
        CHECK(tidegate.running());
        const auto begin = Clock::now();
        tidegate.signal(second);
        CHECK(client.closed());
        CHECK(client.was_reset());
        CHECK(tidegate.wait() == 0);
        CHECK(Clock::now() - begin < milliseconds{500} + slack());
        CHECK(tidegate.access_log(1).back().at("error") == "stopped");
    }
}

TEST_CASE("drain: the second signal does not wait for a connection that is being made") {
    // One accepts connections and does not shake hands; the queue of the other is full.
    const Upstream mute([](Conversation& conversation) { conversation.wait_for_end(); });
    const Socket full = Socket::listen();
    constexpr int kQueued = 129;
    std::vector<Socket> queued;
    for (int i = 0; i < kQueued; ++i) queued.push_back(Socket::connect(full.port()));
    for (const std::string& url : {"https://127.0.0.1:" + std::to_string(mute.port()),
                                   "http://127.0.0.1:" + std::to_string(full.port())}) {
        CAPTURE(url);
        Tidegate tidegate("timeouts: {drain: 1h}\n" +
                          unlimited({url}, "timeouts: {connect: 1min}"));
        auto client = tidegate.client();
        client.send(get_request("/"));
        until([&] { return tidegate.metric_sum("tidegate_upstream_connections") == 1; });
        begin_drain(tidegate);
        const auto begin = Clock::now();
        tidegate.signal(SIGTERM);
        CHECK(client.closed());
        CHECK(tidegate.wait() == 0);
        CHECK(Clock::now() - begin < milliseconds{500} + slack());
    }
}

TEST_CASE("drain: the second signal ends the delay before it, too") {
    const Upstream upstream(silent);
    Tidegate tidegate("timeouts: {shutdown_delay: 1h, drain: 1h}\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send(get_request("/"));
    until([&] { return upstream.requests() == 1; });
    tidegate.signal(SIGTERM);
    until([&] { return tidegate.admin("/readyz").value().status() == 503; });
    CHECK(accepts(tidegate));
    const auto begin = Clock::now();
    tidegate.signal(SIGTERM);
    CHECK(client.closed());
    CHECK(tidegate.wait() == 0);
    CHECK(Clock::now() - begin < milliseconds{1500} + slack());
}

TEST_CASE("drain: a client that keeps its last connection open does not delay it for long") {
    const Upstream upstream(ok());
    Tidegate tidegate("timeouts: {drain: 1h}\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send("GET / HTTP/1.1\r\nHo");
    std::this_thread::sleep_for(milliseconds{50});
    begin_drain(tidegate);
    client.send("st: a\r\n\r\n");
    CHECK(client.response().status() == 200);
    CHECK(tidegate.wait(milliseconds{4000} + slack()) == 0);
}

}  // namespace tidegate::test::drain_test
