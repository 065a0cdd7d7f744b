// Which version of HTTP a listener and its clients agree on (ALPN).
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "unit/tls_server_world.hpp"

namespace tidegate::tls_server_protocols_test {

namespace {

using test::Authority;
using test::ClientHello;
using test::Meeting;
using test::shown;

constexpr int kProtocolVersions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
const std::string kH2 = "\x02h2";
const std::string kH11 = "\x08http/1.1";
const std::string kH10 = "\x08http/1.0";
const std::string kRefused = "refused";

struct HttpListener {
    explicit HttpListener(HttpVersions http) {
        TlsServerSettings settings;
        settings.certificates = {shown("a.pem", authority.issue("DNS:a.example"))};
        settings.http = http;
        credentials = test::credentials_of(settings);
    }
    TlsServer server() const { return {credentials, tickets}; }

    Authority authority;
    std::shared_ptr<const ServerCredentials> credentials;
    std::shared_ptr<TicketKeys> tickets = test::new_ticket_keys();
};

// The protocol, as both sides have it; empty: none was named. Or kRefused, by the alert for that.
std::string agreed(const TlsServer& server, ClientHello hello) {
    const std::string offered = hello.protocols;
    Meeting meeting(server.connection(), std::move(hello));
    CAPTURE(offered);
    if (!meeting.is_shaken()) {
        CHECK(meeting.client_error() == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
        CHECK(meeting.channel().sent_alert() == SSL_AD_NO_APPLICATION_PROTOCOL);
        return kRefused;
    }
    CHECK(meeting.channel().sent_alert() == 0);
    CHECK(meeting.channel().speaks_http2() == (meeting.protocol() == "h2"));
    return meeting.protocol();
}

// Calls `check` with what a client of each version of TLS gets that offers `protocols`.
template <class Check>
void in_each_version(HttpVersions http, Check check) {
    const HttpListener listener(http);
    const TlsServer server = listener.server();
    for (const int version : kProtocolVersions) {
        CAPTURE(version);
        check([&](const std::string& protocols) {
            return agreed(server, {.version = version, .protocols = protocols});
        });
    }
}

}  // namespace

TEST_CASE("tls server: clients that offer HTTP/2 get it, wherever they put it") {
    in_each_version(HttpVersions::both, [](const auto& agreed_on) {
        CHECK(agreed_on(kH2) == "h2");
        CHECK(agreed_on(kH2 + kH11) == "h2");
        CHECK(agreed_on(kH11 + kH2) == "h2");
        CHECK(agreed_on("\x03xyz" + kH2) == "h2");
    });
}

TEST_CASE("tls server: clients without HTTP/2 get HTTP/1, also those that offer nothing") {
    in_each_version(HttpVersions::both, [](const auto& agreed_on) {
        CHECK(agreed_on("").empty());
        CHECK(agreed_on(kH11) == "http/1.1");
        CHECK(agreed_on(kH10 + kH11) == "http/1.1");
        CHECK(agreed_on(kH10) == "http/1.0");
    });
}

TEST_CASE("tls server: a listener of HTTP/1 does not speak HTTP/2") {
    in_each_version(HttpVersions::http1, [](const auto& agreed_on) {
        CHECK(agreed_on("").empty());
        CHECK(agreed_on(kH2 + kH11) == "http/1.1");
        CHECK(agreed_on(kH10) == "http/1.0");
        CHECK(agreed_on(kH2) == kRefused);
        CHECK(agreed_on("\x03xyz" + kH2) == kRefused);
    });
}

TEST_CASE("tls server: a listener of HTTP/2 refuses all others, also those that offer nothing") {
    in_each_version(HttpVersions::http2, [](const auto& agreed_on) {
        CHECK(agreed_on(kH2) == "h2");
        CHECK(agreed_on(kH11 + kH2) == "h2");
        CHECK(agreed_on("") == kRefused);
        CHECK(agreed_on(kH11) == kRefused);
    });
}

TEST_CASE("tls server: clients that offer none of the listener's protocols are refused") {
    for (const HttpVersions http : {HttpVersions::both, HttpVersions::http1, HttpVersions::http2}) {
        in_each_version(http, [](const auto& agreed_on) {
            for (const std::string other : {"\x04smtp", "\x09http/1.1x", "\x03h2c", "\x02H2"}) {
                CHECK(agreed_on(other) == kRefused);
            }
        });
    }
}

TEST_CASE("tls server: a session that is resumed agrees on a protocol of its own") {
    const HttpListener both(HttpVersions::both);
    const TlsServer server = both.server();
    for (const int version : kProtocolVersions) {
        CAPTURE(version);
        const Meeting first(server.connection(), {.version = version, .protocols = kH2});
        REQUIRE(first.is_shaken());
        const TlsSessionPtr session = first.session();
        const auto resumed = [&](const std::string& protocols) {
            Meeting meeting(server.connection(),
                            {.version = version, .protocols = protocols, .session = session.get()});
            REQUIRE(meeting.is_shaken());
            CHECK(meeting.is_resumed());
            CHECK(meeting.channel().speaks_http2() == (meeting.protocol() == "h2"));
            return meeting.protocol();
        };
        CHECK(resumed(kH2) == "h2");
        CHECK(resumed(kH11) == "http/1.1");
        CHECK(resumed("").empty());
    }
}

TEST_CASE("tls server: a ticket does not lead around a listener's protocols") {
    const HttpListener both(HttpVersions::both);
    HttpListener later(HttpVersions::http2);
    later.tickets = both.tickets;
    const TlsServer before = both.server();
    const TlsServer after = later.server();
    for (const int version : kProtocolVersions) {
        CAPTURE(version);
        const Meeting first(before.connection(), {.version = version, .protocols = kH11});
        REQUIRE(first.is_shaken());
        const TlsSessionPtr session = first.session();
        const auto resumed = [&](const std::string& protocols) {
            return agreed(after,
                          {.version = version, .protocols = protocols, .session = session.get()});
        };
        CHECK(resumed(kH2) == "h2");
        CHECK(resumed(kH11) == kRefused);
        CHECK(resumed("") == kRefused);
    }
}

TEST_CASE("tls server: HTTP/2 needs no server name") {
    const HttpListener listener(HttpVersions::http2);
    const TlsServer server = listener.server();
    CHECK(agreed(server, {.protocols = kH2}) == "h2");
    CHECK(agreed(server, {.name = "a.example", .protocols = kH2}) == "h2");
}

}  // namespace tidegate::tls_server_protocols_test
