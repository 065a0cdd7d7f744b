// Clients that stop, repeat or break TLS wherever it hurts a listener most.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"
#include "integration/tls_wire.hpp"

namespace tidegate::test::listener_tls_hostile_test {

namespace {

// A Tidegate that answers 200 to everything, and a test of whether it still does.
struct Attacked {
    explicit Attacked(const std::string& more = "", const std::string& tls_more = "")
        : proxy(world, certificates({world.keep("own")}) + tls_more,
                more + simple(upstream.url())) {}

    Wire wire(const Speaking& how = {}) const { return {world, proxy.port(), how}; }
    double connections() const { return proxy.tidegate().metric("tidegate_client_connections"); }
    double failed(const std::string& reason) const {
        return proxy.tidegate().metric("tidegate_tls_handshakes_failed_total{reason=\"" + reason +
                                       "\"}");
    }
    // It lives, has given all connections back, and serves clients.
    void check_alive() {
        CHECK(proxy.tidegate().running());
        CHECK_SOON(connections() == 0);
        CHECK(proxy.get().status() == 200);
    }

    TlsWorld world;
    Upstream upstream{ok()};
    TlsProxy proxy;
};

Speaking only(int version) {
    Speaking how;
    how.oldest = how.newest = version;
    return how;
}

// What an answer may take on a machine that is busy with other tests, too.
constexpr milliseconds kSoon{5'000};

// Room for many sockets.
void raise_descriptors() {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

}  // namespace

TEST_CASE("listener tls hostile: a handshake may end at any byte of the client's first message") {
    Attacked attacked;
    const std::string hello = hello_of(attacked.world);
    REQUIRE(hello.size() > 100);
    for (std::size_t size = 0; size <= hello.size(); ++size) {
        CAPTURE(size);
        Socket cut = Socket::connect(attacked.proxy.port());
        cut.send(hello.substr(0, size));
        if (size % 2 == 0) {
            cut.finish_sending();
        } else {
            cut.reset();
        }
    }
    attacked.check_alive();
    CHECK(attacked.upstream.requests() == 1);
}

TEST_CASE("listener tls hostile: a handshake may end at any byte of the client's last message") {
    Attacked attacked;
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(version);
        std::size_t size = 1;
        for (std::size_t cut = 0; cut < size; ++cut) {
            CAPTURE(cut);
            Wire wire = attacked.wire(only(version));
            wire.socket.send(wire.next());
            std::string last;
            while (last.empty() && wire.hear()) last = wire.next();
            size = last.size();
            wire.socket.send(last.substr(0, cut));
            if (cut % 2 == 0) wire.socket.reset();
        }
        CHECK(size > 50);
    }
    attacked.check_alive();
    CHECK(attacked.upstream.requests() == 1);
}

TEST_CASE("listener tls hostile: a handshake that comes byte by byte, or in tiny records, is one") {
    Attacked attacked;
    {
        Wire slow = attacked.wire();
        for (const char byte : slow.next()) slow.socket.send({&byte, 1});
        REQUIRE(slow.hear());
        CHECK(slow.shake());
        CHECK(slow.is_served());
        // The message in records of one byte each: accepted or not, the handshake must end.
        Wire tiny = attacked.wire();
        const std::string hello = tiny.next();
        std::string records;
        for (const char byte : hello.substr(5)) records += hello.substr(0, 3) + '\0' + '\1' + byte;
        tiny.socket.send(records);
        if (tiny.hear() && tiny.shake()) CHECK(tiny.is_served());
    }
    attacked.check_alive();
}

TEST_CASE("listener tls hostile: a handshake that stalls is closed at its deadline") {
    Attacked attacked("timeouts: {tls_handshake: 2s, client_idle: 1h}\n");
    Wire established = attacked.wire();
    REQUIRE(established.shake());
    const auto begin = Clock::now();
    Socket silent = Socket::connect(attacked.proxy.port());
    Wire half = attacked.wire();
    half.socket.send(half.next().substr(0, 40));
    Wire unfinished = attacked.wire();
    unfinished.socket.send(unfinished.next());
    // Bytes that drip are no progress.
    Wire dripping = attacked.wire();
    const std::string hello = dripping.next();
    std::jthread drip([&] {
        for (const char byte : hello.substr(0, 100)) {
            if (!dripping.socket.send({&byte, 1})) return;
            std::this_thread::sleep_for(milliseconds{100});
        }
    });
    CHECK(silent.receive().empty());
    CHECK(half.socket.receive().empty());
    while (!unfinished.socket.receive().empty()) {
    }
    while (!dripping.socket.receive().empty()) {
    }
    CHECK(Clock::now() - begin < milliseconds{8'000});  // long before all has dripped
    drip.join();
    CHECK_SOON(attacked.failed("timeout") == 4);
    // Behind the handshake, a client has client_idle.
    CHECK(established.is_served());
    established.socket.reset();
    attacked.check_alive();
}

TEST_CASE("listener tls hostile: a thousand unfinished handshakes keep no client waiting") {
    raise_descriptors();
    Attacked attacked("timeouts: {tls_handshake: 1min, client_idle: 1min}\n");
    std::vector<RawClient> established;
    for (int i = 0; i < 8; ++i) {
        established.push_back(attacked.proxy.client());
        CHECK(established.back().get().status() == 200);
    }
    milliseconds slowest{0};
    std::atomic<int> served{0};
    std::jthread clients([&](const std::stop_token& over) {
        while (!over.stop_requested()) {
            for (RawClient& client : established) {
                const auto begin = Clock::now();
                try {
                    if (client.get().status() == 200) ++served;
                } catch (const std::exception&) {
                    return;  // `served` stays behind
                }
                slowest = std::max(slowest,
                                   std::chrono::duration_cast<milliseconds>(Clock::now() - begin));
            }
        }
    });
    // Each makes the server sign, and then sends nothing more.
    const std::string hello = hello_of(attacked.world);
    std::vector<Socket> flood;
    for (int i = 0; i < 1'000; ++i) {
        flood.push_back(Socket::connect(attacked.proxy.port()));
        flood.back().send(hello);
    }
    for (int i = 0; i < 5; ++i) {
        const auto begin = Clock::now();
        CHECK(attacked.proxy.get().status() == 200);
        CHECK(Clock::now() - begin < kSoon);
    }
    const int before = served;
    await("further answers", [&] { return served > before + 80; });
    clients.request_stop();
    clients.join();
    CHECK(slowest < kSoon);
    flood.clear();
    established.clear();
    attacked.check_alive();
}

TEST_CASE("listener tls hostile: unfinished handshakes have a quarter of the room, and no more") {
    Attacked attacked("threads: 1\nconnections: {max: 16}\ntimeouts: {tls_handshake: 1min}\n");
    {
        std::list<Wire> silent;
        for (int i = 0; i < 4; ++i) {
            silent.emplace_back(attacked.world, attacked.proxy.port());
            silent.back().socket.send(silent.back().next().substr(0, 40));
        }
        // Closed unread: the client of another handshake gets no answer.
        CHECK_SOON(!attacked.proxy.refusal().empty());
        CHECK(attacked.failed("too_many") >= 1);
        silent.pop_back();
        CHECK_SOON(attacked.proxy.refusal().empty());
    }
    attacked.check_alive();
}

TEST_CASE("listener tls hostile: an address with all unfinished handshakes makes room for others") {
    Attacked attacked("threads: 1\nconnections: {max: 16}\ntimeouts: {tls_handshake: 1min}\n");
    {
        std::list<Wire> silent;
        for (int i = 0; i < 4; ++i) {
            silent.emplace_back(attacked.world, attacked.proxy.port());
            silent.back().socket.send(silent.back().next().substr(0, 40));
        }
        CHECK_SOON(!attacked.proxy.refusal().empty());
        Speaking other;
        other.from = "127.0.0.2";
        const double refused = attacked.failed("too_many");
        CHECK(attacked.proxy.get(other).status() == 200);
        CHECK_FALSE(silent.front().hear());
        CHECK(attacked.failed("too_many") == refused + 1);
        CHECK_SOON(attacked.proxy.tidegate().errors().find("closed a connection from 127.0.0.1") !=
                   std::string::npos);
    }
    attacked.check_alive();
}

TEST_CASE("listener tls hostile: a client that renegotiates is not served any longer") {
    Attacked attacked;
    {
        Wire wire = attacked.wire(only(TLS1_2_VERSION));
        REQUIRE(wire.shake());
        CHECK(wire.is_served());
        REQUIRE(SSL_renegotiate(wire.tls.native()) == 1);
        SSL_do_handshake(wire.tls.native());
        wire.socket.send(wire.tls.sealed());
        CHECK(wire.heard().empty());
        const std::string fault = wire.tls.fault();
        CHECK_MESSAGE((fault.empty() || fault.find("no renegotiation") != std::string::npos),
                      fault);
    }
    attacked.check_alive();
}

TEST_CASE("listener tls hostile: key updates without data between them close the connection") {
    Attacked attacked;
    {
        Wire flood = attacked.wire(only(TLS1_3_VERSION));
        REQUIRE(flood.shake());
        CHECK(flood.is_served());
        for (int i = 0; i < 100; ++i) flood.update_key();
        flood.ask(get_request("/"));
        CHECK(flood.heard().empty());
        // A client that goes on with its work may update its key as often as it likes.
        Wire busy = attacked.wire(only(TLS1_3_VERSION));
        REQUIRE(busy.shake());
        for (int i = 0; i < 100; ++i) {
            busy.update_key();
            CHECK(busy.is_served());
        }
    }
    attacked.check_alive();
    CHECK(attacked.upstream.requests() == 102);
}

TEST_CASE("listener tls hostile: records that are too long, or no records, are refused") {
    Attacked attacked;
    const std::string body(70'000, 'x');
    // Type, version and a length of more than 2^14 + 256, resp. + 2048.
    const std::string long_hello = std::string("\x16\x03\x01\x48\x01", 5) + body;
    const std::string long_data = std::string("\x17\x03\x03\x48\x01", 5) + body;
    for (const std::string& bytes :
         {long_hello, long_data, std::string("\x16\x03\x01\xff\xff", 5) + body,
          std::string("\x80\x2e\x01\x03\x01", 5) + body, std::string(5'000, '\0'),
          std::string("\x15\x03\x01\x00\x02\x01\x00", 7), std::string("\r\n\r\n"),
          std::string("SSH-2.0-x\r\n"), body}) {
        CAPTURE(bytes.substr(0, 8));
        Socket socket = Socket::connect(attacked.proxy.port());
        socket.send(bytes);
        socket.finish_sending();
        while (!socket.receive().empty()) {
        }
    }
    // In an established connection: what cannot be decrypted, too.
    for (const std::string& bytes : {long_data, std::string("\x17\x03\x03\x00\x20", 5) + body}) {
        Wire wire = attacked.wire();
        REQUIRE(wire.shake());
        CHECK(wire.is_served());
        wire.socket.send(bytes);
        CHECK(wire.heard().empty());
    }
    attacked.check_alive();
    CHECK(attacked.upstream.requests() == 3);
}

TEST_CASE("listener tls hostile: warnings and empty records without end are given up") {
    Attacked attacked;
    {
        Wire wire = attacked.wire(only(TLS1_2_VERSION));
        wire.socket.send(wire.next());
        const std::string warning("\x15\x03\x03\x00\x02\x01\x5a", 7);  // user_canceled
        std::string many;
        for (int i = 0; i < 1'000; ++i) many += warning;
        wire.socket.send(many);
        while (!wire.socket.receive().empty()) {
        }
        std::string empty;
        for (int i = 0; i < 1'000; ++i) empty += std::string("\x16\x03\x01\x00\x00", 5);
        Wire nothing = attacked.wire();
        nothing.socket.send(empty);
        while (!nothing.socket.receive().empty()) {
        }
    }
    attacked.check_alive();
}

TEST_CASE(
    "listener tls hostile: an address may open so many connections in a second, others go on") {
    Attacked attacked("connections: {new_per_ip: 2/s}\n");
    // All at once, before any handshake: one after the other may take longer than the rate allows.
    std::vector<Socket> flood;
    for (int i = 0; i < 20; ++i) {
        flood.push_back(Socket::connect(attacked.proxy.port(), "127.0.0.2"));
    }
    int refused = 0;
    for (Socket& one : flood) {
        if (!one.begin_tls(attacked.world.make_client({}))) ++refused;
    }
    CHECK(refused > 0);
    flood.clear();
    CHECK_SOON(attacked.proxy.tidegate().metric(
                   "tidegate_client_connections_refused_total{reason=\"new_per_ip\"}") == refused);
    attacked.check_alive();
}

}  // namespace tidegate::test::listener_tls_hostile_test
