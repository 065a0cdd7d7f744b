#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include "admin/server.hpp"

namespace tidegate::admin::server_test {
namespace {

using ClientSocket = asio::generic::stream_protocol::socket;
using Endpoint = asio::generic::stream_protocol::endpoint;

Endpoint any_port() {
    return asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0);
}

// A server on a thread of its own; `client()` is a connection to it.
class Fixture {
  public:
    explicit Fixture(Endpoint endpoint = any_port(), AdminBounds bounds = {},
                     std::size_t metrics_bytes = 100'000)
        : reload_(io_, Timer::time_point::max()) {
        Acceptor acceptor(io_.get_executor(), endpoint.protocol());
        acceptor.bind(endpoint);
        acceptor.listen();
        endpoint_ = acceptor.local_endpoint();
        server_ = std::make_unique<AdminServer>(
            io_, std::move(acceptor),
            AdminSources{.metrics =
                             [this, metrics_bytes] {
                                 ++metrics_made_;
                                 return std::string(metrics_bytes, 'm');
                             },
                         .ready = []() -> ReadinessAnswer { throw std::runtime_error("no idea"); },
                         .token = [] { return std::string_view("secret"); },
                         .reload = [this] { return reload(); }},
            bounds);
        thread_ = std::thread([this] { io_.run(); });
    }
    ~Fixture() {
        stop();
        work_.reset();
        thread_.join();
    }

    void stop() {
        asio::post(io_, [this] { server_->stop(); });
    }
    ClientSocket client() {
        ClientSocket socket(client_io_, endpoint_.protocol());
        // A client must not lose, in its own kernel, bytes that it does not read.
        socket.set_option(asio::socket_base::receive_buffer_size(16 * 1024));
        socket.connect(endpoint_);
        return socket;
    }
    // Reloads take until then.
    void end_reloads() {
        asio::post(io_, [this] { reload_.cancel(); });
    }
    std::size_t reloads() const { return reloads_; }
    std::size_t metrics_made() const { return metrics_made_; }
    // Runs `act` while the server's loop stands still.
    template <class Act>
    void while_it_stands(Act act) {
        const auto stands = std::make_shared<std::promise<void>>();
        const auto go_on = std::make_shared<std::promise<void>>();
        asio::post(io_, [stands, go_on] {
            stands->set_value();
            go_on->get_future().wait();
        });
        stands->get_future().wait();
        act();
        go_on->set_value();
    }

  private:
    Task<ReloadReport> reload() {
        ++reloads_;
        co_await reload_.async_wait(as_values);
        co_return ReloadReport{.ok = true, .generation = 2, .errors = {}, .warnings = {}};
    }

    asio::io_context io_{1};
    asio::executor_work_guard<Executor> work_{io_.get_executor()};
    asio::io_context client_io_;
    Endpoint endpoint_;
    Timer reload_;
    std::atomic<std::size_t> reloads_{0};
    std::atomic<std::size_t> metrics_made_{0};
    std::unique_ptr<AdminServer> server_;
    std::thread thread_;
};

void send(ClientSocket& socket, std::string_view bytes) {
    error_code ignored;  // the server may have refused before it read all
    asio::write(socket, asio::buffer(bytes), ignored);
}

// All until the server closes.
std::string read_to_end(ClientSocket& socket) {
    std::string text;
    error_code ec;
    asio::read(socket, asio::dynamic_buffer(text), ec);
    return text;
}

// What the server answers to `bytes` until it closes.
std::string answer_to_bytes(Fixture& fixture, std::string_view bytes) {
    ClientSocket socket = fixture.client();
    send(socket, bytes);
    return read_to_end(socket);
}

bool begins_with_status(const std::string& answer, int status) {
    return answer.starts_with("HTTP/1.1 " + std::to_string(status) + " ");
}

TEST_CASE("admin: a connection serves one request after the other, also when sent together") {
    Fixture fixture;
    const std::string text = answer_to_bytes(fixture,
                                             "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
                                             "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
                                             "GET /nothing HTTP/1.1\r\nHost: a\r\n"
                                             "Authorization: Bearer secret\r\n"
                                             "Connection: close\r\n\r\n");
    CHECK(begins_with_status(text, 200));
    const std::size_t second = text.find("HTTP/1.1 200 OK", 1);
    REQUIRE(second != std::string::npos);
    CHECK(text.find("HTTP/1.1 404 Not Found", second) != std::string::npos);
    CHECK(text.find("Content-Type: application/problem+json") != std::string::npos);
}

TEST_CASE("admin: HEAD gets the length and no body") {
    Fixture fixture;
    const std::string text =
        answer_to_bytes(fixture, "HEAD /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    CHECK(begins_with_status(text, 200));
    CHECK(text.find("Content-Length: 100000\r\n") != std::string::npos);
    CHECK(text.ends_with("\r\n\r\n"));
    CHECK(text.size() < 1'000);
}

TEST_CASE("admin: a body that is larger than socket buffers arrives whole") {
    Fixture fixture;
    const std::string text =
        answer_to_bytes(fixture, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    CHECK(text.ends_with("\r\n\r\n" + std::string(100'000, 'm')));
}

TEST_CASE("admin: rubbish, long heads and bodies are refused and the connection closed") {
    Fixture fixture;
    CHECK(begins_with_status(answer_to_bytes(fixture, "\x16\x03\x01 rubbish\r\n\r\n"), 400));
    CHECK(begins_with_status(answer_to_bytes(fixture, "GET /healthz HTTP/1.1\r\nno colon\r\n\r\n"),
                             400));
    CHECK(begins_with_status(answer_to_bytes(fixture, "GET /healthz HTTP/1.1\r\nX: " +
                                                          std::string(9'000, 'x') + "\r\n\r\n"),
                             431));
    CHECK(begins_with_status(
        answer_to_bytes(fixture, "GET /healthz HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"), 413));
    CHECK(begins_with_status(
        answer_to_bytes(fixture,
                        "GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        413));
    CHECK(begins_with_status(
        answer_to_bytes(fixture, "GET /healthz HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"), 413));
    // And the next one is served.
    CHECK(begins_with_status(answer_to_bytes(fixture,
                                             "GET /healthz HTTP/1.1\r\nHost: a\r\n"
                                             "Connection: close\r\n\r\n"),
                             200));
}

TEST_CASE("admin: a source that fails is a 500 without details") {
    Fixture fixture;
    const std::string text =
        answer_to_bytes(fixture, "GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    CHECK(begins_with_status(text, 500));
    CHECK(text.find("no idea") == std::string::npos);
}

constexpr std::string_view kHealth =
    "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
constexpr std::string_view kMetrics =
    "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
constexpr std::string_view kReload =
    "POST /reload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"
    "Connection: close\r\n\r\n";

// Whether the server sends something, or closes, within this time.
bool has_news(ClientSocket& socket, std::chrono::milliseconds within) {
    pollfd wanted{socket.native_handle(), POLLIN, 0};
    return poll(&wanted, 1, static_cast<int>(within.count())) > 0;
}

template <class Holds>
void await(Holds holds) {
    while (!holds()) std::this_thread::yield();
}

TEST_CASE("admin: a new connection closes the one that waits longest for its peer") {
    for (const std::string_view begin :
         {std::string_view(), std::string_view("GET /healthz HTTP/1.1\r\nHost: a\r\n"),
          std::string_view("POST /reload HTTP/1.1\r\nContent-Length: 9\r\n\r\n"), kMetrics}) {
        CAPTURE(begin);
        Fixture fixture(any_port(), {}, 1 << 20);
        std::vector<ClientSocket> rude;
        for (int i = 0; i < 100; ++i) {
            rude.push_back(fixture.client());
            send(rude.back(), begin);
        }
        CHECK(begins_with_status(answer_to_bytes(fixture, kHealth), 200));
        // The first had to go; the last did not.
        CHECK(read_to_end(rude.front()).size() < (1 << 20));
        if (begin == kMetrics) {
            CHECK(read_to_end(rude.back()).ends_with(std::string(1 << 20, 'm')));
        } else if (begin.find("Content-Length") == std::string_view::npos) {
            send(rude.back(), begin.empty() ? kHealth : "Connection: close\r\n\r\n");
            CHECK(begins_with_status(read_to_end(rude.back()), 200));
        }
    }
}

TEST_CASE(
    "admin: a request that is worked on keeps its place; where all are, the next is refused") {
    Fixture fixture(any_port(), {.connections = 3});
    ClientSocket first = fixture.client();
    ClientSocket second = fixture.client();
    send(first, kReload);
    send(second, kReload);
    await([&] { return fixture.reloads() == 2; });
    for (int i = 0; i < 20; ++i) {
        CHECK(begins_with_status(answer_to_bytes(fixture, kHealth), 200));
    }
    ClientSocket third = fixture.client();
    send(third, kReload);
    await([&] { return fixture.reloads() == 3; });
    CHECK(answer_to_bytes(fixture, kHealth).empty());
    fixture.end_reloads();
    for (ClientSocket* socket : {&first, &second, &third}) {
        CHECK(begins_with_status(read_to_end(*socket), 200));
    }
}

TEST_CASE(
    "admin: reloads at work are bounded, and a crowd of them keeps no probe from its answer") {
    Fixture fixture;
    std::vector<ClientSocket> workers;
    for (int i = 0; i < 16; ++i) {
        workers.push_back(fixture.client());
        send(workers.back(), kReload);
    }
    await([&] { return fixture.reloads() == 16; });
    for (int i = 0; i < 100; ++i) {
        ClientSocket next = fixture.client();
        send(next, kReload);
        REQUIRE(has_news(next, std::chrono::seconds(10)));
        const std::string answer = read_to_end(next);
        CHECK(begins_with_status(answer, 503));
        CHECK(answer.find("\r\nRetry-After: 1\r\n") != std::string::npos);
        CHECK(answer.find("application/problem+json") != std::string::npos);
        CHECK(answer.find("try again") != std::string::npos);
    }
    // Those that were refused and stay connected make room, too.
    std::vector<ClientSocket> refused;
    for (int i = 0; i < 100; ++i) {
        refused.push_back(fixture.client());
        send(refused.back(),
             "POST /reload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n");
    }
    CHECK(begins_with_status(answer_to_bytes(fixture, kHealth), 200));
    CHECK(begins_with_status(answer_to_bytes(fixture, kMetrics), 200));
    CHECK(fixture.reloads() == 16);
    fixture.end_reloads();
    for (ClientSocket& worker : workers) CHECK(begins_with_status(read_to_end(worker), 200));
    // And then there is room for work.
    ClientSocket last = fixture.client();
    send(last, kReload);
    await([&] { return fixture.reloads() == 17; });
    fixture.end_reloads();
    CHECK(begins_with_status(read_to_end(last), 200));
}

TEST_CASE("admin: a request has one deadline, however slowly its bytes come") {
    Fixture fixture(any_port(), {.patience = std::chrono::milliseconds(100)});
    ClientSocket socket = fixture.client();
    send(socket, "GET /healthz HTTP/1.1\r\nX: ");
    int drops = 0;
    while (!has_news(socket, std::chrono::milliseconds(10)) && drops < 1'000) {
        send(socket, "x");
        ++drops;
    }
    CHECK(drops < 1'000);
    CHECK(read_to_end(socket).empty());
}

TEST_CASE("admin: an answer has one deadline, however slowly its reader takes it") {
    Fixture fixture(any_port(), {.patience = std::chrono::milliseconds(100)}, 64 << 20);
    ClientSocket socket = fixture.client();
    send(socket, kMetrics);
    char sip[1024];
    error_code ec;
    std::size_t read = 0;
    pollfd nothing{-1, 0, 0};
    while (!ec && read < (16 << 20)) {
        read += socket.read_some(asio::buffer(sip), ec);
        poll(&nothing, 1, 1);
    }
    CHECK(ec);
}

TEST_CASE("admin: answers that are not taken have a bound, and the oldest of them goes first") {
    constexpr std::size_t kText = 4 << 20;
    Fixture fixture(any_port(), {.answer_bytes = 2 * kText}, kText);
    std::vector<ClientSocket> readers;
    for (std::size_t i = 0; i < 5; ++i) {
        readers.push_back(fixture.client());
        send(readers.back(), kMetrics);
        CHECK(has_news(readers.back(), std::chrono::seconds(10)));
    }
    // The newest beside two others.
    for (std::size_t i = 0; i < 5; ++i) {
        CHECK((read_to_end(readers[i]).size() > kText) == (i >= 2));
    }
}

TEST_CASE("admin: requests for metrics at the same time get one text") {
    Fixture fixture;
    std::vector<ClientSocket> readers;
    for (int i = 0; i < 20; ++i) {
        readers.push_back(fixture.client());
        send(readers.back(), "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK(has_news(readers.back(), std::chrono::seconds(10)));
    }
    fixture.while_it_stands([&] {
        for (ClientSocket& reader : readers) send(reader, kMetrics);
    });
    for (ClientSocket& reader : readers)
        CHECK(read_to_end(reader).ends_with(std::string(100'000, 'm')));
    CHECK(fixture.metrics_made() <= 2);
    // Scrapes at the same time share one text.
    const std::size_t before = fixture.metrics_made();
    readers.clear();
    fixture.while_it_stands([&] {
        for (int i = 0; i < 20; ++i) {
            readers.push_back(fixture.client());
            send(readers.back(), kMetrics);
        }
    });
    for (ClientSocket& reader : readers) CHECK(begins_with_status(read_to_end(reader), 200));
    CHECK(fixture.metrics_made() <= before + 3);
    // And a later scrape gets a new one.
    const std::size_t made = fixture.metrics_made();
    CHECK(begins_with_status(answer_to_bytes(fixture, kMetrics), 200));
    CHECK(fixture.metrics_made() == made + 1);
}

TEST_CASE("admin: a token that is sent twice is refused") {
    Fixture fixture;
    const std::string twice =
        "GET /api HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n"
        "Authorization: Bearer secret\r\nConnection: close\r\n\r\n";
    CHECK(begins_with_status(answer_to_bytes(fixture, twice), 401));
}

TEST_CASE("admin: a peer over a Unix socket needs the token, too, and makes room, too") {
    std::string folder = "/tmp/tidegate-test-XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    const std::string path = folder + "/admin";
    {
        Fixture fixture{asio::local::stream_protocol::endpoint(path)};
        const std::string request = "GET /api HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
        CHECK(begins_with_status(answer_to_bytes(fixture, request + "\r\n"), 401));
        CHECK(begins_with_status(
            answer_to_bytes(fixture, request + "Authorization: Bearer secret\r\n\r\n"), 404));
        std::vector<ClientSocket> idle;
        for (int i = 0; i < 100; ++i) idle.push_back(fixture.client());
        CHECK(begins_with_status(answer_to_bytes(fixture, kHealth), 200));
    }
    unlink(path.c_str());
    rmdir(folder.c_str());
}

TEST_CASE("admin: stopping closes the listener and the connections") {
    Fixture fixture;
    ClientSocket socket = fixture.client();
    send(socket, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    std::string answer;
    asio::read_until(socket, asio::dynamic_buffer(answer), "}\n");
    fixture.stop();
    CHECK(read_to_end(socket).empty());
    CHECK_THROWS(fixture.client());
}

}  // namespace
}  // namespace tidegate::admin::server_test
