#include <chrono>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "unit/tls_server_world.hpp"

namespace tidegate::tls_server_tickets_test {

namespace {

using namespace std::chrono_literals;
using test::Authority;
using test::Meeting;
using test::shown;
using Time = TicketKeys::Time;

constexpr int kTicketVersions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

std::shared_ptr<const ServerCredentials> two_names() {
    const Authority authority;
    TlsServerSettings settings;
    settings.certificates = {shown("a.pem", authority.issue("DNS:a.example")),
                             shown("b.pem", authority.issue("DNS:b.example"))};
    return test::credentials_of(settings);
}

TlsSessionPtr session_with(const TlsServer& server, int version) {
    const Meeting meeting(server.connection(), {.name = "a.example", .version = version});
    REQUIRE(meeting.is_shaken());
    REQUIRE(meeting.tickets() == 1);
    return meeting.session();
}

// The result for a client that shows the ticket of `session`.
struct Resumption {
    bool is_resumed;
    int tickets;  // new ones
};
Resumption resume(const TlsServer& server, const TlsSessionPtr& session, int version) {
    const Meeting meeting(server.connection(),
                          {.name = "a.example", .version = version, .session = session.get()});
    CHECK(meeting.is_shaken());
    return {meeting.is_resumed(), meeting.tickets()};
}

}  // namespace

TEST_CASE("tls server: a handshake gives one ticket, without early data, that others can read") {
    const auto credentials = two_names();
    const auto keys = test::new_ticket_keys();
    const TlsServer server(credentials, keys);
    const TlsServer same_keys(two_names(), keys);
    const TlsServer other_keys(credentials, test::new_ticket_keys());
    for (const int version : kTicketVersions) {
        CAPTURE(version);
        const TlsSessionPtr session = session_with(server, version);
        CHECK(SSL_SESSION_get_max_early_data(session.get()) == 0);
        CHECK(SSL_SESSION_get_ticket_lifetime_hint(session.get()) == 16 * 3'600);
        CHECK(resume(same_keys, session, version).is_resumed);
        CHECK_FALSE(resume(other_keys, session, version).is_resumed);
        CHECK(resume(other_keys, session, version).tickets == 1);
    }
}

TEST_CASE("tls server: it keeps no sessions itself, for clients without tickets") {
    const TlsServer server(two_names(), test::new_ticket_keys());
    test::ClientHello hello{.version = TLS1_2_VERSION};
    hello.takes_tickets = false;
    const Meeting first(server.connection(), hello);
    CHECK(first.is_shaken());
    CHECK(first.tickets() == 0);
    const TlsSessionPtr session = first.session();
    hello.session = session.get();
    const Meeting second(server.connection(), hello);
    CHECK(second.is_shaken());
    CHECK_FALSE(second.is_resumed());
}

TEST_CASE("tls server: a ticket of TLS 1.3 is renewed, as clients use each once") {
    const TlsServer server(two_names(), test::new_ticket_keys());
    const auto modern = resume(server, session_with(server, TLS1_3_VERSION), TLS1_3_VERSION);
    CHECK(modern.is_resumed);
    CHECK(modern.tickets == 1);
    const auto old = resume(server, session_with(server, TLS1_2_VERSION), TLS1_2_VERSION);
    CHECK(old.is_resumed);
    CHECK(old.tickets == 0);
}

TEST_CASE("tls server: a ticket lives for two new keys, is renewed then, and dies with the third") {
    for (const int version : kTicketVersions) {
        CAPTURE(version);
        const auto keys = test::new_ticket_keys();
        const TlsServer server(two_names(), keys);
        const TlsSessionPtr session = session_with(server, version);
        for (const auto later : {8h, 16h}) {
            keys->rotate(Time{} + later);
            const auto outcome = resume(server, session, version);
            CHECK(outcome.is_resumed);
            CHECK(outcome.tickets == 1);
        }
        const Meeting renewing(server.connection(),
                               {.name = "a.example", .version = version, .session = session.get()});
        const TlsSessionPtr renewed = renewing.session();
        keys->rotate(Time{} + 24h);
        CHECK_FALSE(resume(server, session, version).is_resumed);
        CHECK(resume(server, renewed, version).is_resumed);
    }
}

TEST_CASE("tls server: configured keys are for replicas, and their first one encrypts") {
    const std::string a = std::string(16, 'a') + std::string(64, 'x');
    const std::string b = std::string(16, 'b') + std::string(64, 'y');
    const auto with = [credentials = two_names()](const std::vector<std::string>& keys) {
        return std::make_unique<TlsServer>(credentials, std::make_shared<TicketKeys>(keys, Time{}));
    };
    for (const int version : kTicketVersions) {
        CAPTURE(version);
        const TlsSessionPtr session = session_with(*with({a, b}), version);
        CHECK(resume(*with({a}), session, version).is_resumed);
        CHECK_FALSE(resume(*with({b}), session, version).is_resumed);
        const auto outcome = resume(*with({b, a}), session, version);
        CHECK(outcome.is_resumed);
        CHECK(outcome.tickets == 1);
        // The name alone is not enough.
        const std::string forged = std::string(16, 'a') + std::string(64, 'z');
        CHECK_FALSE(resume(*with({forged}), session, version).is_resumed);
    }
}

TEST_CASE("tls server: a ticket that was changed on the way is refused") {
    const TlsServer server(two_names(), test::new_ticket_keys());
    const TlsSessionPtr session = session_with(server, TLS1_2_VERSION);
    std::string der(static_cast<std::size_t>(i2d_SSL_SESSION(session.get(), nullptr)), '\0');
    auto* out = reinterpret_cast<unsigned char*>(der.data());
    i2d_SSL_SESSION(session.get(), &out);
    const unsigned char* ticket = nullptr;
    std::size_t size = 0;
    SSL_SESSION_get0_ticket(session.get(), &ticket, &size);
    const std::string text(reinterpret_cast<const char*>(ticket), size);
    const std::size_t start = der.find(text);
    REQUIRE(start != std::string::npos);
    for (const std::size_t at : {std::size_t{0}, std::size_t{20}, size / 2, size - 1}) {
        CAPTURE(at);
        std::string changed = der;
        changed[start + at] = static_cast<char>(changed[start + at] ^ 1);
        const auto* in = reinterpret_cast<const unsigned char*>(changed.data());
        const TlsSessionPtr forged(
            d2i_SSL_SESSION(nullptr, &in, static_cast<long>(changed.size())));
        REQUIRE(forged != nullptr);
        CHECK_FALSE(resume(server, forged, TLS1_2_VERSION).is_resumed);
    }
    CHECK(resume(server, session, TLS1_2_VERSION).is_resumed);
}

TEST_CASE("tls server: resuming under an unknown name is refused where unknown names are") {
    const Authority authority;
    TlsServerSettings settings;
    settings.certificates = {shown("a.pem", authority.issue("DNS:a.example"))};
    settings.unknown_names = UnknownNames::refuse;
    const TlsServer server(test::credentials_of(settings), test::new_ticket_keys());
    const TlsSessionPtr session = session_with(server, TLS1_3_VERSION);
    const Meeting meeting(
        server.connection(),
        {.name = "x.example", .version = TLS1_3_VERSION, .session = session.get()});
    CHECK_FALSE(meeting.is_shaken());
    CHECK(meeting.client_error() == SSL_R_TLSV1_UNRECOGNIZED_NAME);
}

}  // namespace tidegate::tls_server_tickets_test
