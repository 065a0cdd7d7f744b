// Which protocol a connection speaks, and what a listener announces.
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/h2_proxy.hpp"
#include "integration/limiter_world.hpp"

namespace tidegate::test::http2_choice_test {

TEST_CASE("http2 choice: one port takes HTTP/2 by prior knowledge, and HTTP/1") {
    const Upstream upstream(ok("ok"));
    const H2Proxy proxy(simple(upstream.url()));
    H2Client http2 = proxy.client();
    RawClient http1(proxy.port());
    for (int i = 0; i < 3; ++i) {
        CHECK(http2.get().body == "ok");
        CHECK(upstream.last().field("Via").starts_with("2.0 "));
        CHECK(http1.get().start_line == "HTTP/1.1 200 OK");
        CHECK(upstream.last().field("Via").starts_with("1.1 "));
    }
}

TEST_CASE("http2 choice: the preface may come in pieces, alone or with all that follows") {
    const Upstream upstream(ok("ok"));
    const H2Proxy proxy(simple(upstream.url()));
    const std::string all =
        h2_preface() +
        h2_headers(1,
                   {{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a"}});
    for (const std::size_t cut : {1UL, 3UL, 14UL, 16UL, 18UL, 23UL, 24UL, 30UL, all.size()}) {
        CAPTURE(cut);
        H2Wire wire{Socket::connect(proxy.port())};
        wire.send(all.substr(0, cut));
        std::this_thread::sleep_for(milliseconds{20});
        if (cut < all.size()) wire.send(all.substr(cut));
        CHECK(wire.await(NGHTTP2_HEADERS, 1).status() == 200);
    }
}

TEST_CASE("http2 choice: over TLS the listener takes h2 where a client offers it") {
    const Upstream upstream(ok("ok"));
    const H2Proxy proxy(simple(upstream.url()));
    struct Case {
        std::vector<std::string> offered;
        std::string chosen;
    };
    const std::vector<Case> cases{{{"h2"}, "h2"},
                                  {{"h2", "http/1.1"}, "h2"},
                                  {{"http/1.1", "h2"}, "h2"},
                                  {{"http/1.1"}, "http/1.1"},
                                  {{"x", "http/1.1"}, "http/1.1"},
                                  {{}, ""}};
    for (const Case& one : cases) {
        CAPTURE(one.chosen);
        RawClient client = proxy.offering(one.offered);
        CHECK(alpn_of(client.tls()) == one.chosen);
        if (one.chosen != "h2") CHECK(client.get().status() == 200);
    }
    H2Client client = proxy.secure_client();
    CHECK(client.get().status() == 200);
}

TEST_CASE("http2 choice: a listener of HTTP/1 alone takes no HTTP/2") {
    const Upstream upstream(ok("ok"));
    const H2Proxy proxy(simple(upstream.url()),
                        {.clear = ", http: [http1]", .secure = ", http: [http1]"});
    RawClient knows(proxy.port());
    CHECK(knows.ask(h2_preface()).status() == 505);
    CHECK(knows.closed());
    CHECK(http_get(proxy.port()).status() == 200);
    RawClient secure = proxy.offering({"h2", "http/1.1"});
    CHECK(alpn_of(secure.tls()) == "http/1.1");
    CHECK(secure.get().status() == 200);
}

TEST_CASE("http2 choice: without `http` a listener in the clear takes HTTP/1 alone") {
    const Upstream upstream(ok("ok"));
    const H2Proxy proxy(simple(upstream.url()), {.clear = ""});
    RawClient knows(proxy.port());
    CHECK(knows.ask(h2_preface()).status() == 505);
    H2Client client = proxy.secure_client();
    CHECK(client.get().status() == 200);
}

TEST_CASE("http2 choice: an upgrade to h2c is dropped, and the request goes on in HTTP/1") {
    const Upstream upstream(ok("ok"));
    const H2Proxy proxy(simple(upstream.url()));
    RawClient client(proxy.port());
    const Message answer = client.get("/",
                                      "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                                      "HTTP2-Settings: AAMAAABkAAQAAP__\r\n");
    CHECK(answer.status() == 200);
    CHECK(answer.body == "ok");
    CHECK_FALSE(upstream.last().has("Upgrade"));
    CHECK_FALSE(upstream.last().has("HTTP2-Settings"));
    CHECK(client.get().status() == 200);
}

TEST_CASE("http2 choice: the listener announces what the configuration says") {
    const Upstream upstream(ok("ok"));
    const std::string limits = "limits_on_requests: {header_bytes: 8KiB}\n";
    const H2Proxy proxy("http2: {streams: 7, stream_window: 128KiB, connection_window: 512KiB}\n" +
                        limits + simple(upstream.url()));
    H2Client client = proxy.client();
    CHECK(client.run_until([&] { return client.has_settings(); }));
    CHECK(client.server_setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS) == 7);
    CHECK(client.server_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE) == 131'072);
    CHECK(client.server_setting(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE) == 8'192);
    CHECK(client.server_setting(NGHTTP2_SETTINGS_MAX_FRAME_SIZE) == 16'384);
    CHECK(client.server_setting(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 0);
    // More streams than that wait in the client, and all are served.
    std::vector<int> streams;
    for (int i = 0; i < 50; ++i) streams.push_back(client.begin({}));
    for (const int stream : streams) CHECK(client.answer(stream).status() == 200);
}

TEST_CASE("http2 choice: a client's certificate names the user of each of its streams") {
    const Upstream upstream(ok());
    const Authority believed;
    const TemporaryFolder folder;
    const Certificate alice = issued_by(believed, {.common_name = "alice"});
    const Certificate bob = issued_by(believed, {.common_name = "bob"});
    const std::string authority = folder.write("clients.pem", believed.pem());
    const H2Proxy proxy(
        "identity: {user: [{client_certificate: {subject: CN}}], forward_as: "
        "{user: x-auth-user}}\n" +
            one_policy(upstream, "{key: [user], limits: [2/h]}"),
        {.tls = ", client_auth: require, client_ca: \"" + authority + "\""});
    H2Client of_alice = proxy.secure_client({.own = &alice});
    for (const int status : {200, 200, 429}) CHECK(of_alice.get().status() == status);
    CHECK(upstream.last().field("x-auth-user") == "alice");
    H2Client of_bob = proxy.secure_client({.own = &bob});
    CHECK(of_bob.get("/", {{"x-auth-user", "alice"}}).status() == 200);
    CHECK(upstream.last().field("x-auth-user") == "bob");
    H2Client nobody(proxy.world().connect(proxy.secure_port(), {.protocols = {"h2"}}));
    CHECK(nobody.closed());
}

}  // namespace tidegate::test::http2_choice_test
