// Behind a balancer that sends PROXY headers: which client a request has, and which connections are
// closed.
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "free_port.hpp"
#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::proxy_protocol_test {

namespace {

// Version 1, from the client's port 51234 to port 443.
std::string text_header(const std::string& client = "203.0.113.7") {
    const bool v6 = client.find(':') != std::string::npos;
    return std::string("PROXY ") + (v6 ? "TCP6 " : "TCP4 ") + client + " " +
           (v6 ? "2001:db8::1" : "192.0.2.1") + " 51234 443\r\n";
}

// Version 2: command and family, and what follows them.
std::string binary_header(int command, int family, const std::string& rest) {
    return std::string("\r\n\r\n\0\r\nQUIT\n", 12) + static_cast<char>(command) +
           static_cast<char>(family) + static_cast<char>(rest.size() >> 8) +
           static_cast<char>(rest.size() & 0xff) + rest;
}

// From 203.0.113.7:51234 to 192.0.2.1:443
std::string binary_ipv4(const std::string& extensions = "") {
    const std::string ends("\xcb\x00\x71\x07\xc0\x00\x02\x01\xc8\x22\x01\xbb", 12);
    return binary_header(0x21, 0x11, ends + extensions);
}

// From [2001:db8::7]:51234 to [2001:db8::1]:443
std::string binary_ipv6() {
    const std::string zeros(11, '\0');
    return binary_header(0x21, 0x21,
                         "\x20\x01\x0d\xb8" + zeros + "\x07" + "\x20\x01\x0d\xb8" + zeros + "\x01" +
                             std::string("\xc8\x22\x01\xbb", 4));
}

// A Tidegate whose balancer is 127.0.0.1. `more` is the rest of its configuration.
class Balanced {
  public:
    explicit Balanced(const std::string& more, const std::string& listen_more = "")
        : port_(free_port()),
          tidegate_("listen: {address: \"127.0.0.1:" + std::to_string(port_) +
                    "\", proxy_protocol: {from: [127.0.0.1]}" + listen_more + "}\n" + more) {}

    const Tidegate& tidegate() const { return tidegate_; }
    Tidegate& tidegate() { return tidegate_; }
    std::uint16_t port() const { return port_; }

    // A connection that begins with `header`.
    RawClient client(const std::string& header) const {
        RawClient opened(port_);
        opened.send(header);
        return opened;
    }
    Message get(const std::string& header, const std::string& fields = "",
                const std::string& path = "/") const {
        return RawClient(port_).ask(header + get_request(path, fields));
    }
    double refused(const std::string& reason) const {
        return tidegate_.metric("tidegate_proxy_headers_refused_total{reason=\"" + reason + "\"}");
    }

  private:
    std::uint16_t port_;
    Tidegate tidegate_;
};

}  // namespace

TEST_CASE("proxy_protocol: the upstream gets the client and the port that the header names") {
    const Upstream upstream(ok());
    const Balanced balanced(simple(upstream.url()));
    struct Row {
        std::string header;
        std::string client;
    };
    const std::vector<Row> rows{{text_header(), "203.0.113.7"},
                                {text_header("2001:db8::7"), "2001:db8::7"},
                                {binary_ipv4(), "203.0.113.7"},
                                {binary_ipv4(std::string(2'000, '\x04')), "203.0.113.7"},
                                {binary_ipv6(), "2001:db8::7"}};
    for (const Row& row : rows) {
        CAPTURE(row.header);
        CHECK(balanced.get(row.header).status() == 200);
        const Message seen = upstream.last();
        CHECK(seen.field("X-Forwarded-For") == row.client);
        CHECK(seen.field("X-Real-IP") == row.client);
        CHECK(seen.field("X-Forwarded-Port") == "443");
        CHECK(seen.field("X-Forwarded-Proto") == "http");
    }
    const auto log = balanced.tidegate().access_log(rows.size());
    CHECK(std::count_if(log.begin(), log.end(), [](const auto& line) {
              return line.dump().find("\"2001:db8::7\"") != std::string::npos;
          }) == 2);
}

TEST_CASE("proxy_protocol: with LOCAL, UNKNOWN or a Unix socket the balancer is the client") {
    const Upstream upstream(ok());
    const Balanced balanced(simple(upstream.url()));
    const std::string unix_ends = "/run/a.sock" + std::string(205, '\0');
    for (const std::string& header :
         std::vector<std::string>{binary_header(0x20, 0, ""), binary_header(0x21, 0, ""),
                                  binary_header(0x21, 0x31, unix_ends), "PROXY UNKNOWN\r\n",
                                  "PROXY UNKNOWN 203.0.113.7 192.0.2.1 1 2\r\n"}) {
        CAPTURE(header);
        CHECK(balanced.get(header).status() == 200);
        CHECK(upstream.last().field("X-Forwarded-For") == "127.0.0.1");
        CHECK(upstream.last().field("X-Forwarded-Port") == "80");  // the Host names none
    }
}

TEST_CASE("proxy_protocol: a header that comes in two pieces, cut anywhere, is the same") {
    const Upstream upstream(ok());
    const Balanced balanced(simple(upstream.url()));
    for (const std::string& header : {text_header(), binary_ipv6(), binary_ipv4("\x04\x00x")}) {
        for (std::size_t cut = 1; cut <= header.size(); ++cut) {
            CAPTURE(cut);
            auto client = balanced.client(header.substr(0, cut));
            std::this_thread::sleep_for(milliseconds{2});
            CHECK(client.ask(header.substr(cut) + get_request("/")).status() == 200);
            CHECK(upstream.last().field("X-Forwarded-Port") == "443");
        }
    }
}

TEST_CASE("proxy_protocol: requests follow each other behind one header, pipelined ones too") {
    const Upstream upstream(Upstream::answering([](const Message& request) {
        return ok(request.target() + " " + request.field("X-Forwarded-For"));
    }));
    const Balanced balanced(simple(upstream.url()));
    auto client = balanced.client(text_header() + get_request("/1") + get_request("/2"));
    for (const std::string path : {"/1", "/2"}) {
        CHECK(client.response().body == path + " 203.0.113.7");
    }
    CHECK(client.get("/3").body == "/3 203.0.113.7");
    CHECK(client.ask(post_request("/4", "body") + get_request("/5")).body == "/4 203.0.113.7");
    CHECK(client.response().body == "/5 203.0.113.7");
    // A client of the same balancer that comes later.
    CHECK(balanced.get(text_header("203.0.113.8"), "", "/6").body == "/6 203.0.113.8");
}

TEST_CASE("proxy_protocol: a malformed header is closed without an answer") {
    const Upstream upstream(ok());
    const Balanced balanced(simple(upstream.url()));
    const std::vector<std::string> wrong{get_request("/"),
                                         "\r\n" + text_header(),
                                         "PROXY TCP4 203.0.113.7\r\n",
                                         "PROXY UNKNOWN " + std::string(200, 'x'),
                                         binary_header(0x31, 0x11, std::string(12, 'x')),
                                         binary_header(0x21, 0x11, "short"),
                                         binary_header(0x21, 0x11, std::string(5'000, 'x'))};
    double counted = 0;
    for (const std::string& bytes : wrong) {
        CAPTURE(bytes);
        CHECK(balanced.client(bytes + get_request("/")).closed());
        ++counted;
        CHECK_SOON(balanced.refused("malformed") == counted);
    }
    auto half = balanced.client(text_header().substr(0, 20));
    half.finish_sending();
    CHECK(half.closed());
    CHECK_SOON(balanced.refused("malformed") == counted + 1);
    CHECK(upstream.requests() == 0);
    CHECK_SOON(balanced.tidegate().errors().find("its PROXY header is missing") !=
               std::string::npos);
}

TEST_CASE("proxy_protocol: a second header is closed without an answer") {
    const Upstream upstream(ok());
    const Balanced balanced(simple(upstream.url()));
    for (const std::string& first : {text_header(), binary_ipv4()}) {
        for (const std::string& second : {text_header("127.0.0.1"), binary_ipv6()}) {
            CHECK(balanced.client(first + second + get_request("/")).closed());
            auto later = balanced.client(first);
            std::this_thread::sleep_for(milliseconds{20});
            later.send(second + get_request("/"));
            CHECK(later.closed());
        }
    }
    CHECK_SOON(balanced.refused("malformed") == 8);
    CHECK(upstream.requests() == 0);
}

TEST_CASE("proxy_protocol: a peer outside `from` is closed, whatever it sends") {
    const Upstream upstream(ok());
    const Balanced balanced(simple(upstream.url()));
    for (const std::string& bytes : {text_header() + get_request("/"), get_request("/")}) {
        RawClient stranger(balanced.port(), "127.0.0.2");
        stranger.send(bytes);
        CHECK(stranger.closed());
    }
    CHECK_SOON(balanced.refused("peer") == 2);
    CHECK(upstream.requests() == 0);
    CHECK_SOON(balanced.tidegate().errors().find(
                   "a connection from 127.0.0.2, which is not in `proxy_protocol.from`") !=
               std::string::npos);
}

TEST_CASE(
    "proxy_protocol: a listener without proxy_protocol refuses a header and logs how to allow it" *
    only_in_the_clear("the header comes before TLS")) {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    for (const std::string& header : {text_header(), binary_ipv4()}) {
        CHECK(tidegate.client().ask(header + get_request("/")).status() == 400);
    }
    CHECK(upstream.requests() == 0);
    CHECK_SOON(tidegate.errors().find("write `proxy_protocol: {from: [127.0.0.1]}`") !=
               std::string::npos);
}

TEST_CASE("proxy_protocol: a header that comes too late is given up; a health check is no fault") {
    const Upstream upstream(ok());
    const Balanced balanced("timeouts: {tls_handshake: 300ms}\n" + simple(upstream.url()));
    auto silent = balanced.client("");
    auto stalled = balanced.client(text_header().substr(0, 20));
    CHECK(balanced.get(text_header()).status() == 200);
    CHECK(silent.closed());
    CHECK(stalled.closed());
    CHECK_SOON(balanced.refused("timeout") == 2);
    // A balancer that only connects.
    for (int i = 0; i < 5; ++i) balanced.client("").finish_sending();
    CHECK(balanced.get(text_header()).status() == 200);
    CHECK(balanced.refused("timeout") == 2);
    CHECK(balanced.refused("malformed") == 0);
    // Behind its header, a client has client_idle.
    auto idle = balanced.client(text_header());
    std::this_thread::sleep_for(milliseconds{600});
    CHECK(idle.get().status() == 200);
}

TEST_CASE("proxy_protocol: limits by address count the client that the header names") {
    const Upstream upstream(ok());
    const Balanced balanced(simple(upstream.url(), "2/h"));
    for (int i = 0; i < 2; ++i) CHECK(balanced.get(text_header()).status() == 200);
    CHECK(balanced.get(binary_ipv4()).status() == 429);
    CHECK(balanced.get(text_header("::ffff:203.0.113.7")).status() == 429);
    CHECK(balanced.get(text_header("203.0.113.8")).status() == 200);
    CHECK(balanced.get("PROXY UNKNOWN\r\n").status() == 200);
}

TEST_CASE("proxy_protocol: forwarding fields are judged by the client, not by the balancer") {
    const Upstream upstream(ok());
    // The balancer is trusted, and so is another proxy behind it.
    const Balanced balanced(
        "identity: {client_ip: {trusted_proxies: [127.0.0.1, 198.51.100.0/24]}}\n" +
        simple(upstream.url(), "1/h"));
    CHECK(balanced.get(text_header(), "X-Forwarded-For: 192.0.2.77\r\n").status() == 200);
    CHECK(upstream.last().field("X-Forwarded-For") == "203.0.113.7");
    CHECK(balanced.get(text_header(), "X-Forwarded-For: 192.0.2.78\r\n").status() == 429);

    const std::string proxy = text_header("198.51.100.9");
    CHECK(balanced.get(proxy, "X-Forwarded-For: 192.0.2.77\r\n").status() == 200);
    CHECK(upstream.last().field("X-Forwarded-For") == "192.0.2.77, 198.51.100.9");
    CHECK(balanced.get(proxy, "X-Forwarded-For: 192.0.2.77\r\n").status() == 429);
    CHECK(balanced.get(proxy, "X-Forwarded-For: 192.0.2.78\r\n").status() == 200);
}

TEST_CASE("proxy_protocol: upstreams get https as the scheme where the balancer ends TLS") {
    const Upstream upstream(ok());
    const Balanced balanced("forwarding: {forwarded: on}\n" + simple(upstream.url()),
                            ", forwarded_proto: https");
    CHECK(balanced.get(text_header(), "X-Forwarded-Proto: http\r\n").status() == 200);
    CHECK(upstream.last().field("X-Forwarded-Proto") == "https");
    CHECK(upstream.last().field("Forwarded").find("proto=https") != std::string::npos);
}

TEST_CASE("proxy_protocol: connections.per_ip counts the client that the header names") {
    const Upstream upstream(ok());
    const Balanced balanced("connections: {per_ip: 2}\n" + simple(upstream.url()));
    std::vector<RawClient> clients;
    for (const std::string address : {"203.0.113.7", "203.0.113.8", "203.0.113.9"}) {
        for (int i = 0; i < 2; ++i) {
            clients.push_back(balanced.client(text_header(address)));
            CHECK(clients.back().get().status() == 200);
        }
        auto third = balanced.client(text_header(address));
        third.send(get_request("/"));
        const Message answer = third.response();
        CHECK(answer.status() == 503);
        CHECK(answer.field("Retry-After") == "1");
        CHECK(answer.body.find("from this client's address") != std::string::npos);
        CHECK(third.closed());
        CHECK_FALSE(third.was_reset());
    }
    CHECK(balanced.tidegate().metric(
              "tidegate_client_connections_refused_total{reason=\"per_ip\"}") == 3);
    CHECK_SOON(balanced.tidegate().errors().find(
                   "203.0.113.7 has connections.per_ip connections open") != std::string::npos);
    clients.clear();
    CHECK_SOON(balanced.tidegate().metric("tidegate_client_connections") == 0);
    CHECK(balanced.get(text_header()).status() == 200);
}

TEST_CASE("proxy_protocol: connections without a header yet have a quarter of connections.max") {
    const Upstream upstream(ok());
    const Balanced balanced("threads: 1\nconnections: {max: 16}\n" + simple(upstream.url()));
    std::vector<RawClient> silent;
    for (int i = 0; i < 4; ++i) silent.push_back(balanced.client("PROXY TCP4 20"));
    auto refused = balanced.client(text_header() + get_request("/"));
    CHECK(refused.closed());
    CHECK_SOON(balanced.refused("too_many") == 1);
    silent.pop_back();
    CHECK_SOON([&] {
        auto another = balanced.client(text_header() + get_request("/"));
        return !another.some().empty();
    }());
    std::vector<RawClient> served;
    for (int i = 0; i < 12; ++i) {
        served.push_back(balanced.client(text_header()));
        CHECK(served.back().get().status() == 200);
    }
    // Three that wait, twelve that are served, and one.
    auto last = balanced.client(text_header("203.0.113.8"));
    CHECK(last.get().status() == 200);
    CHECK(silent.front().ask("3.0.113.9 192.0.2.1 1 2\r\n" + get_request("/")).status() == 200);
}

TEST_CASE("proxy_protocol: at connections.max an address with most of them makes room") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (request.target() == "/long") return conversation.wait_for_end();
            if (!conversation.send(ok())) return;
        }
    });
    const Balanced balanced("threads: 1\nconnections: {max: 16}\n" + simple(upstream.url()));
    std::vector<RawClient> holding;
    for (int i = 0; i < 16; ++i) {
        holding.push_back(balanced.client(text_header()));
        CHECK(holding.back().get().status() == 200);
    }
    for (std::size_t i = 0; i < 12; ++i) holding[i].send(get_request("/long"));
    CHECK_SOON(upstream.requests() == 28);
    std::vector<RawClient> others;
    for (int i = 0; i < 4; ++i) {
        others.push_back(balanced.client(text_header("203.0.113.8")));
        CHECK(others.back().get().status() == 200);
    }
    for (std::size_t i = 12; i < 16; ++i) CHECK(holding[i].closed());
    CHECK_SOON(balanced.tidegate().metric("tidegate_client_connections_made_room_total") == 4);
    // None without a request is left of the first, and the second has no more than a quarter.
    auto one_more = balanced.client(text_header("203.0.113.9") + get_request("/"));
    CHECK(one_more.response().status() == 503);
    CHECK_SOON(balanced.tidegate().errors().find("203.0.113.7 has more than a quarter") !=
               std::string::npos);
}

TEST_CASE("proxy_protocol: a program that stops does not wait for headers") {
    const Upstream upstream(ok());
    Balanced balanced("timeouts: {tls_handshake: 1h}\n" + simple(upstream.url()));
    auto silent = balanced.client(text_header().substr(0, 20));
    auto late = balanced.client(text_header().substr(0, 20));
    CHECK(balanced.get(text_header()).status() == 200);
    const auto begin = Clock::now();
    balanced.tidegate().signal(SIGTERM);
    std::this_thread::sleep_for(milliseconds{50});
    CHECK(late.ask(text_header().substr(20) + get_request("/")).status() == 200);
    CHECK(silent.closed());
    CHECK(balanced.tidegate().wait() == 0);
    CHECK(Clock::now() - begin < milliseconds{5'000});
}

TEST_CASE("proxy_protocol: on a Unix socket the header names the client, too") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "t.sock").string();
    const Tidegate tidegate("listen: {address: \"unix:" + path + "\", proxy_protocol: on}\n" +
                            simple(upstream.url(), "1/h"));
    const auto status = [&](const std::string& header) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        REQUIRE(::connect(descriptor, reinterpret_cast<const sockaddr*>(&address),
                          sizeof address) == 0);
        Socket socket(descriptor);
        socket.send(header + get_request("/"));
        MessageReader reader(socket);
        return reader.response().status();
    };
    CHECK(status(text_header()) == 200);
    CHECK(upstream.last().field("X-Forwarded-For") == "203.0.113.7");
    CHECK(status(binary_ipv4()) == 429);
    CHECK(status(text_header("203.0.113.8")) == 200);
}

TEST_CASE("proxy_protocol: a gateway behind a balancer is the one that the header names") {
    const Balanced balanced("limits: [1/h]\n",
                            ", face: forward_auth, dialect: nginx, from: 198.51.100.0/24");
    const std::string question =
        "X-Original-URI: /\r\nX-Original-Method: GET\r\nX-Forwarded-For: 203.0.113.7\r\n";
    CHECK(balanced.get(text_header("198.51.100.9"), question).status() == 200);
    CHECK(balanced.get(text_header("203.0.113.9"), question).status() == 403);
    CHECK(balanced.get("PROXY UNKNOWN\r\n", question).status() == 403);
}

}  // namespace tidegate::test::proxy_protocol_test
