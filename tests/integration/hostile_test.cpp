// Hostile clients and servers, or packets that arrive in the worst order: the program is stopped
// while they do, so that it finds everything at once.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::hostile_test {

namespace {

const std::string kSmuggled = get_request("/smuggled");

void pause(int ms) {
    std::this_thread::sleep_for(milliseconds{ms});
}

// While it lives the program is stopped, and sees nothing of what happens.
class Frozen {
  public:
    explicit Frozen(const Tidegate& tidegate) : tidegate_(tidegate) {
        tidegate_.signal(SIGSTOP);
        pause(50);
    }
    ~Frozen() { tidegate_.signal(SIGCONT); }
    Frozen(const Frozen&) = delete;
    Frozen& operator=(const Frozen&) = delete;

  private:
    const Tidegate& tidegate_;
};

// A flag that one thread raises and another waits for.
class Flag {
  public:
    void raise() { raised_ = true; }
    void wait() const {
        const auto deadline = Clock::now() + kPatience;
        while (!raised_ && Clock::now() < deadline) pause(2);
    }

  private:
    std::atomic<bool> raised_{false};
};

bool smuggled(const Upstream& upstream) {
    for (const auto& request : upstream.seen()) {
        if (request.target() == "/smuggled") return true;
    }
    return false;
}

void silent(Conversation& conversation) {
    Message request;
    if (conversation.read_head(request)) conversation.wait_for_end();
}

// Two signals, and the program is gone. The second waits until the first has been noticed: signals
// that are pending together are one.
bool stops_at_once(Tidegate& tidegate) {
    tidegate.signal(SIGTERM);
    const auto deadline = Clock::now() + kPatience;
    while (tidegate.errors().find("draining") == std::string::npos && Clock::now() < deadline) {
        pause(2);
    }
    tidegate.signal(SIGTERM);
    return tidegate.wait(milliseconds{3000}).has_value();
}

}  // namespace

TEST_CASE("hostile: the body of a request that a dead connection swallowed is no request") {
    Flag frozen;
    Flag gone;
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send(ok());
        if (conversation.number() > 1) return;
        frozen.wait();
        conversation.reset();
        gone.raise();
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    CHECK(client.get().status() == 200);
    {
        const Frozen now(tidegate);
        client.send(post_request("/post", kSmuggled));
        pause(50);
        frozen.raise();
        gone.wait();
    }
    // Which of the two depends on whether the end was seen before the request was sent.
    const int status = client.response().status();
    CHECK((status == 502 || status == 200));
    CHECK(client.get("/after").status() == 200);
    CHECK_FALSE(smuggled(upstream));
}

TEST_CASE("hostile: the rest of a body whose server answered early and left is no request") {
    Flag frozen;
    Flag gone;
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        if (conversation.number() > 1) {
            if (conversation.read(request)) conversation.send(ok("next"));
            return;
        }
        if (!conversation.read_head(request)) return;
        frozen.wait();
        conversation.send(ok("early"));
        pause(50);
        conversation.reset();
        gone.raise();
    });
    const Tidegate tidegate("threads: 1\n" + unlimited({upstream.url()}, "request_buffer: off"));
    auto client = tidegate.client();
    const std::string request = post_request("/post", "head" + kSmuggled);
    client.send(request.substr(0, request.size() - kSmuggled.size()));
    pause(100);
    {
        const Frozen now(tidegate);
        client.send(kSmuggled);
        pause(50);
        frozen.raise();
        gone.wait();
    }
    CHECK(client.response().body == "early");
    CHECK(client.rest().find("HTTP/") == std::string::npos);
    CHECK_FALSE(smuggled(upstream));
}

TEST_CASE("hostile: bytes behind an answer that fills the buffer are part of no answer") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        if (conversation.number() > 1) {
            conversation.send(ok("good"));
            return conversation.wait_for_end();
        }
        // Head and body are as long as what is read at once.
        const std::string begin = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Pad: ";
        const std::string end = "\r\n\r\nok";
        conversation.send(begin + std::string(16384 - begin.size() - end.size(), 'p') + end +
                          ok("poisoned"));
        conversation.wait_for_end();
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send(get_request("/1") + get_request("/2"));
    CHECK(client.response().body == "ok");
    CHECK(client.response().body == "good");
}

TEST_CASE("hostile: what a full socket kept back of a chunked upload arrives unharmed") {
    const TemporaryFolder folder;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = (folder.path() / "upstream").string();
    REQUIRE(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const Socket server(fd);
    REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(fd, 8) == 0);
    const Tidegate tidegate("threads: 1\nlimits_on_requests: {header_bytes: 1MiB}\n" +
                            simple("\"unix:" + path + "\""));
    auto client = tidegate.client();
    {
        // The head and the first chunk are there together, and more than a socket takes at once.
        const Frozen now(tidegate);
        std::thread sender([&] {
            client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-Long: " +
                        std::string(1'000'000, 'x') + "\r\n\r\n" + chunk("abcd"));
        });
        pause(300);
        tidegate.signal(SIGCONT);
        sender.join();
    }
    auto connection = server.accept(kPatience);
    REQUIRE(connection);
    pause(100);
    client.send(chunk("efgh") + "0\r\n\r\n");
    MessageReader reader(*connection);
    Message request;
    REQUIRE(reader.request(request));
    CHECK(request.body == "abcdefgh");
    connection->send(ok());
    CHECK(client.response().status() == 200);
}

TEST_CASE("hostile: a reset does not end a body that only the end delimits") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send("HTTP/1.1 200 OK\r\n\r\npart");
        pause(100);
        conversation.reset();
    });
    const Tidegate tidegate(simple(upstream.url()));
    CHECK(tidegate.client().get().broken);
    auto old = tidegate.client();
    old.send("GET / HTTP/1.0\r\n\r\n");
    old.rest();
    CHECK(old.was_reset());
}

TEST_CASE("hostile: a server that only ever says it is not done yet is 502 in the end") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        while (conversation.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")) {
        }
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    client.send(get_request("/"));
    Message answer;
    int interim = 0;
    do {
        answer = client.response();
        ++interim;
    } while (answer.status() < 200 && interim < 1000);
    CHECK(answer.status() == 502);
}

TEST_CASE("hostile: one client that pipelines without end does not keep others waiting") {
    const Upstream upstream(ok());
    Tidegate tidegate("threads: 1\nupstreams: {api: {servers: [" + upstream.url() +
                      "]}}\nroutes: [{name: a, match: {path: /a}, upstream: api, policies: []}]\n");
    std::atomic<bool> over{false};
    Socket hog = Socket::connect(tidegate.port());
    std::string many;
    for (int i = 0; i < 1000; ++i) many += get_request("/nowhere");
    std::thread sender([&] {
        try {
            while (!over && hog.send(many)) {
            }
        } catch (const std::exception&) {
            // The proxy no longer reads the upload.
        }
    });
    std::thread receiver([&] {
        try {
            while (!hog.receive().empty()) {
            }
        } catch (const std::exception&) {
            // Nothing comes any more.
        }
    });
    pause(300);
    auto slowest = milliseconds{0};
    for (int i = 0; i < 10; ++i) {
        const auto begin = Clock::now();
        CHECK(tidegate.get("/a").status() == 200);
        slowest = std::max(slowest, std::chrono::duration_cast<milliseconds>(Clock::now() - begin));
    }
    CHECK(slowest < milliseconds{500} + slack());
    CHECK(stops_at_once(tidegate));
    over = true;
    hog.shutdown();
    sender.join();
    receiver.join();
}

TEST_CASE("hostile: a head that fills its buffer to the last byte does not keep the program busy") {
    const Upstream upstream(silent);
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    const std::string begin = "GET / HTTP/1.1\r\nHost: a\r\nX-Pad: ";
    client.send(begin + std::string(16384 - begin.size() - 4, 'p') + "\r\n\r\n");
    pause(200);
    const auto before = tidegate.processor_time();
    client.send("G");
    pause(1000);
    CHECK(tidegate.processor_time() - before < milliseconds{300});
}

TEST_CASE("hostile: a request behind a head that fills its buffer is answered in its turn") {
    Flag second;
    const Upstream upstream([&](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (request.target() == "/1") second.wait();
            if (!conversation.send(ok(request.target()))) return;
        }
    });
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
    auto client = tidegate.client();
    const std::string begin = "GET /1 HTTP/1.1\r\nHost: a\r\nX-Pad: ";
    client.send(begin + std::string(16384 - begin.size() - 4, 'p') + "\r\n\r\n");
    pause(100);
    client.send(get_request("/2") + get_request("/3"));
    pause(100);
    second.raise();
    for (const std::string path : {"/1", "/2", "/3"}) CHECK(client.response().body == path);
}

TEST_CASE("hostile: a second signal ends whatever is in flight") {
    const Upstream upstream(silent);
    for (const std::string& bytes :
         {std::string("GET / HT"), get_request("/"),
          get_request("/") + "GET /" + std::string(40'000, 'a'),
          std::string("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabcd"),
          std::string("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab"),
          std::string(
              "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")}) {
        CAPTURE(bytes.substr(0, 100));
        Tidegate tidegate("threads: 1\n" + simple(upstream.url()));
        auto client = tidegate.client();
        client.send(bytes);
        pause(100);
        CHECK(stops_at_once(tidegate));
    }
}

TEST_CASE("hostile: idle connections to one server do not keep another from being reached") {
    const Upstream first(ok("first"));
    const Upstream second(ok("second"));
    const Tidegate tidegate("threads: 1\n" + unlimited({first.url(), second.url()},
                                                       "max_connections: 1, idle_connections: 1"));
    auto client = tidegate.client();
    for (int i = 0; i < 6; ++i) CHECK(client.get().status() == 200);
    CHECK(first.requests() == 3);
    CHECK(second.requests() == 3);
}

TEST_CASE("hostile: the upstream never gets two identities to choose from") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "identity: {client_ip: {trusted_proxies: [127.0.0.0/8]},"
        " user: [{header: {name: x-user-id, from: trusted_proxies}}]}\n" +
        simple(upstream.url()));
    tidegate.get("/", "X_User_Id: admin\r\nX-User-Id: alice\r\n");
    CHECK(upstream.last().field("X-User-Id") == "alice");
    CHECK_FALSE(upstream.last().has("X_User_Id"));
    tidegate.get("/", "X-User-Id: admin\r\nX-User-Id: alice\r\n");
    CHECK_FALSE(upstream.last().has("X-User-Id"));
    tidegate.client().ask(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-User-Id: admin\r\n"
        "X-Sum: 1\r\n\r\n");
    CHECK(upstream.last().trailers == FieldList{{"X-Sum", "1"}});
}

TEST_CASE("hostile: the log has the size of the proxy's own answers, too") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "1/h"));
    auto client = tidegate.client();
    client.get();
    const auto refused = client.get();
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(client.response_to_head().status() == 429);
    const auto lines = tidegate.access_log(3);
    CHECK(lines[1].at("bytes_out") == refused.body.size());
    CHECK(lines[1].at("bytes_out") > 0);
    CHECK(lines[2].at("bytes_out") == 0);
}

}  // namespace tidegate::test::hostile_test
