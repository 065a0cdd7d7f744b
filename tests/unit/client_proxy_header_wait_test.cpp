#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "client/proxy_header_wait.hpp"
#include "unit/client_waiting_world.hpp"

namespace tidegate::client_proxy_header_wait_test {

using client::ProxyHeaderWait;
using End = ProxyHeaderWait::End;

namespace {

using namespace std::chrono_literals;

const std::string kText = "PROXY TCP4 203.0.113.7 192.0.2.1 51234 443\r\n";
// LOCAL with an extension of three bytes.
const std::string kLocal("\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x06\x04\x00\x03zzz", 22);

// A connection that waits for its header, and the balancer's end of it.
struct World : client::WaitingWorld {
    World() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
                0);
        far = ends[1];
        wait = std::make_unique<ProxyHeaderWait>(
            io.get_executor(), wheel, ConnectionPtr(new Connection(readiness, ends[0])),
            client::Arrival{.peer = {parse_ip("10.0.0.9")}, .local_port = 8080});
        begin(wait->run(5s), end);
    }
    ~World() {
        wait->cut_off();
        settle();
        hang_up();
    }

    void send(std::string_view bytes) {
        REQUIRE(::send(far, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
        settle();
    }
    void hang_up() {
        if (far >= 0) ::close(std::exchange(far, -1));
        settle();
    }
    std::string peer() const { return wait->arrival().peer.address->to_string(); }

    std::unique_ptr<ProxyHeaderWait> wait;
    std::optional<End> end;
    int far = -1;
};

}  // namespace

TEST_CASE("proxy_header_wait: the header names the peer and the port, cut at any byte") {
    for (std::size_t cut = 1; cut <= kText.size(); ++cut) {
        CAPTURE(cut);
        World world;
        world.send(kText.substr(0, cut));
        CHECK(world.end.has_value() == (cut == kText.size()));
        world.pass(4'900ms);
        if (cut < kText.size()) world.send(kText.substr(cut));
        REQUIRE(world.end == End::complete);
        CHECK(world.peer() == "203.0.113.7");
        CHECK(world.wait->arrival().local_port == 443);
        CHECK(world.wait->arrival().has_proxy_header);
    }
}

TEST_CASE("proxy_header_wait: a header without an address leaves the peer as it is") {
    for (const std::string& header : {kLocal, std::string("PROXY UNKNOWN\r\n")}) {
        World world;
        world.send(header);
        REQUIRE(world.end == End::complete);
        CHECK(world.peer() == "10.0.0.9");
        CHECK(world.wait->arrival().local_port == 8080);
    }
}

TEST_CASE("proxy_header_wait: what follows the header is there to be read, and nothing else is") {
    for (const std::string& header : {kLocal, kText}) {
        World world;
        world.send(header + "GET");
        REQUIRE(world.end == End::complete);
        const ConnectionPtr connection = world.wait->take_connection();
        CHECK(connection->readable());
        std::string into(100, '\0');
        CHECK(connection->read_some(into).bytes == 3);
        CHECK(into.starts_with("GET"));

        World alone;
        alone.send(header);
        const ConnectionPtr silent = alone.wait->take_connection();
        CHECK_FALSE(silent->readable());
        alone.send("G");
        CHECK(silent->readable());
    }
}

TEST_CASE("proxy_header_wait: a header that does not come to its end in time is given up") {
    World silent;
    silent.pass(4'900ms);
    CHECK_FALSE(silent.end.has_value());
    silent.pass(300ms);
    CHECK(silent.end == End::timeout);

    // A byte now and then does not extend the deadline.
    World slow;
    for (std::size_t i = 0; i < 6 && !slow.end; ++i) {
        slow.send(kText.substr(i, 1));
        slow.pass(1s);
    }
    CHECK(slow.end == End::timeout);
}

TEST_CASE("proxy_header_wait: bytes that are no header, or no whole one, are malformed") {
    World other;
    other.send("GET / HTTP/1.1\r\n\r\n");
    CHECK(other.end == End::malformed);
    CHECK(other.wait->fault() == "is missing");

    World half;
    half.send(kText.substr(0, 20));
    CHECK_FALSE(half.end.has_value());
    half.hang_up();
    CHECK(half.end == End::malformed);
    CHECK(half.wait->fault() == "is not whole");
}

TEST_CASE("proxy_header_wait: a peer that says nothing and leaves is no fault") {
    World world;
    world.hang_up();
    CHECK(world.end == End::left);
}

TEST_CASE("proxy_header_wait: a request is served though the balancer closes its side after it") {
    World world;
    REQUIRE(::send(world.far, kText.data(), kText.size(), MSG_NOSIGNAL) > 0);
    world.hang_up();
    REQUIRE(world.end == End::complete);
    CHECK(world.wait->take_connection()->readable());
}

TEST_CASE("proxy_header_wait: a drain leaves a moment for what is on its way") {
    World comes;
    comes.wait->on_drain();
    comes.pass(400ms);
    CHECK_FALSE(comes.end.has_value());
    comes.send(kText);
    CHECK(comes.end == End::complete);

    World silent;
    silent.wait->on_drain();
    silent.pass(700ms);
    CHECK(silent.end == End::left);

    World cut;
    cut.wait->cut_off();
    cut.settle();
    CHECK(cut.end == End::left);
}

}  // namespace tidegate::client_proxy_header_wait_test
