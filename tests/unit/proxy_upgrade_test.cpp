// WebSockets over HTTP/2 (RFC 8441): an extended CONNECT on this side, a handshake of HTTP/1.1 on
// the other.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "proxy/request.hpp"
#include "proxy/tunnel.hpp"
#include "unit/proxy_world.hpp"
#include "unit/upstream_world.hpp"

namespace tidegate::proxy::upgrade_test {

namespace {

constexpr std::string_view kVersion13 = "sec-websocket-version: 13\r\n";
const std::string kTakesWebSockets =
    "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes:\n"
    "  - {upgrade: [websocket], policies: []}\n";
const std::string kTakesNone = "upstream: http://127.0.0.1:3000\n";

// An extended CONNECT, as its stream gives it: it looks like a GET.
struct Connect {
    explicit Connect(std::string_view fields = kVersion13,
                     const std::string& yaml = kTakesWebSockets,
                     std::string_view protocol = "websocket")
        : world(yaml), request(world, get(std::string(fields))), x(request.exchange) {
        x.facts.is_http2 = true;
        x.facts.protocol = protocol;
        REQUIRE(request.decide() == Fault::none);
    }

    std::string key() const {
        const std::string name = "\r\nSec-WebSocket-Key: ";
        const std::size_t at = asked.find(name);
        REQUIRE(at != std::string::npos);
        return asked.substr(at + name.size(), asked.find("\r\n", at + 2) - at - name.size());
    }

    World world;
    Request request;
    Exchange& x;
    std::string asked;  // that the upstream gets
};

// The same with an upstream at the other end of a socket.
struct Handshake : Connect {
    explicit Handshake(std::string_view fields = kVersion13) : Connect(fields) {
        REQUIRE(check_upgrade(x) == Fault::none);
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
                0);
        far = ends[1];
        x.upstream->stream.open(*to, ConnectionPtr(new Connection(world.readiness, ends[0])),
                                false);
        settle();
        x.upstream->stream.allow_switch();
        asked = write_request_head(x, "127.0.0.1:3000");
        REQUIRE(x.upstream->stream.send({}, {}) == IoStatus::ok);
    }
    ~Handshake() {
        x.upstream->stream.cancel();
        x.upstream->stream.http1().release();
        ::close(far);
    }

    void settle() {
        world.io.restart();
        world.io.poll();
    }
    void answer(const std::string& bytes) {
        REQUIRE(::send(far, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
        settle();
        REQUIRE(x.upstream->stream.read_head({16'384, 100, 16'384}, x.client->sleeper().wakeup()) ==
                upstream::Http1Stream::Head::complete);
    }
    void switch_with(const std::string& accept, const std::string& more = "") {
        answer(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Accept: " +
            accept + "\r\n" + more + "\r\n");
    }

    upstream::ServerPtr to{new upstream::Server(
        std::make_shared<upstream::SharedServer>(upstream::server_at("127.0.0.1", 3000),
                                                 upstream::endpoint_at("127.0.0.1", 3000), 1),
        0)};
    int far = -1;
};

std::size_t count_of(const std::string& text, std::string_view part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
    return count;
}

}  // namespace

TEST_CASE("upgrade: an extended CONNECT goes on as a handshake with a key of the proxy's") {
    const Handshake opened(
        "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        "sec_websocket_key: x\r\nsec-websocket-protocol: chat\r\n"
        "sec-websocket-extensions: permessage-deflate\r\norigin: https://a.example\r\n");
    CHECK(opened.x.relay.is_upgrade);
    CHECK(opened.asked.starts_with("GET / HTTP/1.1\r\nHost: api.example\r\n"));
    CHECK(has(opened.asked, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"));
    CHECK(has(opened.asked, "\r\nsec-websocket-version: 13\r\n"));
    CHECK(has(opened.asked, "\r\nsec-websocket-protocol: chat\r\n"));
    CHECK(has(opened.asked, "\r\nsec-websocket-extensions: permessage-deflate\r\n"));
    CHECK(has(opened.asked, "\r\norigin: https://a.example\r\n"));
    CHECK(has(opened.asked, "\r\nVia: 2.0 tidegate\r\n"));
    CHECK(opened.key() == opened.x.upstream->websocket_key);
    CHECK_FALSE(has(opened.asked, "dGhlIHNhbXBsZSBub25jZQ=="));
    CHECK_FALSE(has(opened.asked, "sec_websocket_key"));
    CHECK_FALSE(has(opened.asked, "sec-websocket-key"));
    CHECK_FALSE(has(opened.asked, "Content-Length"));
    CHECK_FALSE(has(opened.asked, "Transfer-Encoding"));
}

TEST_CASE("upgrade: a 101 is accepted with the value that belongs to the proxy's key") {
    Handshake right;
    right.switch_with(websocket_accept(right.key()));
    CHECK(is_upgrade_accepted(right.x));
    Handshake wrong("sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
    wrong.switch_with("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    CHECK_FALSE(is_upgrade_accepted(wrong.x));
}

TEST_CASE("upgrade: over HTTP/2 a 200 opens the tunnel, without what HTTP/1 says of the change") {
    Handshake opened;
    opened.switch_with(websocket_accept(opened.key()),
                       "Sec-WebSocket-Protocol: chat\r\n"
                       "Sec-WebSocket-Extensions: permessage-deflate\r\n"
                       "Set-Cookie: a=b\r\nContent-Length: 5\r\n");
    const std::string head = write_switch_head(opened.x, opened.x.upstream->stream.head());
    CHECK(head.starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK(has(head, "\r\nSec-WebSocket-Protocol: chat\r\n"));
    CHECK(has(head, "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"));
    CHECK(has(head, "\r\nSet-Cookie: a=b\r\n"));
    for (const std::string name : {"Sec-WebSocket-Accept", "Connection", "Upgrade", "Content-"}) {
        CAPTURE(name);
        CHECK_FALSE(has(head, name));
    }
}

TEST_CASE("upgrade: an extended CONNECT is never anything but a handshake") {
    const auto refused = [](std::string_view fields, const std::string& yaml,
                            std::string_view protocol = "websocket") {
        Connect asked(fields, yaml, protocol);
        const Fault fault = check_upgrade(asked.x);
        CHECK_FALSE(asked.x.relay.is_upgrade);
        return fault;
    };
    CHECK(refused(kVersion13, kTakesNone) == Fault::unsupported_method);
    CHECK(refused(kVersion13, kTakesWebSockets, "connect-udp") == Fault::unsupported_method);
    CHECK(refused("", kTakesWebSockets) == Fault::upgrade_version);
    CHECK(refused("sec-websocket-version: 8\r\n", kTakesWebSockets) == Fault::upgrade_version);
    // A route without WebSockets refuses, whatever the version.
    CHECK(refused("", kTakesNone) == Fault::unsupported_method);
}

TEST_CASE("upgrade: a face consents to no extended CONNECT, which its 200 would open") {
    const auto judged = [](Face face, std::string_view protocol) {
        Connect asked(kVersion13, kTakesWebSockets, protocol);
        asked.x.face = face;
        check_framing(asked.x);
        return asked.x.decision.fault;
    };
    CHECK(judged(Face::proxy, "websocket") == Fault::none);
    CHECK(judged(Face::forward_auth, "websocket") == Fault::unsupported_method);
    CHECK(judged(Face::check, "websocket") == Fault::unsupported_method);
    CHECK(judged(Face::forward_auth, "") == Fault::none);
}

TEST_CASE("upgrade: the answer to another version has no fields of the change over HTTP/2") {
    Connect asked("");
    asked.x.decision.fault = check_upgrade(asked.x);
    const std::string answer = asked.request.refused();
    CHECK(answer.starts_with("HTTP/1.1 426 "));
    CHECK(has(answer, "\r\nSec-WebSocket-Version: 13\r\n"));
    CHECK_FALSE(has(answer, "\r\nUpgrade:"));
    CHECK_FALSE(has(answer, "Connection: Upgrade"));
}

TEST_CASE("upgrade: the fields of an HTTP/1 handshake make no WebSocket of a GET over HTTP/2") {
    const std::string fields =
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    Connect asked(fields, kTakesWebSockets, "");
    CHECK(check_upgrade(asked.x) == Fault::none);
    CHECK_FALSE(asked.x.relay.is_upgrade);
    asked.x.facts.is_http2 = false;
    CHECK(check_upgrade(asked.x) == Fault::none);
    CHECK(asked.x.relay.is_upgrade);
}

TEST_CASE(
    "upgrade: a 2xx to an extended CONNECT would look like an open tunnel, to a GET it would not") {
    const Connect connect;
    for (const int status : {200, 204, 206, 299}) CHECK(passes_for_tunnel(connect.x, status));
    for (const int status : {301, 304, 403, 426, 502}) {
        CHECK_FALSE(passes_for_tunnel(connect.x, status));
    }
    const Connect plain(kVersion13, kTakesWebSockets, "");
    CHECK_FALSE(passes_for_tunnel(plain.x, 200));
    CHECK(ask::traits(Fault::upgrade_ignored).status == 502);
}

TEST_CASE("upgrade: HTTP/1 handshakes keep the key of the client, and have one") {
    World world(kTakesWebSockets);
    Request request(world,
                    get("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"));
    REQUIRE(request.decide() == Fault::none);
    REQUIRE(check_upgrade(request.exchange) == Fault::none);
    const std::string out = write_request_head(request.exchange, "127.0.0.1:3000");
    CHECK(has(out, "\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"));
    CHECK(count_of(out, "Sec-WebSocket-Key") == 1);
    CHECK(request.exchange.upstream->websocket_key.empty());
}

TEST_CASE("upgrade: the next request does not see the key and the protocol") {
    Connect asked;
    REQUIRE(check_upgrade(asked.x) == Fault::none);
    REQUIRE_FALSE(asked.x.upstream->websocket_key.empty());
    asked.x.reset();
    CHECK(asked.x.upstream->websocket_key.empty());
    CHECK(asked.x.facts.protocol.empty());
    CHECK_FALSE(asked.x.facts.is_http2);
    CHECK_FALSE(asked.x.relay.is_upgrade);
}

TEST_CASE("upgrade: keys are 16 bytes in base64, and each is new") {
    const std::string key = random_websocket_key();
    CHECK(key.size() == 24);
    CHECK(key.ends_with("=="));
    CHECK(key != random_websocket_key());
}

TEST_CASE("websocket_accept: the values that RFC 6455 states") {
    CHECK(websocket_accept("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    CHECK(websocket_accept("x3JJHMbDL1EzLkh9GBhXDw==") == "HSmrc0sMlYUkAGmm5OPpG2HaGWk=");
}

}  // namespace tidegate::proxy::upgrade_test
