#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tls/tls_server.hpp"
#include "unit/tls_server_world.hpp"

namespace tidegate::tls_ticket_keys_test {

namespace {

using namespace std::chrono_literals;
using test::Authority;
using test::Meeting;
using test::shown;
using Time = TicketKeys::Time;

constexpr Time kStart{};

TicketKey encrypting(const TicketKeys& keys) {
    return keys.keys()->keys.front();
}

bool knows(const TicketKeys& keys, const TicketKey& key) {
    const auto set = keys.keys();
    const TicketKey* const found = set->find(key.name.data());
    return found != nullptr && *found == key;
}

// The three parts, each of one letter.
std::string configured_key(char name, char mac, char cipher) {
    return std::string(16, name) + std::string(32, mac) + std::string(32, cipher);
}

TEST_CASE("ticket keys: a process makes its own, of chance") {
    const TicketKeys keys({}, kStart);
    const TicketKeys others({}, kStart);
    CHECK(keys.keys()->keys.size() == 1);
    CHECK(encrypting(keys).name != encrypting(others).name);
    CHECK(encrypting(keys).mac != encrypting(others).mac);
    CHECK(encrypting(keys).cipher != encrypting(others).cipher);
    CHECK(encrypting(keys).mac != encrypting(keys).cipher);
    CHECK_FALSE(knows(keys, encrypting(others)));
}

TEST_CASE("ticket keys: every 8 hours there is a new one, and two old ones are known") {
    TicketKeys keys({}, kStart);
    const TicketKey first = encrypting(keys);
    keys.rotate(kStart + 8h - 1s);
    CHECK(encrypting(keys) == first);
    CHECK(keys.version() == 1);
    keys.rotate(kStart + 8h);
    const TicketKey second = encrypting(keys);
    CHECK(second.name != first.name);
    CHECK(knows(keys, first));
    CHECK(keys.version() == 2);
    keys.rotate(kStart + 8h);
    CHECK(keys.version() == 2);
    keys.rotate(kStart + 16h);
    CHECK(encrypting(keys).name != second.name);
    CHECK(knows(keys, second));
    CHECK(knows(keys, first));
    keys.rotate(kStart + 24h);
    CHECK(knows(keys, second));
    CHECK_FALSE(knows(keys, first));
    CHECK(keys.keys()->keys.size() == 3);
}

TEST_CASE("ticket keys: a rotation that comes late keeps no key for longer than its time") {
    TicketKeys keys({}, kStart);
    const TicketKey first = encrypting(keys);
    keys.rotate(kStart + 20h);
    const TicketKey second = encrypting(keys);
    CHECK(knows(keys, first));
    keys.rotate(kStart + 28h);
    CHECK_FALSE(knows(keys, first));
    CHECK(knows(keys, second));
    keys.rotate(kStart + 1'000h);
    CHECK(keys.keys()->keys.size() == 1);
}

TEST_CASE("ticket keys: a configured key is its name, the key of the MAC, and that of the cipher") {
    const TicketKeys keys({configured_key('n', 'm', 'c')}, kStart);
    const TicketKey key = encrypting(keys);
    CHECK(std::string(key.name.begin(), key.name.end()) == std::string(16, 'n'));
    CHECK(std::string(key.mac.begin(), key.mac.end()) == std::string(32, 'm'));
    CHECK(std::string(key.cipher.begin(), key.cipher.end()) == std::string(32, 'c'));
}

TEST_CASE("ticket keys: configured ones stay as they are; the first encrypts, all are known") {
    const std::string a = configured_key('a', 'x', 'x');
    const std::string b = configured_key('b', 'x', 'x');
    TicketKeys keys({a, b}, kStart);
    const auto before = keys.keys();
    CHECK(encrypting(keys).name.front() == 'a');
    CHECK(before->find(before->keys[1].name.data()) == &before->keys[1]);
    keys.rotate(kStart + 100h);
    CHECK(keys.keys() == before);
}

TEST_CASE("ticket keys: a reload keeps what it does not change") {
    TicketKeys keys({}, kStart);
    const TicketKey own = encrypting(keys);
    keys.use({}, kStart + 1h);
    CHECK(encrypting(keys) == own);
    CHECK(keys.version() == 1);
    const std::string a = configured_key('a', 'x', 'x');
    const std::string b = configured_key('b', 'x', 'x');
    keys.use({a}, kStart + 2h);
    CHECK_FALSE(knows(keys, own));
    CHECK(keys.version() == 2);
    keys.use({a}, kStart + 3h);
    CHECK(keys.version() == 2);
    keys.use({b, a}, kStart + 4h);
    CHECK(encrypting(keys).name.front() == 'b');
    CHECK(keys.keys()->keys.size() == 2);
    keys.use({}, kStart + 5h);
    CHECK(keys.keys()->keys.size() == 1);
    const TicketKey made = encrypting(keys);
    CHECK(made.name != own.name);
    // Its time begins when it is made.
    keys.rotate(kStart + 12h);
    CHECK(encrypting(keys) == made);
    keys.rotate(kStart + 13h);
    CHECK(encrypting(keys).name != made.name);
}

TEST_CASE("ticket keys: a reader sees the newest, whichever thread makes it") {
    const auto keys = std::make_shared<TicketKeys>(std::vector<std::string>{}, kStart);
    TicketKeyReader reader(keys);
    CHECK(reader.read().version == 1);
    std::thread other([&] {
        for (int i = 1; i <= 100; ++i) keys->rotate(kStart + i * 8h);
    });
    std::uint64_t seen = 0;
    while (seen < 101) {
        const TicketKeySet& set = reader.read();
        const std::uint64_t version = set.version;
        CHECK(version >= seen);
        CHECK(set.find(set.keys.front().name.data()) == &set.keys.front());
        seen = version;
    }
    other.join();
    CHECK(&reader.read() == keys->keys().get());
}

TEST_CASE("ticket keys: another process goes on with them, and with their age") {
    TicketKeys former({}, kStart);
    const TicketKey first = encrypting(former);
    former.rotate(kStart + 8h);
    TicketKeys next({}, kStart + 10h);
    next.adopt(former.made());
    CHECK(encrypting(next) == encrypting(former));
    CHECK(knows(next, first));
    next.rotate(kStart + 15h);
    CHECK(encrypting(next) == encrypting(former));
    next.rotate(kStart + 16h);
    CHECK_FALSE(encrypting(next) == encrypting(former));
    CHECK(knows(next, encrypting(former)));
}

TEST_CASE("ticket keys: configured ones are not handed over, and none take their place") {
    const TicketKeys former({}, kStart);
    TicketKeys configured({configured_key('n', 'm', 'c')}, kStart);
    CHECK(configured.made().empty());
    const TicketKey own = encrypting(configured);
    configured.adopt(former.made());
    CHECK(encrypting(configured) == own);
    TicketKeys made({}, kStart);
    const TicketKey before = encrypting(made);
    made.adopt(configured.made());
    CHECK(encrypting(made) == before);
}

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

}  // namespace

}  // namespace tidegate::tls_ticket_keys_test
