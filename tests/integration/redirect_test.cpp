// Listeners with `redirect: https`.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "free_port.hpp"
#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::redirect_test {

namespace {

const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

// A Tidegate whose second listener redirects, to port 443 until a reload says otherwise.
class Redirecting {
  public:
    explicit Redirecting(const std::string& more = "")
        : more_(more), tidegate_(configuration(443)) {}

    RawClient client() const { return RawClient(port_); }
    Message get(const std::string& path = "/", const std::string& more_fields = "") const {
        return http_get(port_, path, more_fields);
    }
    std::string configuration(int port_of_https) const {
        return "listen:\n  - \"127.0.0.1:" + std::to_string(proxy_port_) +
               "\"\n  - {address: \"127.0.0.1:" + std::to_string(port_) +
               "\", redirect: {to: https, port: " + std::to_string(port_of_https) + "}}\n" +
               simple(upstream_.url(), "2/h") + more_;
    }
    const Tidegate& tidegate() const { return tidegate_; }
    const Upstream& upstream() const { return upstream_; }
    std::uint16_t proxy_port() const { return proxy_port_; }

  private:
    std::string more_;
    Upstream upstream_{kOk};
    std::uint16_t proxy_port_ = free_port();
    std::uint16_t port_ = free_port();
    Tidegate tidegate_;
};

}  // namespace

TEST_CASE("redirect: nothing is forwarded or counted, and each request is logged") {
    const Redirecting world;
    for (int i = 0; i < 5; ++i) {
        const Message moved = world.get("/a%20b?c=d&e");
        CHECK(moved.status() == 301);
        CHECK(moved.field("Location").ends_with("/a%20b?c=d&e"));
        CHECK(moved.field("Location").starts_with("https://"));
        CHECK_FALSE(moved.has("RateLimit"));
        CHECK_FALSE(moved.has("Strict-Transport-Security"));
    }
    CHECK(world.upstream().requests() == 0);
    CHECK(http_get(world.proxy_port()).status() == 200);
    CHECK(http_get(world.proxy_port()).status() == 200);
    CHECK(http_get(world.proxy_port()).status() == 429);

    int redirected = 0;
    for (const auto& line : world.tidegate().access_log(8)) {
        if (line.at("outcome") != "redirected") continue;
        ++redirected;
        CHECK(line.at("status") == 301);
        CHECK(line.at("path") == "/a%20b");
        CHECK(line.at("client") == "127.0.0.1");
        CHECK(line.at("verdict") == "");
    }
    CHECK(redirected == 5);
    CHECK(world.tidegate().metric_sum("tidegate_requests_total", "outcome=\"redirected\"") == 5);
}

TEST_CASE("redirect: one connection takes redirect after redirect, with bodies and without") {
    const Redirecting world;
    RawClient client = world.client();
    const std::string host = " HTTP/1.1\r\nHost: api.example:8080\r\n";
    const Message posted = client.ask("POST /x" + host + "Content-Length: 5\r\n\r\nhello");
    CHECK(posted.status() == 308);
    CHECK(posted.field("Location") == "https://api.example/x");
    REQUIRE(client.send("HEAD /y" + host + "\r\n"));
    const Message head = client.response_to_head();
    CHECK(head.status() == 301);
    CHECK(head.field("Location") == "https://api.example/y");
    CHECK(client.ask("OPTIONS *" + host + "\r\n").field("Location") == "https://api.example");
    // A body that is longer than what is read over, or may be: the answer comes before it, and is
    // the connection's last.
    for (const std::string body : {"Content-Length: 100000000", "Transfer-Encoding: chunked"}) {
        CAPTURE(body);
        RawClient large = world.client();
        const Message moved = large.ask("PUT /z" + host + body + "\r\n\r\n");
        CHECK(moved.status() == 308);
        CHECK(moved.field("Connection") == "close");
        CHECK(large.closed());
    }
}

TEST_CASE("redirect: a request without a host or with a bad one has nowhere to go") {
    const Redirecting world;
    for (const std::string request :
         {"GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n Z: z\r\n\r\n"}) {
        CAPTURE(request);
        RawClient client = world.client();
        const Message refused = client.ask(request);
        CHECK(refused.status() == 400);
        CHECK_FALSE(refused.has("Location"));
        CHECK(client.closed());
    }
    CHECK(world.client().ask("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n").status() == 501);
    CHECK_SOON(world.tidegate().metric_sum("tidegate_requests_total", "outcome=\"rejected\"") == 6);
}

TEST_CASE("redirect: a reload changes the port, also for connections that are open") {
    const Redirecting world;
    RawClient client = world.client();
    const std::string request = "GET /x HTTP/1.1\r\nHost: api.example\r\n\r\n";
    CHECK(client.ask(request).field("Location") == "https://api.example/x");
    world.tidegate().write_configuration(world.configuration(8443));
    REQUIRE(world.tidegate().reload().status() == 200);
    CHECK(client.ask(request).field("Location") == "https://api.example:8443/x");
}

TEST_CASE("redirect: pages of other origins may read where they are sent") {
    const Redirecting world("response: {cors: {origins: [\"https://app.example\"]}}\n");
    const Message moved = world.get("/", "Origin: https://app.example\r\n");
    CHECK(moved.status() == 301);
    CHECK(moved.field("Access-Control-Allow-Origin") == "https://app.example");
}

}  // namespace tidegate::test::redirect_test
