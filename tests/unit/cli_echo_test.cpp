#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/echo.hpp"
#include "net/asio.hpp"

namespace tidegate::cli::echo_test {
namespace {

using ClientSocket = asio::generic::stream_protocol::socket;
using nlohmann::json;

config::Address any_port() {
    config::Address address;
    address.host = "127.0.0.1";
    return address;
}

ClientSocket connect(asio::io_context& io, const config::Address& address) {
    asio::generic::stream_protocol::endpoint endpoint =
        asio::ip::tcp::endpoint(asio::ip::make_address(address.host), address.port);
    ClientSocket socket(io, endpoint.protocol());
    socket.connect(endpoint);
    return socket;
}

void send(ClientSocket& socket, std::string_view bytes) {
    error_code ignored;  // the server may have refused before it read all
    asio::write(socket, asio::buffer(bytes), ignored);
}

std::string read_to_end(ClientSocket& socket) {
    std::string text;
    error_code ec;
    asio::read(socket, asio::dynamic_buffer(text), ec);
    return text;
}

// What the server answers to `bytes` until it closes.
std::string answer_to_bytes(const EchoServer& server, std::string_view bytes) {
    asio::io_context io;
    ClientSocket socket = connect(io, server.address());
    send(socket, bytes);
    return read_to_end(socket);
}

std::string get(const EchoServer& server, const std::string& target) {
    return answer_to_bytes(server,
                           "GET " + target + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
}

std::string body_of(const std::string& answer) {
    const std::size_t end = answer.find("\r\n\r\n");
    return end == std::string::npos ? std::string() : answer.substr(end + 4);
}

bool begins_with_status(const std::string& answer, int status) {
    return answer.starts_with("HTTP/1.1 " + std::to_string(status) + " ");
}

TEST_CASE("echo: the answer is the request") {
    const EchoServer server(any_port());
    const std::string answer = answer_to_bytes(server,
                                               "PUT /a%20b?q=1 HTTP/1.1\r\nHost: a\r\nX-B: 1\r\n"
                                               "x-b: 2\r\nContent-Length: 5\r\n"
                                               "Connection: close\r\n\r\nhello");
    CHECK(begins_with_status(answer, 200));
    const json echo = json::parse(body_of(answer));
    CHECK(echo["method"] == "PUT");
    CHECK(echo["target"] == "/a%20b?q=1");
    CHECK(echo["version"] == "HTTP/1.1");
    CHECK(echo["headers"] == json::parse(R"([["Host","a"],["X-B","1"],["x-b","2"],)"
                                         R"(["Content-Length","5"],["Connection","close"]])"));
    CHECK(echo["body_bytes"] == 5);
    CHECK(echo["body"] == "hello");
}

TEST_CASE("echo: a body is shown up to 4 KiB and only if it is text") {
    const EchoServer server(any_port());
    const auto echo_of = [&](const std::string& body) {
        return json::parse(body_of(answer_to_bytes(
            server, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n\r\n" + body)));
    };
    CHECK(echo_of(std::string(4096, 'b'))["body"] == std::string(4096, 'b'));
    CHECK_FALSE(echo_of(std::string(4097, 'b')).contains("body"));
    CHECK_FALSE(echo_of("\xff").contains("body"));
    CHECK(echo_of(std::string(3'000'000, 'b'))["body_bytes"] == 3'000'000);
}

TEST_CASE("echo: chunked bodies are put together, trailers are not headers") {
    const EchoServer server(any_port());
    const json echo = json::parse(body_of(answer_to_bytes(
        server,
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Late: 1\r\n\r\n")));
    CHECK(echo["body"] == "abcde");
    CHECK(echo["headers"].size() == 3);
}

TEST_CASE("echo: it sends 100 Continue and then waits for the body") {
    const EchoServer server(any_port());
    asio::io_context io;
    ClientSocket socket = connect(io, server.address());
    send(socket,
         "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n"
         "Content-Length: 2\r\n\r\n");
    std::string interim;
    asio::read_until(socket, asio::dynamic_buffer(interim), "\r\n\r\n");
    CHECK(interim == "HTTP/1.1 100 Continue\r\n\r\n");
    send(socket, "ok");
    CHECK(json::parse(body_of(read_to_end(socket)))["body"] == "ok");
}

TEST_CASE("echo: a connection serves request after request, and HTTP/1.0 closes unless asked") {
    const EchoServer server(any_port());
    const std::string both = answer_to_bytes(
        server, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n");
    CHECK(begins_with_status(both, 200));
    CHECK(both.find("HTTP/1.1 200 OK", 1) != std::string::npos);
    CHECK(both.find("Connection: close") != std::string::npos);
}

TEST_CASE("echo: HEAD, 204 and 304 have no body") {
    const EchoServer server(any_port());
    const std::string head =
        answer_to_bytes(server, "HEAD /?bytes=7 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    CHECK(head.find("Content-Length: 7\r\n") != std::string::npos);
    CHECK(body_of(head).empty());
    for (const int status : {204, 304}) {
        const std::string answer = get(server, "/?status=" + std::to_string(status));
        CHECK(begins_with_status(answer, status));
        CHECK(answer.find("Content-Length") == std::string::npos);
        CHECK(body_of(answer).empty());
    }
}

TEST_CASE("echo: the query asks for a status, a size, a delay") {
    const EchoServer server(any_port());
    CHECK(begins_with_status(get(server, "/?status=503"), 503));
    CHECK(body_of(get(server, "/?bytes=1000000")) == std::string(1'000'000, 'x'));
    CHECK(body_of(get(server, "/?bytes=0")).empty());
    const auto before = std::chrono::steady_clock::now();
    CHECK(begins_with_status(get(server, "/?delay=20ms&status=201"), 201));
    CHECK(std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(20));
    const std::string refused = get(server, "/?status=99");
    CHECK(begins_with_status(refused, 400));
    CHECK(json::parse(body_of(refused))["detail"] ==
          "status is `99`, but must be a number from 200 to 599");
}

TEST_CASE("echo: rubbish and bodies without a clear end are 400, the next client is served") {
    const EchoServer server(any_port());
    for (const char* const bytes :
         {"rubbish\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
          "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
        CHECK(begins_with_status(answer_to_bytes(server, bytes), 400));
    }
    CHECK(begins_with_status(get(server, "/healthz"), 200));
}

TEST_CASE("echo: an address in use is named") {
    const EchoServer first(any_port());
    try {
        const EchoServer second(first.address());
        FAIL("listened twice");
    } catch (const std::runtime_error& error) {
        CHECK(std::string(error.what()).find(first.address().to_string()) != std::string::npos);
    }
}

TEST_CASE("echo: a Unix socket left behind is replaced, one in use is not") {
    std::string folder = "/tmp/tidegate-test-XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    config::Address address;
    address.unix_path = folder + "/echo";
    {
        asio::io_context io;
        asio::local::stream_protocol::acceptor left_behind(io, address.unix_path);
    }
    {
        const EchoServer server(address);
        CHECK_THROWS_AS(EchoServer{address}, std::runtime_error);
    }
    CHECK(access(address.unix_path.c_str(), F_OK) != 0);
    rmdir(folder.c_str());
}

TEST_CASE("echo: stopping does not wait for delayed answers") {
    asio::io_context io;
    const auto before = std::chrono::steady_clock::now();
    {
        const EchoServer server(any_port());
        ClientSocket socket = connect(io, server.address());
        send(socket, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
        std::string answer;
        asio::read_until(socket, asio::dynamic_buffer(answer), "\r\n\r\n");
        send(socket, "GET /?delay=60s HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(10));
}

TEST_CASE("echo_options: without options the answer is an echo at once") {
    for (const std::string_view target : {"/", "/?", "*", "/?a&b=c&&status", "/status=404", ""}) {
        const auto wishes = read_echo_options(target);
        REQUIRE(wishes.has_value());
        CHECK(wishes->status == 200);
        CHECK(wishes->delay.count() == 0);
        CHECK_FALSE(wishes->bytes);
    }
}

TEST_CASE("echo_options: options are read up to their bounds") {
    const auto wishes = read_echo_options("/a?x=1&status=599&delay=60s&bytes=1GiB");
    REQUIRE(wishes.has_value());
    CHECK(wishes->status == 599);
    CHECK(wishes->delay == kEchoDelayMax);
    CHECK(wishes->bytes == kEchoBytesMax);
    for (const std::string_view target :
         {"/?status=199", "/?status=600", "/?status=", "/?status=2e2", "/?delay=60001ms",
          "/?delay=-1s", "/?delay=", "/?bytes=1073741825", "/?bytes=unlimited", "/?bytes=x"}) {
        CHECK_FALSE(read_echo_options(target).has_value());
    }
}

}  // namespace
}  // namespace tidegate::cli::echo_test
