#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "client/unserved_connections.hpp"
#include "failing_memory.hpp"
#include "unit/client_waiting_world.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::client_unserved_connections_test {

using namespace std::chrono_literals;
using client::ConnectionRefusal;
using client::ProxyHeaderWait;
using client::RefusedConnections;
using End = ProxyHeaderWait::End;

namespace {

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

// The client's end of a connection that was just accepted.
class Client {
  public:
    Client() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
        ours_ = Descriptor(ends[0]);
        accepted = Descriptor(ends[1]);
    }

    // The bytes that came so far.
    std::string heard() const {
        std::array<char, 4'096> block;
        const ssize_t bytes = ::recv(ours_.get(), block.data(), block.size(), 0);
        return {block.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
    }
    // Whether the other end takes what is sent; it does not once it is closed.
    bool can_send(const std::string& bytes) const {
        return ::send(ours_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(bytes.size());
    }
    void leave() { ours_ = Descriptor(); }

    Descriptor accepted;

  private:
    Descriptor ours_;
};

struct Rig {
    client::Metrics metrics;
    RefusedConnections refused{metrics};
    int ids = 0;
    SteadyTime start{};

    void add(Client& client, std::optional<ConnectionRefusal> reason = ConnectionRefusal::per_ip,
             std::chrono::milliseconds at = 0ms) {
        const std::string number = std::to_string(++ids);
        const std::string id =
            std::string(RefusedConnections::kIdBytes - number.size(), '0') + number;
        refused.add({.descriptor = std::move(client.accepted),
                     .reason = reason,
                     .peer = std::nullopt,
                     .request_id = id,
                     .date_line = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
                     .more_lines = "X-A: 1\r\nX-B: 2\r\n"},
                    start + at);
    }
};

std::string after(const std::string& text, const std::string& mark, std::size_t size) {
    const auto at = text.find(mark);
    return at == std::string::npos ? "" : text.substr(at + mark.size(), size);
}

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

TEST_CASE("refused_connections: the answer says which bound is reached, and names the request") {
    Rig rig;
    Client by_address;
    Client by_max;
    rig.add(by_address, ConnectionRefusal::per_ip);
    rig.add(by_max, ConnectionRefusal::max);
    const std::string one = by_address.heard();
    const std::string other = by_max.heard();
    for (const std::string& answer : {one, other}) {
        CHECK(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
        CHECK(answer.find("\r\nContent-Type: application/problem+json\r\n") != std::string::npos);
        CHECK(answer.find("\r\nRetry-After: 1\r\n") != std::string::npos);
        CHECK(answer.find("\r\nConnection: close\r\n") != std::string::npos);
        CHECK(answer.find("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n") != std::string::npos);
        CHECK(answer.find("\r\nX-A: 1\r\nX-B: 2\r\n\r\n{") != std::string::npos);
        const std::string body = answer.substr(answer.find("\r\n\r\n") + 4);
        CHECK(after(answer, "Content-Length: ", 3) == std::to_string(body.size()));
        CHECK(after(body, R"("status":)", 3) == "503");
        CHECK(after(answer, "X-Request-Id: ", 32) == after(body, R"("request_id":")", 32));
    }
    CHECK(one.find("this client's address") != std::string::npos);
    CHECK(other.find("this client's address") == std::string::npos);
    const std::string id = after(one, "X-Request-Id: ", 32);
    CHECK(id == "00000000000000000000000000000001");
    CHECK(after(other, "X-Request-Id: ", 32) == "00000000000000000000000000000002");
}

TEST_CASE("refused_connections: plain HTTP where TLS is spoken gets an answer that says so") {
    Rig rig;
    Client client;
    REQUIRE(client.can_send("GET / HTTP/1.1\r\n\r\n"));
    rig.add(client, std::nullopt);
    const std::string answer = client.heard();
    CHECK(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"));
    CHECK(answer.find("\r\nConnection: close\r\n") != std::string::npos);
    CHECK(answer.find("Retry-After") == std::string::npos);
    CHECK(answer.find("retry_after") == std::string::npos);
    const std::string body = answer.substr(answer.find("\r\n\r\n") + 4);
    CHECK(after(answer, "Content-Length: ", 3) == std::to_string(body.size()));
    CHECK(body.find("This port speaks TLS: use https.") != std::string::npos);
    // It is counted among the handshakes.
    CHECK(test::text_of(rig.metrics).find("refused_total{reason=\"max\"} 0\n") !=
          std::string::npos);
}

TEST_CASE("refused_connections: a client of TLS gets no answer, and is counted") {
    Rig rig;
    Client client;
    rig.refused.add_unanswered(ConnectionRefusal::new_per_ip, std::move(client.accepted),
                               std::nullopt, rig.start);
    CHECK(client.heard().empty());
    CHECK_FALSE(client.can_send("x"));
    CHECK(rig.refused.kept() == 0);
    CHECK(test::text_of(rig.metrics).find("refused_total{reason=\"new_per_ip\"} 1\n") !=
          std::string::npos);
}

TEST_CASE(
    "refused_connections: an answer sent before the close arrives, whatever the client sends") {
    Rig rig;
    Client client;
    REQUIRE(::send(client.accepted.get(), "alert", 5, MSG_NOSIGNAL) == 5);
    rig.refused.part_from(std::move(client.accepted), rig.start);
    CHECK(client.can_send("late"));
    rig.refused.sweep(rig.start + 50ms);
    CHECK(client.heard() == "alert");
    rig.refused.sweep(rig.start + RefusedConnections::kKept);
    CHECK_FALSE(client.can_send("x"));
}

TEST_CASE("refused_connections: each reason has a counter of its own") {
    Rig rig;
    std::array<Client, 3> clients;
    rig.add(clients[0], ConnectionRefusal::max);
    rig.add(clients[1], ConnectionRefusal::per_ip);
    rig.add(clients[2], ConnectionRefusal::per_ip);
    const std::string text = test::text_of(rig.metrics);
    CHECK(text.find("refused_total{reason=\"max\"} 1\n") != std::string::npos);
    CHECK(text.find("refused_total{reason=\"per_ip\"} 2\n") != std::string::npos);
}

TEST_CASE(
    "refused_connections: the proxy reads a request that comes late, so that no reset destroys the "
    "answer") {
    Rig rig;
    Client client;
    rig.add(client);
    CHECK(client.can_send("GET / HTTP/1.1\r\n\r\n"));
    rig.refused.sweep(rig.start + 50ms);
    CHECK(client.can_send("more"));
    CHECK(client.heard().starts_with("HTTP/1.1 503"));
    CHECK(rig.refused.kept() == 1);
}

TEST_CASE(
    "refused_connections: a connection is closed when its client closes, or when its time is "
    "over") {
    Rig rig;
    Client leaves;
    Client stays;
    Client gone;
    gone.leave();
    rig.add(leaves);
    rig.add(stays);
    rig.add(gone);
    CHECK(rig.refused.kept() == 2);
    leaves.leave();
    rig.refused.sweep(rig.start + 50ms);
    CHECK(rig.refused.kept() == 1);
    rig.refused.sweep(rig.start + RefusedConnections::kKept - 1ms);
    CHECK(rig.refused.kept() == 1);
    rig.refused.sweep(rig.start + RefusedConnections::kKept);
    CHECK(rig.refused.kept() == 0);
    CHECK_FALSE(stays.can_send("x"));
}

TEST_CASE("refused_connections: a connection for which there is no memory is closed") {
    std::optional<Rig> rig;
    std::optional<Client> client;
    const auto renew = [&] {
        rig.emplace();
        client.emplace();
    };
    renew();
    const int failed = test::fail_each_allocation([&] { rig->add(*client); },
                                                  [&] {
                                                      client->accepted = Descriptor();
                                                      CHECK_FALSE(client->can_send("x"));
                                                      CHECK(rig->refused.kept() == 0);
                                                      renew();
                                                  });
    CHECK(failed > 0);
}

TEST_CASE("refused_connections: a client that never stops sending is closed all the same") {
    Rig rig;
    Client client;
    rig.add(client);
    const std::string block(4'096, 'x');
    while (client.can_send(block)) {
    }
    rig.refused.sweep(rig.start + 50ms);  // ends
    rig.refused.sweep(rig.start + RefusedConnections::kKept);
    CHECK(rig.refused.kept() == 0);
}

TEST_CASE("refused_connections: of a flood, only the last kKeptMax connections are kept") {
    Rig rig;
    std::vector<Client> clients(RefusedConnections::kKeptMax + 10);
    for (Client& client : clients) rig.add(client);
    CHECK(rig.refused.kept() == RefusedConnections::kKeptMax);
    CHECK_FALSE(clients.front().can_send("x"));
    CHECK(clients.back().can_send("x"));
    for (const Client& client : clients) CHECK(client.heard().starts_with("HTTP/1.1 503"));
    rig.refused.close_all();
    CHECK(rig.refused.kept() == 0);
    CHECK_FALSE(clients.back().can_send("x"));
}

}  // namespace tidegate::client_unserved_connections_test
