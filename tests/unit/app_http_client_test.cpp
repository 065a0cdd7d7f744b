#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "app/http_client.hpp"
#include "config/address.hpp"
#include "unit/app_tls_world.hpp"

namespace tidegate::app::http_client_test {

namespace {

using namespace std::chrono_literals;
using test::tls_answer;
using test::TlsServer;

// The result: the body, or `! ` and the reason.
std::string fetch(const std::string& url, HttpsBounds bounds = {}) {
    const auto parsed = config::parse_key_url(url);
    REQUIRE(parsed.has_value());
    asio::io_context io{1};
    std::optional<std::string> outcome;
    spawn(io.get_executor(), https_get(io.get_executor(), *parsed, bounds, "application/json"),
          [&](const std::exception_ptr& failed, Result<HttpsBody, std::string> answer) {
              CHECK_FALSE(failed);
              outcome = answer ? answer->text : "! " + answer.error();
          });
    run_until(io, [&] { return outcome.has_value(); });
    return *outcome;
}

bool mentions(const std::string& text, const std::string& part) {
    return text.starts_with("! ") && text.find(part) != std::string::npos;
}

struct World {
    TrustedAuthority trusted;
    std::optional<TlsServer> server;

    // A server that answers so.
    TlsServer& serve(const std::string& answer) {
        return server.emplace(trusted.authority.issue(), answer);
    }
    TlsServer& serve(TlsServer::Handler handler) {
        return server.emplace(trusted.authority.issue(), std::move(handler));
    }
    // A server with that certificate.
    TlsServer& prove(test::Certificate certificate) {
        return server.emplace(std::move(certificate), tls_answer("secret"));
    }
};

TEST_CASE("https_get: a server that wants a client certificate is reported as such, every time") {
    World world;
    const test::Authority clients;
    for (const int newest : {0, TLS1_2_VERSION}) {
        CAPTURE(newest);
        auto& server = world.server.emplace(
            world.trusted.authority.issue(), [](TlsServer::Conversation&) {}, newest, &clients);
        for (int i = 0; i < 20; ++i) CHECK(mentions(fetch(server.url()), "client certificate"));
    }
}

TEST_CASE("https_get: the body of a 200 is returned, and the request is one of HTTP/1.1") {
    World world;
    auto& server = world.serve(tls_answer("{}"));
    CHECK(fetch(server.url("/a/keys?x=%20y")) == "{}");
    REQUIRE(server.seen().size() == 1);
    const std::string head = server.seen()[0];
    CHECK(head.starts_with("GET /a/keys?x=%20y HTTP/1.1\r\n"));
    CHECK(head.find("Host: localhost:" + std::to_string(server.port()) + "\r\n") !=
          std::string::npos);
    CHECK(head.find("Accept: application/json\r\n") != std::string::npos);
    CHECK(head.find("Connection: close\r\n") != std::string::npos);
    CHECK(server.names_asked_for() == std::vector<std::string>{"localhost"});
}

TEST_CASE(
    "https_get: an address is held to the address in the certificate, and not asked by name") {
    World world;
    auto& server = world.serve(tls_answer("{}"));
    CHECK(fetch(server.url("/", "127.0.0.1")) == "{}");
    CHECK(server.names_asked_for() == std::vector<std::string>{""});
    auto& other = world.prove(world.trusted.authority.issue("DNS:localhost,DNS:127.0.0.1"));
    CHECK(mentions(fetch(other.url("/", "127.0.0.1")), "certificate is not accepted"));
}

TEST_CASE("https_get: a certificate for another name is refused before anything is asked") {
    World world;
    for (const std::string names : {"DNS:other", "DNS:*.localhost", "DNS:l*", "IP:127.0.0.2", ""}) {
        CAPTURE(names);
        auto& server = world.prove(world.trusted.authority.issue(names));
        CHECK(mentions(fetch(server.url()), "certificate is not accepted: hostname mismatch"));
        CHECK(server.seen().empty());
    }
}

TEST_CASE("https_get: a certificate that has expired, or is not valid yet, is refused") {
    World world;
    auto& over = world.prove(world.trusted.authority.issue("DNS:localhost", {-3'600, -1}));
    CHECK(mentions(fetch(over.url()), "certificate has expired"));
    auto& early = world.prove(world.trusted.authority.issue("DNS:localhost", {3'600, 7'200}));
    CHECK(mentions(fetch(early.url()), "certificate is not yet valid"));
}

TEST_CASE("https_get: a certificate of an unknown authority is refused") {
    World world;
    const test::Authority stranger;
    auto& server = world.prove(stranger.issue());
    CHECK(mentions(fetch(server.url()), "certificate is not accepted"));
    CHECK(server.seen().empty());
}

TEST_CASE("https_get: TLS older than 1.2 is refused") {
    World world;
    auto& server = world.server.emplace(
        world.trusted.authority.issue(), [](TlsServer::Conversation&) {}, TLS1_1_VERSION);
    CHECK(mentions(fetch(server.url()), "TLS"));
    CHECK(server.names_asked_for().empty());
}

TEST_CASE("https_get: only a 200 counts, and redirects are not followed") {
    World world;
    auto& target = world.serve(tls_answer("{}"));
    TlsServer redirecting(world.trusted.authority.issue(),
                          tls_answer("{}", "302 Found", "Location: " + target.url() + "\r\n"));
    const std::string outcome = fetch(redirecting.url());
    CHECK(mentions(outcome, "it answered 302, a redirect"));
    CHECK(outcome.find(target.url()) == std::string::npos);
    CHECK(target.connections() == 0);
    for (const std::string status : {"500 Oops", "404 Not Found", "206 Partial Content",
                                     "204 No Content", "304 Not Modified", "100 Continue"}) {
        CAPTURE(status);
        auto& server = world.serve(tls_answer("{}", status));
        CHECK(fetch(server.url()) == "! it answered " + status.substr(0, 3));
    }
}

TEST_CASE("https_get: a body of just the bound is taken, one byte more is not") {
    World world;
    constexpr std::size_t kMax = HttpsBounds{}.body_bytes_max;
    const auto chunked = [](std::size_t size) {
        return fmt::format(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n{:x}\r\n{}\r\n"
            "0\r\n\r\n",
            size - 1, std::string(size - 1, 'x'));
    };
    const auto until_end = [](std::size_t size) {
        return "HTTP/1.1 200 OK\r\n\r\n" + std::string(size, 'x');
    };
    CHECK(fetch(world.serve(tls_answer(std::string(kMax, 'x'))).url()).size() == kMax);
    CHECK(fetch(world.serve(chunked(kMax)).url()).size() == kMax);
    CHECK(fetch(world.serve(until_end(kMax)).url()).size() == kMax);
    const std::string longer = "! its answer is longer than 1048576 bytes";
    CHECK(fetch(world.serve(tls_answer(std::string(kMax + 1, 'x'))).url()) == longer);
    CHECK(fetch(world.serve(chunked(kMax + 1)).url()) == longer);
    CHECK(fetch(world.serve(until_end(kMax + 1)).url()) == longer);
}

TEST_CASE("https_get: an answer that is cut off is refused") {
    World world;
    const auto cut = [](std::string bytes) {
        return [bytes = std::move(bytes)](TlsServer::Conversation& client) {
            client.read_head();
            client.send(bytes);
        };
    };
    // Without close_notify, an attacker on the way may have cut the answer.
    CHECK(mentions(fetch(world.serve(cut("HTTP/1.1 200 OK\r\n\r\n{}")).url()), "cannot be read"));
    CHECK(mentions(fetch(world.serve(cut("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}")).url()),
                   "cannot be read"));
    CHECK(mentions(fetch(world.serve(cut("HTTP/1.1 200")).url()), "cannot be read"));
    CHECK(mentions(fetch(world.serve(cut("")).url()), "cannot be read"));
}

TEST_CASE("https_get: an answer that is not HTTP, or has a head without end, is refused") {
    World world;
    CHECK(mentions(fetch(world.serve(std::string("hello\r\n\r\n")).url()), "cannot be read"));
    CHECK(mentions(
        fetch(
            world.serve("HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n{}").url()),
        "cannot be read"));
}

TEST_CASE("https_get: each slow step ends at the deadline") {
    World world;
    const HttpsBounds bounds{.patience = 300ms};
    const auto begin = std::chrono::steady_clock::now();
    SUBCASE("a body that trickles") {
        auto& server = world.serve([](TlsServer::Conversation& client) {
            client.read_head();
            client.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{");
            client.wait_for_end();
        });
        CHECK(fetch(server.url(), bounds) == "! it did not finish within 300ms");
    }
    SUBCASE("an answer that does not come") {
        auto& server = world.serve([](TlsServer::Conversation& client) { client.wait_for_end(); });
        CHECK(fetch(server.url(), bounds) == "! it did not finish within 300ms");
    }
    SUBCASE("a handshake that does not come") {
        asio::io_context silent;
        asio::ip::tcp::acceptor acceptor(silent, {asio::ip::address_v4::loopback(), 0});
        const auto port = std::to_string(acceptor.local_endpoint().port());
        CHECK(fetch("https://127.0.0.1:" + port, bounds) == "! it did not finish within 300ms");
    }
    CHECK(std::chrono::steady_clock::now() - begin >= 300ms);
}

TEST_CASE("https_get: no server at the address, and no such name, are errors") {
    World world;
    CHECK(fetch("https://127.0.0.1:1/") == "! cannot connect to it: Connection refused");
    CHECK(mentions(fetch("https://no-such-host.invalid/"), "host name could not be resolved"));
}

TEST_CASE("https_get: a server that speaks no TLS is an error") {
    World world;
    asio::io_context io;
    asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    const auto port = std::to_string(acceptor.local_endpoint().port());
    std::thread plain([&] {
        auto client = acceptor.accept();
        client.send(asio::buffer("HTTP/1.1 400 Bad Request\r\n\r\n", 28));
    });
    CHECK(mentions(fetch("https://127.0.0.1:" + port), "TLS"));
    plain.join();
}

TEST_CASE("https_get: `ca` is trusted in place of the system's authorities") {
    World world;
    const test::Authority other;
    const auto fetch_with = [&](const std::string& ca) {
        asio::io_context io{1};
        std::optional<bool> good;
        spawn(io.get_executor(),
              https_get(io.get_executor(), *config::parse_key_url(world.server->url()), {}, "*/*",
                        ca),
              [&](const std::exception_ptr&, Result<HttpsBody, std::string> answer) {
                  good = answer.has_value();
              });
        run_until(io, [&] { return good.has_value(); });
        return *good;
    };
    world.prove(other.issue());
    CHECK(fetch_with(other.pem()));
    CHECK_FALSE(fetch_with(""));
    world.serve(tls_answer("x"));
    CHECK(fetch_with(""));
    CHECK_FALSE(fetch_with(other.pem()));
}

TEST_CASE("https_get: http:// is for this machine, whatever the name says") {
    asio::io_context io;
    asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    const auto port = std::to_string(acceptor.local_endpoint().port());
    std::thread plain([&] {
        for (int i = 0; i < 2; ++i) {
            auto client = acceptor.accept();
            char head[1'000];
            client.receive(asio::buffer(head));
            client.send(asio::buffer(tls_answer("keys")));
        }
    });
    CHECK(fetch("http://127.0.0.1:" + port + "/keys") == "keys");
    CHECK(fetch("http://localhost:" + port + "/keys") == "keys");
    plain.join();

    for (const char* host : {"192.0.2.1", "0.0.0.0", "::ffff:192.0.2.1", "2001:db8::1"}) {
        CAPTURE(host);
        config::HttpsUrl url;
        url.is_tls = false;
        url.address.host = host;
        url.address.port = acceptor.local_endpoint().port();
        url.authority = "localhost";
        url.target = "/";
        std::string why;
        asio::io_context loop{1};
        spawn(loop.get_executor(), https_get(loop.get_executor(), url, {}, "*/*"),
              [&](const std::exception_ptr&, const Result<HttpsBody, std::string>& answer) {
                  why = answer ? "none" : answer.error();
              });
        run_until(loop, [&] { return !why.empty(); });
        CHECK(why.starts_with("its host is not this machine"));
    }
}

TEST_CASE("https_get: a loop that ends in the middle of a request frees everything") {
    World world;
    auto& server = world.serve([](TlsServer::Conversation& client) {
        client.read_head();
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{");
        client.wait_for_end();
    });
    asio::io_context io{1};
    spawn_vital(io.get_executor(),
                https_get(io.get_executor(), *config::parse_key_url(server.url()), {}, "*/*"));
    run_until(io, [&] { return server.seen().size() == 1; });
}

// The answer to a call with that head.
HttpAnswer call(asio::io_context& io, HttpClient& client, std::string_view head,
                std::chrono::milliseconds patience = 5s) {
    std::optional<HttpAnswer> outcome;
    spawn(io.get_executor(), client.call({.head = head, .until = steady_now() + patience}),
          [&](const std::exception_ptr& failed, HttpAnswer answer) {
              CHECK_FALSE(failed);
              outcome = std::move(answer);
          });
    run_until(io, [&] { return outcome.has_value(); });
    return std::move(*outcome);
}

TEST_CASE("http client: the next call goes over the same connection where the answer allows it") {
    World world;
    for (const bool is_kept : {true, false}) {
        auto& server = world.serve([is_kept](TlsServer::Conversation& client) {
            for (int i = 0; i < (is_kept ? 2 : 1); ++i) {
                client.read_head();
                client.send(is_kept ? "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                                    : tls_answer("ok"));
            }
            client.finish();
        });
        asio::io_context io{1};
        const auto url = config::parse_key_url(server.url());
        HttpClient client(io.get_executor(), {.address = url->address, .tls = TlsSettings()});
        for (int i = 0; i < 2; ++i) {
            const HttpAnswer answer = call(io, client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            CHECK(answer.fault == HttpAnswer::Fault::none);
            CHECK(answer.status == 200);
            CHECK(answer.body == "ok");
        }
        CHECK(server.connections() == (is_kept ? 1 : 2));
        CHECK(client.certificate_validity());
    }
}

TEST_CASE("http client: a call over a Unix socket; a silent server is late, a missing one is not") {
    std::string folder = "/tmp/tidegate-test-XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    config::Address address;
    address.unix_path = folder + "/server";
    asio::io_context io{1};
    HttpClient client(io.get_executor(), {.address = address});
    const HttpAnswer away = call(io, client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(away.fault == HttpAnswer::Fault::connect);
    CHECK(away.reason == "No such file or directory");
    CHECK_FALSE(away.is_late);
    {
        asio::io_context silent;
        const asio::local::stream_protocol::acceptor acceptor(silent, address.unix_path);
        const HttpAnswer late = call(io, client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 50ms);
        CHECK(late.fault == HttpAnswer::Fault::read);
        CHECK(late.may_have_been_taken());
        CHECK(late.fault_text() == "it did not answer in time");
    }
    unlink(address.unix_path.c_str());
    rmdir(folder.c_str());
}

}  // namespace

}  // namespace tidegate::app::http_client_test
