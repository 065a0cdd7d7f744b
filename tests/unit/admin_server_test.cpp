#include <unistd.h>

#include <cstdlib>
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

namespace tidegate::admin {
namespace {

using ClientSocket = asio::generic::stream_protocol::socket;
using Endpoint = asio::generic::stream_protocol::endpoint;

// A server on a thread of its own; `client()` is a connection to it.
class Fixture {
  public:
    explicit Fixture(Endpoint endpoint = asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(),
                                                                 0)) {
        Acceptor acceptor(io_.get_executor(), endpoint.protocol());
        acceptor.bind(endpoint);
        acceptor.listen();
        endpoint_ = acceptor.local_endpoint();
        server_ = std::make_unique<AdminServer>(
            io_, std::move(acceptor),
            AdminSources{.metrics = [] { return std::string(100'000, 'm'); },
                         .ready = []() -> Readiness { throw std::runtime_error("no idea"); },
                         .token = [] { return std::string_view("secret"); },
                         .reload = {}});
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
        socket.connect(endpoint_);
        return socket;
    }

  private:
    asio::io_context io_;
    asio::executor_work_guard<Executor> work_{io_.get_executor()};
    asio::io_context client_io_;
    Endpoint endpoint_;
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
                                             "Connection: close\r\n\r\n");
    CHECK(begins_with_status(text, 200));
    const std::size_t second = text.find("HTTP/1.1 200 OK", 1);
    REQUIRE(second != std::string::npos);
    CHECK(text.find("HTTP/1.1 404 Not Found", second) != std::string::npos);
    CHECK(text.find("Content-Type: application/problem+json") != std::string::npos);
}

TEST_CASE("admin: HEAD is told the length and gets no body") {
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

TEST_CASE("admin: a source that fails is a 500 that tells nothing") {
    Fixture fixture;
    const std::string text =
        answer_to_bytes(fixture, "GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    CHECK(begins_with_status(text, 500));
    CHECK(text.find("no idea") == std::string::npos);
}

TEST_CASE("admin: idle connections make room for those that ask") {
    Fixture fixture;
    std::vector<ClientSocket> idle;
    for (int i = 0; i < 100; ++i) idle.push_back(fixture.client());
    CHECK(begins_with_status(answer_to_bytes(fixture,
                                             "GET /healthz HTTP/1.1\r\nHost: a\r\n"
                                             "Connection: close\r\n\r\n"),
                             200));
    CHECK(read_to_end(idle.front()).empty());
    send(idle.back(), "GET /healthz HTTP/1.0\r\n\r\n");
    CHECK(read_to_end(idle.back()).find(" 200 OK") != std::string::npos);
}

TEST_CASE("admin: a peer over a Unix socket is local") {
    std::string folder = "/tmp/tidegate-test-XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    const std::string path = folder + "/admin";
    {
        Fixture fixture{asio::local::stream_protocol::endpoint(path)};
        CHECK(begins_with_status(
            answer_to_bytes(fixture, "GET /api HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            404));
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
}  // namespace tidegate::admin
