#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/x509v3.h>

#include "certificates.hpp"
#include "client/tls_handshake.hpp"
#include "net/asio.hpp"
#include "tls/tls_server.hpp"
#include "tls_peer.hpp"
#include "unit/client_waiting_world.hpp"

namespace tidegate::client_tls_handshake_test {

using namespace std::chrono_literals;
using client::HandshakeShares;
using client::HandshakeTurns;
using client::TlsHandshake;
using ContextPtr = std::unique_ptr<SSL_CTX, test::ReleaseOpenSsl>;
using End = TlsHandshake::End;
using Failure = client::TlsHandshakeFailure;

namespace {

TlsServerSettings settings_of(const test::Certificate& own) {
    TlsServerSettings settings;
    settings.certificates.push_back({own.pem(), own.key_pem(), {}, "own.pem"});
    return settings;
}

// A server, and the handshake of one connection after the other.
struct World : client::WaitingWorld {
    explicit World(const TlsServerSettings* settings = nullptr)
        : client(SSL_CTX_new(TLS_client_method())) {
        const TlsServerSettings own = settings_of(authority.issue());
        auto credentials = parse_credentials(settings != nullptr ? *settings : own);
        REQUIRE_MESSAGE(credentials.has_value(), (credentials ? "" : credentials.error()));
        server = std::make_unique<TlsServer>(
            *credentials, std::make_shared<TicketKeys>(std::vector<std::string>{}, SteadyTime{}));
        open();
    }
    ~World() {
        handshake->cut_off();
        settle();
    }

    void open() {
        if (handshake) handshake->cut_off();
        settle();
        end.reset();
        test::StreamPair pair;
        handshake = std::make_unique<TlsHandshake>(
            TlsHandshake::Context{.executor = io.get_executor(),
                                  .deadlines = wheel,
                                  .turns = turns,
                                  .shares = shares,
                                  .server = server},
            ConnectionPtr(new Connection(readiness, pair.ends[0])),
            TlsHandshake::Client{.arrival = {.peer = {parse_ip("203.0.113.7")}, .local_port = 443},
                                 .counted = parse_ip("203.0.113.7"),
                                 .unfinished = limit.take_unfinished({.max = 100})});
        peer = std::make_unique<test::TlsPeer>(client.get(), false, pair.ends[1]);
        begin(handshake->run(5s), end);
    }
    void send(std::string_view bytes) {
        peer->put(bytes);
        settle();
    }
    // As far as both sides come.
    void shake_hands() {
        for (int i = 0; i < 10 && !end; ++i) {
            peer->receive();
            peer->flush();
            settle();
        }
    }
    const client::HandshakeFault& fault() const { return handshake->fault(); }

    test::Authority authority;
    ContextPtr client;
    client::ConnectionLimit limit;
    client::HandshakeShares shares;
    client::HandshakeTurns turns{io.get_executor()};
    std::unique_ptr<TlsServer> server;
    std::unique_ptr<TlsHandshake> handshake;
    std::unique_ptr<test::TlsPeer> peer;
    std::optional<End> end;
};

std::optional<IpAddress> ip(int last) {
    return parse_ip("192.0.2." + std::to_string(last));
}

struct ShareWorld {
    HandshakeShares::Place* begin(const std::optional<IpAddress>& address) {
        places.push_back(std::make_unique<HandshakeShares::Place>(shares, address));
        return places.back().get();
    }
    void begin(const std::optional<IpAddress>& address, int count) {
        for (int i = 0; i < count; ++i) begin(address);
    }

    HandshakeShares shares;
    std::vector<std::unique_ptr<HandshakeShares::Place>> places;
};

// Makes a step as soon as it may, and then ends.
struct Stepper {
    Stepper(const Executor& executor, char its_name)
        : wakeup(executor), place(wakeup), name(its_name) {}

    Task<> run(HandshakeTurns& turns, std::string& order) {
        while (!turns.may_step(place)) co_await wakeup.wait();
        order += name;
    }

    Wakeup wakeup;
    HandshakeTurns::Place place;
    char name;
};

struct TurnWorld {
    // Handshakes that are ready now; `names` has a letter for each.
    void begin(const std::string& names) {
        for (const char name : names) {
            steppers.push_back(std::make_unique<Stepper>(io.get_executor(), name));
            spawn_vital(io.get_executor(), steppers.back()->run(turns, order));
        }
    }
    // A turn in which they become ready. Only inside the loop.
    void run_turn(const std::string& names = "") {
        turn.run([&] { begin(names); });
    }
    template <class Events>
    void in_loop(Events events) {
        asio::post(io, events);
        io.restart();
        while (io.poll() > 0) {
        }
    }

    asio::io_context io{1};
    Turn& turn = Turn::of(io.get_executor());
    HandshakeTurns turns{io.get_executor()};
    std::string order;
    std::vector<std::unique_ptr<Stepper>> steppers;
};

}  // namespace

TEST_CASE("tls_handshake: afterwards the connection speaks TLS, and the arrival says so") {
    World world;
    world.shake_hands();
    REQUIRE(world.end == End::complete);
    CHECK(world.handshake->arrival().is_https);
    CHECK(world.handshake->arrival().certificate == nullptr);
    CHECK(world.handshake->arrival().peer.address->to_string() == "203.0.113.7");
    CHECK_FALSE(world.handshake->is_resumed());
    const ConnectionPtr connection = world.handshake->take_connection();
    REQUIRE(connection->tls() != nullptr);
    world.peer->say("GET");
    world.settle();
    std::string into(100, '\0');
    CHECK(connection->read_some(into).bytes == 3);
}

TEST_CASE("tls_handshake: a client whose bytes come one by one is served, with what follows them") {
    World world;
    for (int i = 0; i < 10 && SSL_is_init_finished(world.peer->native()) == 0; ++i) {
        world.peer->receive();
        if (SSL_is_init_finished(world.peer->native()) == 1) world.peer->write("GET");
        for (const char byte : world.peer->to_send()) world.send({&byte, 1});
    }
    REQUIRE(world.end == End::complete);
    const ConnectionPtr connection = world.handshake->take_connection();
    CHECK(connection->readable());
    std::string into(100, '\0');
    CHECK(connection->read_some(into).bytes == 3);
}

TEST_CASE("tls_handshake: a client that comes back resumes its session") {
    World world;
    world.shake_hands();
    REQUIRE(world.end == End::complete);
    world.peer->heard();  // the ticket
    const TlsSessionPtr session(SSL_get1_session(world.peer->native()));
    // Else OpenSSL treats the session as one that was cut off.
    SSL_set_shutdown(world.peer->native(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    world.open();
    REQUIRE(SSL_set_session(world.peer->native(), session.get()) == 1);
    world.shake_hands();
    REQUIRE(world.end == End::complete);
    CHECK(world.handshake->is_resumed());
}

TEST_CASE("tls_handshake: HTTP in the clear is recognised by its method, and stays to be read") {
    for (const std::string request : {"GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0", "M-SEARCH *"}) {
        CAPTURE(request);
        const std::size_t method = request.find(' ');
        World world;
        world.send(request.substr(0, method));
        CHECK_FALSE(world.end.has_value());
        world.send(request.substr(method));
        REQUIRE(world.end == End::plain_http);
        const ConnectionPtr connection = world.handshake->take_connection();
        CHECK(connection->tls() == nullptr);
        std::string into(100, '\0');
        CHECK(connection->read_some(into).bytes == request.size());
    }
}

TEST_CASE("tls_handshake: bytes that are neither TLS nor HTTP have a reason of their own") {
    const std::string binary("\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00", 16);
    for (const auto& [bytes, reason] : std::initializer_list<std::pair<std::string, Failure>>{
             {"PROXY TCP4 203.0.113.7 192.0.2.1 1 2\r\n", Failure::proxy_header},
             {binary, Failure::proxy_header},
             {"SSH-2.0-OpenSSH_9.2\r\n", Failure::not_tls},
             {std::string(100, 'a'), Failure::not_tls},
             {std::string(100, '\0'), Failure::not_tls}}) {
        CAPTURE(bytes);
        World world;
        world.send(bytes);
        REQUIRE(world.end == End::failed);
        CHECK(world.fault().reason == reason);
    }
}

TEST_CASE("tls_handshake: a client that is silent or slow is given up, and silence costs no TLS") {
    World silent;
    silent.pass(4'900ms);
    CHECK_FALSE(silent.end.has_value());
    silent.pass(300ms);
    CHECK(silent.end == End::timeout);
    CHECK(silent.handshake->take_connection()->tls() == nullptr);

    // A byte now and then does not extend the deadline.
    World slow;
    slow.peer->receive();
    const std::string hello = slow.peer->to_send();
    for (std::size_t i = 0; i < 6 && !slow.end; ++i) {
        slow.send(hello.substr(i, 1));
        slow.pass(1s);
    }
    CHECK(slow.end == End::timeout);
}

TEST_CASE(
    "tls_handshake: a client that leaves before its first byte is no fault, later it is one") {
    World silent;
    silent.peer->hang_up();
    silent.settle();
    CHECK(silent.end == End::left);

    World half;
    half.peer->receive();
    half.send(half.peer->to_send().substr(0, 20));
    half.peer->hang_up();
    half.settle();
    REQUIRE(half.end == End::failed);
    CHECK(half.fault().reason == Failure::closed);

    World method;
    method.send("GE");
    method.peer->hang_up();
    method.settle();
    CHECK(method.end == End::left);
}

TEST_CASE("tls_handshake: no common version and an untrusted certificate have different reasons") {
    const test::Authority authority;
    TlsServerSettings newest = settings_of(authority.issue());
    newest.min_version = TlsVersion::tls_1_3;
    World old(&newest);
    SSL_set_max_proto_version(old.peer->native(), TLS1_2_VERSION);
    old.shake_hands();
    REQUIRE(old.end == End::failed);
    CHECK(old.fault().reason == Failure::version);
    CHECK(old.fault().message.find("min_version") != std::string::npos);

    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(version);
        World distrusting;
        SSL_set_max_proto_version(distrusting.peer->native(), version);
        SSL_set_verify(distrusting.peer->native(), SSL_VERIFY_PEER, nullptr);
        distrusting.shake_hands();
        REQUIRE(distrusting.end == End::failed);
        CHECK(distrusting.fault().reason == Failure::refused);
        CHECK(distrusting.fault().message.starts_with("does not accept our certificate"));
    }
}

TEST_CASE("tls_handshake: a client without a common version of HTTP is named as such") {
    const test::Authority authority;
    TlsServerSettings only = settings_of(authority.issue());
    only.http = HttpVersions::http2;
    constexpr std::string_view kHttp11 = "\x08http/1.1";
    for (const std::string_view offered : {std::string_view{}, kHttp11}) {
        CAPTURE(offered);
        World old(&only);
        REQUIRE(SSL_set_alpn_protos(old.peer->native(),
                                    reinterpret_cast<const unsigned char*>(offered.data()),
                                    static_cast<unsigned>(offered.size())) == 0);
        old.shake_hands();
        REQUIRE(old.end == End::failed);
        CHECK(old.fault().reason == Failure::other);
        CHECK(old.fault().message.starts_with("offers no version of HTTP"));
    }
}

TEST_CASE("tls_handshake: the server in force when the first bytes come is the one that answers") {
    World world;
    const test::Authority authority;
    world.server = std::make_unique<TlsServer>(
        *parse_credentials(settings_of(authority.issue("DNS:other.example"))),
        std::make_shared<TicketKeys>(std::vector<std::string>{}, SteadyTime{}));
    world.shake_hands();
    REQUIRE(world.end == End::complete);
    const std::unique_ptr<X509, test::ReleaseOpenSsl> shown(
        SSL_get1_peer_certificate(world.peer->native()));
    CHECK(X509_check_host(shown.get(), "other.example", 0, 0, nullptr) == 1);
}

TEST_CASE("tls_handshake: an evicted handshake ends at once, and its room goes to the newcomer") {
    World world;
    // The same address begins another one, so that it has two.
    const client::HandshakeShares::Place second(world.shares, parse_ip("203.0.113.7"));
    REQUIRE(world.limit.unfinished() == 1);
    CHECK_FALSE(TlsHandshake::evict_for(parse_ip("203.0.113.7"), world.shares));
    {
        const auto room = TlsHandshake::evict_for(parse_ip("203.0.113.8"), world.shares);
        REQUIRE(room);
        world.settle();
        CHECK(world.end == End::evicted);
        char byte = 0;
        CHECK(::recv(world.peer->wire(), &byte, 1, 0) == 0);
        CHECK(world.limit.unfinished() == 1);
    }
    CHECK(world.limit.unfinished() == 0);
}

TEST_CASE("tls_handshake: a drain leaves a moment for what is on its way, a cut none") {
    World comes;
    comes.handshake->on_drain();
    comes.pass(400ms);
    comes.shake_hands();
    CHECK(comes.end == End::complete);

    World silent;
    silent.handshake->on_drain();
    silent.pass(700ms);
    CHECK(silent.end == End::left);

    World cut;
    cut.peer->receive();
    cut.send(cut.peer->to_send());
    cut.handshake->cut_off();
    cut.settle();
    CHECK(cut.end == End::left);
}

TEST_CASE("handshake_shares: the address with most gives up its oldest for one that has fewer") {
    ShareWorld world;
    world.begin(ip(2), 3);
    HandshakeShares::Place* const oldest = world.begin(ip(1));
    HandshakeShares::Place* const second = world.begin(ip(1));
    world.begin(ip(1), 3);
    CHECK(world.shares.find_for(ip(3)) == oldest);
    CHECK(world.shares.find_for(ip(2)) == oldest);
    CHECK(world.shares.find_for(std::nullopt) == oldest);
    oldest->leave();
    CHECK(world.shares.find_for(ip(3)) == second);
}

TEST_CASE("handshake_shares: addresses with as many, or one more, do not give way by turns") {
    ShareWorld world;
    world.begin(ip(1), 3);
    world.begin(ip(2), 2);
    CHECK(world.shares.find_for(ip(1)) == nullptr);
    CHECK(world.shares.find_for(ip(2)) == nullptr);
    // An address does not lose its only one either.
    ShareWorld many;
    for (int i = 1; i <= 9; ++i) many.begin(ip(i));
    CHECK(many.shares.find_for(ip(10)) == nullptr);
    CHECK(HandshakeShares().find_for(ip(1)) == nullptr);
}

TEST_CASE("handshake_shares: a newcomer gets room again and again, until all have as much") {
    ShareWorld world;
    world.begin(ip(1), 100);
    int given = 0;
    while (HandshakeShares::Place* const place = world.shares.find_for(ip(2))) {
        place->leave();
        world.begin(ip(2));
        REQUIRE(++given <= 100);
    }
    CHECK(given == 50);
}

TEST_CASE("handshake_shares: what counts for no address is never given up") {
    ShareWorld world;
    world.begin(std::nullopt, 10);
    CHECK(world.shares.find_for(ip(1)) == nullptr);
    world.begin(ip(2), 2);
    world.places.resize(11);  // the second of it is gone
    CHECK(world.shares.find_for(ip(1)) == nullptr);
}

TEST_CASE("handshake_shares: only addresses with handshakes take memory") {
    ShareWorld world;
    for (int i = 0; i < 200; ++i) world.begin(ip(i), 2);
    CHECK(world.shares.addresses() == 200);
    world.places.clear();
    CHECK(world.shares.addresses() == 0);
}

TEST_CASE("handshake_turns: a turn takes eight steps, and the next ones the rest, in their order") {
    TurnWorld world;
    world.in_loop([&] {
        world.run_turn("abcdefghijklmnopqrst");
        CHECK(world.order == "abcdefgh");
        world.run_turn();
        CHECK(world.order == "abcdefghijklmnop");
        world.run_turn();
        CHECK(world.order == "abcdefghijklmnopqrst");
    });
}

TEST_CASE("handshake_turns: a later handshake does not overtake the queue") {
    TurnWorld world;
    world.in_loop([&] {
        world.run_turn("abcdefghijkl");
        world.turn.run([&] {
            world.begin("XY");
            CHECK(world.order == "abcdefgh");
        });
        CHECK(world.order == "abcdefghijklXY");
    });
}

TEST_CASE("handshake_turns: turns with few handshakes make none wait") {
    TurnWorld world;
    world.in_loop([&] {
        for (const std::string names : {"abcde", "fghijklm", "nop"}) {
            world.order.clear();
            world.run_turn(names);
            CHECK(world.order == names);
        }
    });
}

TEST_CASE("handshake_turns: what is in the queue goes on by itself, outside of turns, too") {
    TurnWorld world;
    world.in_loop([&] {
        world.begin("abcdefghij");
        CHECK(world.order == "abcdefgh");
    });
    CHECK(world.order == "abcdefghij");
}

TEST_CASE("handshake_turns: a handshake that is gone delays no other") {
    TurnWorld world;
    world.in_loop([&] {
        world.run_turn("abcdefghijk");
        world.steppers.erase(world.steppers.begin() + 8, world.steppers.begin() + 10);
        world.run_turn();
        CHECK(world.order == "abcdefghk");
    });
}

}  // namespace tidegate::client_tls_handshake_test
