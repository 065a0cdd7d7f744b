// Clients that send or read as slowly as they may, and what that takes from others.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::slow_clients_test {

namespace {

constexpr std::size_t kMebibyte = 1'048'576;
constexpr int kConnections = 16;
const std::string kOther = "127.0.0.2";
const std::string kLong = "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n";
const std::string kChunked = "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";

double faults(const Tidegate& tidegate, const std::string& fault) {
    return tidegate.metric("tidegate_request_faults_total{fault=\"" + fault + "\"}");
}

// Sends `head` and `begin`, then `portion` every 20 ms until an answer is there; how long that
// took.
milliseconds drip(const Tidegate& tidegate, const std::string& head, const std::string& portion,
                  int status, const std::string& begin = "") {
    auto client = tidegate.client();
    const auto sent = Clock::now();
    client.send(head + "\r\n" + begin);
    std::atomic<bool> done{false};
    std::thread sender([&] {
        while (!done && client.send(portion)) std::this_thread::sleep_for(milliseconds{20});
    });
    const auto answer = client.response();
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - sent);
    done = true;
    sender.join();
    CHECK(answer.status() == status);
    return took;
}

// A JSON body that a policy has to read, and the head before it; spaces may follow.
const std::string kJson = R"({"model": "m"})";
std::string json_head(std::size_t spaces) {
    return "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: " +
           std::to_string(kJson.size() + spaces) + "\r\n";
}

// Requests of 127.0.0.1 that bring a byte every 100 ms, within every bound on one request.
class SlowUploads {
  public:
    SlowUploads(const Tidegate& tidegate, int count) {
        for (int i = 0; i < count; ++i) {
            clients_.push_back(tidegate.client());
            clients_.back().send(kLong + "\r\nx");
        }
        sender_ = std::thread([this] {
            while (!done_) {
                for (const RawClient& client : clients_) client.send("x");
                std::this_thread::sleep_for(milliseconds{100});
            }
        });
    }
    ~SlowUploads() {
        done_ = true;
        sender_.join();
    }
    SlowUploads(const SlowUploads&) = delete;
    SlowUploads& operator=(const SlowUploads&) = delete;

  private:
    std::vector<RawClient> clients_;
    std::atomic<bool> done_{false};
    std::thread sender_;
};

// Asks for `/` and reads the answer in pieces of 50 bytes, through a small window.
class Dripping {
  public:
    explicit Dripping(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const int room = 4'096;
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
        const std::string request = get_request("/");
        REQUIRE(::send(fd_, request.data(), request.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(request.size()));
    }
    ~Dripping() { ::close(fd_); }
    Dripping(const Dripping&) = delete;
    Dripping& operator=(const Dripping&) = delete;

    void read_some() const {
        std::array<char, 50> piece;
        ::recv(fd_, piece.data(), piece.size(), MSG_DONTWAIT);
    }

  private:
    int fd_;
};

std::string sixteen(const std::string& url, const std::string& more = "") {
    return "threads: 1\n" + unlimited({url}, "max_connections: 16, queue: off" + more);
}

}  // namespace

TEST_CASE("slow clients: a body that comes too slowly, without ever stopping, is 408") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "limits_on_requests: {body_rate: 10KiB}\ntimeouts: {request_body: 200ms}\n" +
        simple(upstream.url()));
    CHECK(drip(tidegate, kLong, std::string(20, 'x'), 408) < milliseconds{1500});
    CHECK(drip(tidegate, kChunked, chunk(std::string(20, 'x')), 408) < milliseconds{1500});
    // Framing is no content.
    const std::string framing = "1;" + std::string(400, 'e') + "=1\r\nx\r\n";
    CHECK(drip(tidegate, kChunked, framing, 408) < milliseconds{1500});
    CHECK_SOON(faults(tidegate, "client: slow body") == 3);
    CHECK_SOON(tidegate.metric("tidegate_upstream_connections") == 0);
}

TEST_CASE(
    "slow clients: a body that keeps the rate may last for request_body_total, or without end") {
    const Upstream upstream(ok());
    const std::string settings = "limits_on_requests: {body_rate: 1KiB}\n" + simple(upstream.url());
    const Tidegate tidegate("timeouts: {request_body: 200ms, request_body_total: 500ms}\n" +
                            settings);
    CHECK(drip(tidegate, kLong, std::string(100, 'x'), 408) >= milliseconds{450});
    const Tidegate patient("timeouts: {request_body: 200ms, request_body_total: off}\n" + settings);
    std::thread slow([&] {
        CHECK(drip(patient, "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 4000\r\n",
                   std::string(100, 'x'), 200) >= milliseconds{700});
    });
    slow.join();
}

TEST_CASE("slow clients: a body that is read before the decision has the time of any other") {
    const Upstream upstream(ok());
    const std::string settings = "limits_on_requests: {body_rate: 1KiB}\n" +
                                 one_policy(upstream, "{key: \"body:/model\", limits: [100/h]}");
    const Tidegate tidegate("timeouts: {request_body: 300ms}\n" + settings);
    CHECK(drip(tidegate, json_head(4'000), std::string(100, ' '), 200, kJson) >= milliseconds{700});
    CHECK(upstream.last().body.size() == kJson.size() + 4'000);
    // Below the rate, without ever stopping.
    CHECK(drip(tidegate, json_head(4'000), " ", 408, kJson) < milliseconds{3'000});
    auto silent = tidegate.client();
    silent.send(json_head(4'000) + "\r\n" + kJson);
    CHECK(silent.response().status() == 408);
    const Tidegate hasty("timeouts: {request_body: 300ms, request_body_total: 500ms}\n" + settings);
    CHECK(drip(hasty, json_head(1'000'000), std::string(100, ' '), 408, kJson) >=
          milliseconds{450});
    CHECK(upstream.requests() == 1);
    CHECK_SOON(faults(tidegate, "client: slow body") == 2);
    CHECK_SOON(faults(hasty, "client: slow body") == 1);
}

TEST_CASE(
    "slow clients: a body that is read first has `request_body` in all while room is scarce") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 1\ntimeouts: {request_body: 400ms}\n"
        "limits_on_requests: {body_rate: 1KiB, held_bodies: 1MiB}\n"
        "identity: {client_ip: {trusted_proxies: [127.0.0.1]}}\n" +
        one_policy(upstream, "{key: \"body:/model\", limits: [100/h]}"));
    const auto begin_of = [](std::size_t bytes) { return kJson + std::string(bytes, ' '); };
    const auto head_of = [](const std::string& client) {
        return json_head(1'000'000) + "X-Forwarded-For: " + client + "\r\n";
    };
    const auto drip_of = [&](const std::string& client, std::size_t begin) {
        return drip(tidegate, head_of(client), std::string(100, ' '), 408, begin_of(begin));
    };
    SUBCASE("as others take most of it") {
        std::vector<std::thread> others;
        for (int i = 0; i < 9; ++i) {
            others.emplace_back([&, i] { drip_of("192.0.2." + std::to_string(i), 60'000); });
        }
        for (std::thread& other : others) other.join();
        CHECK_SOON(faults(tidegate, "client: slow body") == 9);
    }
    SUBCASE("as the address itself has more than a sixteenth") {
        CHECK(drip_of("192.0.2.1", 100'000) < milliseconds{3'000});
        CHECK_SOON(faults(tidegate, "client: slow body") == 1);
    }
    CHECK(upstream.requests() == 0);
}

TEST_CASE("slow clients: the time before the decision counts for the rest of a body, too") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "limits_on_requests: {body_rate: off}\n"
        "timeouts: {request_body: 3s, request_body_total: 1500ms}\n"
        "upstreams: {api: {servers: [" +
        upstream.url() +
        "]}}\npolicies: {p: {key: \"body:/model\", limits: [100/h], mode: shadow}}\n"
        "routes: [{upstream: api, policies: [p], inspect_body: 1KiB}]\n");
    // About a second passes before the proxy has read 1 KiB and sends the request on.
    CHECK(drip(tidegate, kChunked, chunk(std::string(20, 'x')), 408) < milliseconds{2'200});
    CHECK_SOON(faults(tidegate, "client: slow body") == 1);
}

TEST_CASE(
    "slow clients: time in which the server does not take the body does not count for the client" *
    only_over_http1("windows take time, too")) {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        std::this_thread::sleep_for(milliseconds{800});
        std::size_t bytes = 0;
        while (bytes < 16 * kMebibyte) bytes += conversation.some().size();
        conversation.send(ok());
    });
    const Tidegate tidegate(
        "limits_on_requests: {body_rate: 10MiB}\n"
        "timeouts: {request_body: 400ms, request_body_total: 600ms}\n" +
        simple(upstream.url()));
    auto client = tidegate.client();
    std::thread sender([&] { client.send(post_request("/", std::string(16 * kMebibyte, 'x'))); });
    CHECK(client.response().status() == 200);
    sender.join();
}

TEST_CASE(
    "slow clients: the time of a client that waits for 100 Continue begins when it may send") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read_head(request)) return;
        if (request.target() == "/silent") return conversation.wait_for_end();
        std::this_thread::sleep_for(milliseconds{400});
        conversation.send("HTTP/1.1 100 Continue\r\n\r\n");
        if (conversation.some() == "body") conversation.send(ok("ok", "Connection: close\r\n"));
        conversation.wait_for_end();
    });
    const Tidegate tidegate("timeouts: {request_body: 100ms}\n" +
                            unlimited({upstream.url()}, "timeouts: {response: 700ms}"));
    const std::string rest =
        " HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    auto client = tidegate.client();
    client.send("POST /" + rest);
    CHECK(client.response().status() == 100);
    client.send("body");
    CHECK(client.response().status() == 200);
    // The client may send, and does not.
    auto silent = tidegate.client();
    silent.send("POST /" + rest);
    CHECK(silent.response().status() == 100);
    CHECK(silent.response().status() == 408);
    // Only the server is silent.
    auto waiting = tidegate.client();
    waiting.send("POST /silent" + rest);
    CHECK(waiting.response().status() == 504);
}

TEST_CASE("slow clients: a client that reads a little all the time is cut off like a silent one" *
          only_in_the_clear("the test reads from TCP")) {
    const Upstream upstream(ok(std::string(24 * kMebibyte, 'x')));
    const Tidegate tidegate("timeouts: {client_write: 500ms}\n" + simple(upstream.url()));
    Dripping client(tidegate.port());
    const auto deadline = Clock::now() + milliseconds{5000};
    while (faults(tidegate, "client: not reading") == 0 && Clock::now() < deadline) {
        client.read_some();
        std::this_thread::sleep_for(milliseconds{20});
    }
    CHECK(faults(tidegate, "client: not reading") == 1);
    CHECK_SOON(tidegate.metric("tidegate_upstream_connections") == 0);
}

TEST_CASE("slow clients: a client that reads steadily is served, whatever the kernel holds for it" *
          only_over_http1("windows count bytes, not the kernel")) {
    const Upstream upstream(ok(std::string(24 * kMebibyte, 'x')));
    const Tidegate tidegate("timeouts: {client_write: 2s}\n" + simple(upstream.url()));
    auto client = Socket::connect(tidegate.port());
    client.send(get_request("/"));
    const auto deadline = Clock::now() + milliseconds{5'000};
    while (Clock::now() < deadline) {
        client.receive();  // 64 KiB
        std::this_thread::sleep_for(milliseconds{200});
    }
    CHECK(tidegate.metric_sum("tidegate_request_faults_total") == 0);
    CHECK(tidegate.metric("tidegate_upstream_connections") == 1);
}

TEST_CASE("slow clients: one address keeps no upstream from others by slow uploads") {
    std::atomic<int> together{0};
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            // A quarter is left to the slow ones: the others have all the rest at once.
            if (request.target() == "/together") {
                ++together;
                await_quietly([&] { return together == kConnections * 3 / 4; });
            }
            conversation.send(ok());
        }
    });
    const Tidegate tidegate(sixteen(upstream.url()));
    const SlowUploads slow(tidegate, kConnections);
    CHECK_SOON(upstream.connections() == kConnections);
    std::this_thread::sleep_for(milliseconds{200});
    // An address alone has all connections, and gets an answer that says so when there are no more.
    const auto refused = tidegate.get();
    CHECK(refused.status() == 503);
    CHECK(refused.field("Retry-After") == "1");
    CHECK(faults(tidegate, "client: slow body, made room") == 0);

    for (int i = 0; i < 20; ++i) {
        const auto begin = Clock::now();
        CHECK(tidegate.get("/", "", kOther).status() == 200);
        CHECK(Clock::now() - begin < milliseconds{1000});
        // The place it had stays free for it.
        CHECK(tidegate.client().ask(kLong + "\r\nx").status() == 503);
    }
    CHECK_SOON(faults(tidegate, "client: slow body, made room") == 1);

    std::vector<std::thread> others;
    std::atomic<int> served{0};
    for (int i = 0; i < kConnections * 3 / 4; ++i) {
        others.emplace_back([&] {
            if (tidegate.get("/together", "", kOther).status() == 200) ++served;
        });
    }
    for (std::thread& other : others) other.join();
    CHECK(served == kConnections * 3 / 4);
    CHECK_SOON(faults(tidegate, "client: slow body, made room") == kConnections * 3 / 4);
    CHECK_SOON(tidegate.errors().find("16 of this thread's by 127.0.0.1") != std::string::npos);
}

TEST_CASE("slow clients: one address keeps no upstream from others by answers it does not read") {
    const std::string big = ok(std::string(16 * kMebibyte, 'x'));
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            conversation.send(request.target() == "/big" ? big : ok());
        }
    });
    const Tidegate tidegate(sixteen(upstream.url()));
    std::vector<RawClient> readers;
    for (int i = 0; i < kConnections; ++i) {
        readers.push_back(tidegate.client());
        readers.back().send(get_request("/big"));
    }
    CHECK_SOON(upstream.requests() == kConnections);
    CHECK(tidegate.get().status() == 503);
    // As soon as the proxy waits for a reader, behind what the kernel takes of the answers.
    CHECK_SOON(tidegate.get("/", "", kOther).status() == 200);
    for (int i = 0; i < 5; ++i) CHECK(tidegate.get("/", "", kOther).status() == 200);
    CHECK_SOON(faults(tidegate, "client: slow, made room") == 1);
    // The others have theirs, to the end.
    int whole = 0;
    for (RawClient& reader : readers) {
        const auto answer = reader.response();
        if (!answer.broken && answer.body.size() == 16 * kMebibyte) ++whole;
    }
    CHECK(whole == kConnections - 1);
}

TEST_CASE("slow clients: behind a trusted proxy the address that it names counts") {
    const Upstream upstream(ok());
    const Tidegate tidegate("identity: {client_ip: {trusted_proxies: [127.0.0.1]}}\n" +
                            sixteen(upstream.url()));
    std::vector<RawClient> slow;
    for (int i = 0; i < kConnections; ++i) {
        slow.push_back(tidegate.client());
        slow.back().send(kLong + "X-Forwarded-For: 203.0.113.7\r\n\r\nx");
    }
    CHECK_SOON(upstream.connections() == kConnections);
    std::this_thread::sleep_for(milliseconds{200});
    CHECK(tidegate.get("/", "X-Forwarded-For: 203.0.113.7\r\n").status() == 503);
    CHECK(tidegate.get("/", "X-Forwarded-For: 203.0.113.8\r\n").status() == 200);
    CHECK_SOON(faults(tidegate, "client: slow body, made room") == 1);
}

}  // namespace tidegate::test::slow_clients_test
