#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include "certificates.hpp"
#include "doctor/examinations.hpp"
#include "tls_server.hpp"

namespace tidegate::doctor::listener_http_test {

namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using asio::ip::tcp;

const std::string kNoSettings("\0\0\0\x04\0\0\0\0\0"sv);
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

TlsAnswer chosen(std::string protocol) {
    static const test::Authority authority;
    TlsAnswer answer;
    auto chain = parse_certificates(authority.pem());
    REQUIRE(chain.has_value());
    for (CertificatePtr& one : *chain) answer.chain.emplace_back(std::move(one));
    answer.protocol = std::move(protocol);
    return answer;
}

Finding negotiated(bool takes_http2, const TlsAnswer& answer) {
    config::Listen listen;
    listen.takes_http2 = takes_http2;
    Findings findings("listen 0.0.0.0:443");
    judge_negotiated(listen, answer, findings);
    REQUIRE(findings.list().size() == 1);
    CHECK(findings.list().front().check == "listen.http");
    return findings.list().front();
}

Finding known(const Http2Answer& answer) {
    Findings findings("listen 0.0.0.0:80");
    judge_prior_knowledge(answer, findings);
    REQUIRE(findings.list().size() == 1);
    CHECK(findings.list().front().check == "listen.http");
    return findings.list().front();
}

bool ends_with(const Finding& finding, std::string_view text) {
    CAPTURE(finding.what);
    return std::string_view(finding.what).ends_with(text);
}

// Takes one connection, reads `expected` bytes of it, answers and closes.
class PlainPeer {
  public:
    PlainPeer(std::size_t expected, std::string answer)
        : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}),
          endpoint_(acceptor_.local_endpoint()),
          thread_([this, expected, answer = std::move(answer)] {
              error_code ec;
              tcp::socket client(io_);
              acceptor_.accept(client, ec);
              seen_.resize(expected);
              asio::read(client, asio::buffer(seen_), ec);
              asio::write(client, asio::buffer(answer), ec);
          }) {}
    ~PlainPeer() {
        if (thread_.joinable()) thread_.join();
    }
    PlainPeer(const PlainPeer&) = delete;
    PlainPeer& operator=(const PlainPeer&) = delete;

    Http2Answer tried(std::string before = "") {
        return try_http2({.endpoint = endpoint_, .before = std::move(before), .time = 5s});
    }
    // Requires tried().
    const std::string& seen() {
        thread_.join();
        return seen_;
    }

  private:
    asio::io_context io_;
    tcp::acceptor acceptor_;
    tcp::endpoint endpoint_;
    std::string seen_;
    std::thread thread_;
};

}  // namespace

TEST_CASE("listener_http: what a client gets by ALPN is held to the configuration") {
    CHECK(negotiated(true, chosen("h2")).severity == Severity::ok);
    CHECK(ends_with(negotiated(true, chosen("h2")), "offer h2 and http/1.1 by ALPN get h2"));
    CHECK(negotiated(false, chosen("http/1.1")).severity == Severity::ok);
    CHECK(negotiated(false, chosen("")).severity == Severity::ok);
    CHECK(ends_with(negotiated(false, chosen("")), "get http/1.1"));

    const Finding missing = negotiated(true, chosen("http/1.1"));
    CHECK(missing.severity == Severity::fault);
    CHECK(ends_with(missing, "get http/1.1, but `http` of this listener has `h2`"));
    CHECK_FALSE(missing.advice.empty());
    CHECK(negotiated(true, chosen("")).severity == Severity::fault);
    const Finding surplus = negotiated(false, chosen("h2"));
    CHECK(surplus.severity == Severity::fault);
    CHECK(ends_with(surplus, "get h2, but `http` of this listener does not have `h2`"));
}

TEST_CASE("listener_http: a handshake that did not get as far as a protocol says nothing of it") {
    config::Listen listen;
    listen.takes_http2 = true;
    Findings findings;
    judge_negotiated(listen, {.fault = "?"}, findings);
    CHECK(findings.list().empty());
}

TEST_CASE("listener_http: in the clear, SETTINGS come first, and anything else is a fault") {
    CHECK(known({.bytes = kNoSettings}).severity == Severity::ok);
    const Finding http1 = known({.bytes = "HTTP/1.1 400 Bad Request\r\nDate: x\r\n"});
    CHECK(http1.severity == Severity::fault);
    CHECK(ends_with(http1, "it answers `HTTP/1.1 400 Bad Request`"));
    const Finding silent = known({.fault = "it does not answer in time"});
    CHECK(silent.severity == Severity::fault);
    CHECK(ends_with(silent, ": it does not answer in time"));
}

TEST_CASE("listener_http: only the head of SETTINGS that acknowledge nothing is one") {
    CHECK(begins_with_settings(kNoSettings));
    CHECK(begins_with_settings("\0\0\x0c\x04\0\0\0\0\0\0\x03"sv));
    CHECK_FALSE(begins_with_settings(kNoSettings.substr(0, 8)));
    CHECK_FALSE(begins_with_settings("\0\0\0\x04\x01\0\0\0\0"sv));  // an acknowledgement
    CHECK_FALSE(begins_with_settings("\0\0\x07\x04\0\0\0\0\0"sv));  // no whole number of settings
    CHECK_FALSE(begins_with_settings("\0\0\0\x04\0\0\0\0\x01"sv));  // of a stream
    CHECK_FALSE(begins_with_settings("\0\0\x08\x07\0\0\0\0\0"sv));  // GOAWAY
    CHECK_FALSE(begins_with_settings("HTTP/1.1 505 \r\n"));
}

TEST_CASE("listener_http: a client begins with the preface and SETTINGS, behind a PROXY header") {
    const std::string header = "PROXY UNKNOWN\r\n";
    PlainPeer peer(header.size() + kPreface.size() + kNoSettings.size(), kNoSettings);
    const Http2Answer answer = peer.tried(header);
    CHECK(answer.fault.empty());
    CHECK(begins_with_settings(answer.bytes));
    CHECK(peer.seen() == header + std::string(kPreface) + kNoSettings);
}

TEST_CASE("listener_http: a peer that closes, or answers less than a frame's head, is reported") {
    PlainPeer silent(kPreface.size() + kNoSettings.size(), "");
    CHECK(silent.tried().fault == "it closes the connection without an answer");
    PlainPeer brief(kPreface.size() + kNoSettings.size(), "HTTP/1");
    CHECK(brief.tried().bytes == "HTTP/1");
}

TEST_CASE("listener_http: a handshake offers h2 first, and reports what the server chose") {
    TlsSettings unverified;
    unverified.verify = false;
    const auto client = TlsClient::make(unverified);
    REQUIRE(client.has_value());
    const test::Authority authority;
    const auto tried = [&](std::string_view chosen_by_server, bool offers_http) {
        const test::TlsServer server(
            authority.issue(), [](test::TlsServer::Conversation& peer) { peer.wait_for_end(); }, 0,
            nullptr, test::TlsServer::Clients::must_have_one, std::string(chosen_by_server));
        return try_tls({.endpoint = tcp::endpoint(asio::ip::address_v4::loopback(), server.port()),
                        .host = "a.example",
                        .time = 5s,
                        .offers_http = offers_http},
                       **client);
    };
    CHECK(tried("h2", true).protocol == "h2");
    CHECK(tried("http/1.1", true).protocol == "http/1.1");
    CHECK(tried("", true).protocol.empty());
    CHECK(tried("h2", false).protocol.empty());
}

}  // namespace tidegate::doctor::listener_http_test
