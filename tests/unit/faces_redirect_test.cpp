#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "client/http1_connection.hpp"
#include "faces/faces.hpp"
#include "unit/proxy_world.hpp"

namespace tidegate::faces::redirect_test {

using client::Http1Connection;
using proxy::has;

namespace {

// One connection to the listener, and the client's end of it.
struct RedirectWorld {
    explicit RedirectWorld(std::uint16_t port = 443) {
        listen.redirects = true;
        listen.redirect_port = port;
        worker.generation = world.generation;
        context.config = world.generation->config.get();
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
                0);
        far = ends[1];
        auto made = std::make_unique<Http1Connection>(
            context, ConnectionPtr(new Connection(world.readiness, ends[0])),
            client::Arrival{.local_port = 80});
        spawn(world.io.get_executor(), Http1Connection::run(std::move(made)),
              [this](const std::exception_ptr& thrown) { failure = thrown; });
        settle();
    }
    ~RedirectWorld() {
        CHECK_FALSE(failure);
        for (client::ServedConnection& one : connections) one.cut_off();
        settle();
        ::close(far);
    }

    void settle() {
        world.io.restart();
        world.io.poll();
    }
    // The answer that the client gets to these bytes.
    std::string answer_to(std::string_view bytes) {
        REQUIRE(::send(far, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
        settle();
        std::array<char, 65'536> block;
        const ssize_t got = ::recv(far, block.data(), block.size(), 0);
        return {block.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
    }
    bool is_closed() const {
        char byte = 0;
        return ::recv(far, &byte, 1, MSG_PEEK) == 0;
    }
    bool counts(const std::string& line) const { return has(world.figures(), line); }

    proxy::World world{"upstream: http://127.0.0.1:3000\nlimits: [1/h]\n"};
    ask::PasswordPool passwords{
        {.threads = 1}, [](const auto&, std::string_view, std::string_view) { return false; }};
    proxy::WorkerContext worker{
        .executor = world.io.get_executor(),
        .generation = {},
        .thread = 0,
        .metrics = world.metrics,
        .engine = {world.io.get_executor(), world.limiter, passwords, world.ask_metrics},
        .request_ids = {},
        .exchanges = {world.io.get_executor(), world.wheel, world.buffers},
        .date = {}};
    config::Listen listen;
    faces::RedirectFace redirect{worker, listen};
    client::ServedConnectionList connections;
    client::Http2Resources http2{world.io.get_executor(), world.wheel, world.buffers};
    client::ConnectionContext context{.executor = world.io.get_executor(),
                                      .deadlines = world.wheel,
                                      .buffers = world.buffers,
                                      .metrics = world.client_metrics,
                                      .connections = connections,
                                      .http2 = http2,
                                      .serve = &faces::serve_redirect,
                                      .server = &redirect};
    std::exception_ptr failure;  // that ended the connection's coroutine
    int far = -1;
};

const std::string kHost = " HTTP/1.1\r\nHost: api.example\r\n";

}  // namespace

TEST_CASE("redirect: GET and HEAD get 301, other methods 308 so that they stay what they are") {
    RedirectWorld world;
    for (const std::string method : {"GET", "HEAD", "POST", "PUT", "OPTIONS", "get", "BREW"}) {
        CAPTURE(method);
        const std::string answer = world.answer_to(method + " /x?y" + kHost + "\r\n");
        const bool is_moved = method == "GET" || method == "HEAD";
        CHECK(answer.starts_with(is_moved ? "HTTP/1.1 301 Moved Permanently\r\n"
                                          : "HTTP/1.1 308 Permanent Redirect\r\n"));
        CHECK(has(answer, "\r\nLocation: https://api.example/x?y\r\n"));
        CHECK(has(answer, "\r\nContent-Length: 0\r\n"));
        CHECK(has(answer, "\r\nX-Request-Id: "));
        CHECK_FALSE(has(answer, "Content-Type"));
        CHECK_FALSE(has(answer, "Strict-Transport-Security"));
        CHECK_FALSE(has(answer, "Connection: close"));
        CHECK(answer.ends_with("\r\n\r\n"));
    }
    CHECK(has(RedirectWorld(8443).answer_to("GET /" + kHost + "\r\n"),
              "\r\nLocation: https://api.example:8443/\r\n"));
}

TEST_CASE("redirect: no limit counts it, and the metrics distinguish it from forwarded requests") {
    RedirectWorld world;
    for (int i = 0; i < 3; ++i) {
        CHECK(has(world.answer_to("GET /" + kHost + "\r\n"), " 301 "));
    }
    CHECK(world.counts(R"(tidegate_requests_total{route="-",code="301",outcome="redirected",)"
                       R"(face="proxy"} 3)"));
    CHECK_FALSE(world.counts("outcome=\"forwarded\""));
}

TEST_CASE("redirect: the answer does not wait for a body; a short one is discarded") {
    RedirectWorld world;
    const std::string head = "POST /" + kHost + "Content-Length: 5\r\n";
    const std::string answer = world.answer_to(head + "\r\n");
    CHECK(answer.starts_with("HTTP/1.1 308 "));
    CHECK_FALSE(has(answer, "Connection: close"));
    CHECK(has(world.answer_to("helloGET /next" + kHost + "\r\n"),
              "Location: https://api.example/next\r\n"));

    RedirectWorld large;
    CHECK(has(large.answer_to("POST /" + kHost + "Content-Length: 1000000\r\n\r\n"),
              "Connection: close\r\n"));
    RedirectWorld waiting;
    const std::string refused = waiting.answer_to(head + "Expect: 100-continue\r\n\r\n");
    CHECK(refused.starts_with("HTTP/1.1 308 "));
    CHECK(has(refused, "Connection: close\r\n"));
}

TEST_CASE("redirect: a request that names no host, or no place under https, is refused") {
    const auto status_of = [](const std::string& request) {
        RedirectWorld world;
        const std::string answer = world.answer_to(request + "\r\n");
        CHECK_FALSE(has(answer, "Location"));
        CHECK(world.is_closed());
        return answer.substr(0, std::min<std::size_t>(12, answer.size()));
    };
    CHECK(status_of("GET / HTTP/1.1\r\n") == "HTTP/1.1 400");
    CHECK(status_of("GET / HTTP/1.0\r\n") == "HTTP/1.1 400");
    CHECK(status_of("GET / HTTP/1.1\r\nHost:\r\n") == "HTTP/1.1 400");
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n") == "HTTP/1.1 400");
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a@b\r\n") == "HTTP/1.1 400");
    CHECK(status_of("GET / HTTP/1.1\r\nHost: a/b\r\n") == "HTTP/1.1 400");
    CHECK(status_of("GET /\rX: y" + kHost) == "HTTP/1.1 400");
    CHECK(status_of("CONNECT api.example:443" + kHost) == "HTTP/1.1 501");
    CHECK(status_of("TRACE /" + kHost) == "HTTP/1.1 501");
    CHECK(status_of("POST /" + kHost + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n") ==
          "HTTP/1.1 400");
    CHECK(status_of("GET / HTTP/2.0\r\n") == "HTTP/1.1 505");
}

TEST_CASE("redirect: HTTP/1.0 with a host is redirected, and an address stays one") {
    CHECK(has(RedirectWorld().answer_to("GET /x HTTP/1.0\r\nHost: api.example\r\n\r\n"),
              "Location: https://api.example/x\r\n"));
    CHECK(has(RedirectWorld(8443).answer_to("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"),
              "Location: https://[::1]:8443/\r\n"));
    CHECK(has(RedirectWorld().answer_to("OPTIONS *" + kHost + "\r\n"),
              "Location: https://api.example\r\n"));
    CHECK(has(RedirectWorld().answer_to("GET http://other.example/x" + kHost + "\r\n"),
              "Location: https://other.example/x\r\n"));
}

namespace {

// Where a request of `line` and the field Host goes.
std::string location(const std::string& line, const std::string& host, std::uint16_t port = 443) {
    const std::string bytes = line + " HTTP/1.1\r\n\r\n";
    http::RequestHead head;
    REQUIRE(http::parse_request_head(bytes, {}, head) == http::HeadFault::none);
    return https_location(head.authority.empty() ? std::string_view(host) : head.authority, port,
                          head);
}

}  // namespace

TEST_CASE("https_location: the target stays, and the listener's port takes the place of Host's") {
    CHECK(location("GET /", "api.example") == "https://api.example/");
    CHECK(location("GET /a%2Fb//c?d=/e?f&g", "api.example") ==
          "https://api.example/a%2Fb//c?d=/e?f&g");
    CHECK(location("GET /?", "api.example") == "https://api.example/?");
    CHECK(location("GET /", "api.example:8080") == "https://api.example/");
    CHECK(location("GET /", "api.example:") == "https://api.example/");
    CHECK(location("GET /", "api.example:80", 8443) == "https://api.example:8443/");
    CHECK(location("GET /", "api.example.", 8443) == "https://api.example.:8443/");
}

TEST_CASE("https_location: an address stays one, and an IPv6 address keeps its brackets") {
    CHECK(location("GET /", "192.0.2.1:80") == "https://192.0.2.1/");
    CHECK(location("GET /", "[2001:db8::1]") == "https://[2001:db8::1]/");
    CHECK(location("GET /", "[2001:db8::1]:80") == "https://[2001:db8::1]/");
    CHECK(location("GET /", "[2001:db8::1]:80", 8443) == "https://[2001:db8::1]:8443/");
}

TEST_CASE("https_location: of an absolute target the host counts, and not its scheme or port") {
    CHECK(location("GET http://other.example:80/x?y", "api.example") ==
          "https://other.example/x?y");
    CHECK(location("GET https://other.example:444/x", "api.example", 8443) ==
          "https://other.example:8443/x");
    CHECK(location("GET http://other.example", "api.example") == "https://other.example/");
    CHECK(location("GET http://other.example?y", "api.example") == "https://other.example/?y");
}

TEST_CASE("https_location: OPTIONS of the server itself has no path") {
    CHECK(location("OPTIONS *", "api.example:80") == "https://api.example");
    CHECK(location("OPTIONS http://api.example", "other.example", 8443) ==
          "https://api.example:8443");
    CHECK(location("OPTIONS /", "api.example") == "https://api.example/");
}

TEST_CASE("https_location: no target can move the host") {
    CHECK(location("GET //evil.example/", "api.example") == "https://api.example//evil.example/");
    CHECK(location("GET /\\evil.example", "api.example") == "https://api.example/\\evil.example");
    CHECK(location("GET /@evil.example", "api.example") == "https://api.example/@evil.example");
    CHECK(location("GET /%0d%0aSet-Cookie:a=b", "api.example") ==
          "https://api.example/%0d%0aSet-Cookie:a=b");
}

}  // namespace tidegate::faces::redirect_test
