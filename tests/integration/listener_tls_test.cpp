// Listeners with TLS: which certificates and protocols they use, and what upstreams, logs and
// browsers get.
#include <algorithm>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"
#include "integration/tls_world.hpp"

namespace tidegate::test::listener_tls_test {

namespace {

const std::string kProxyHeader = "PROXY TCP4 203.0.113.7 192.0.2.1 51234 443\r\n";
// Of clients that have an RSA certificate checked, and no other.
const std::string kOnlyRsa = "rsa_pss_rsae_sha256:rsa_pkcs1_sha256";

Speaking asking_for(const std::string& name) {
    Speaking how;
    how.name = name;
    return how;
}

double failed(const TlsProxy& proxy, const std::string& reason) {
    return proxy.tidegate().metric("tidegate_tls_handshakes_failed_total{reason=\"" + reason +
                                   "\"}");
}

Speaking only(int version) {
    Speaking how;
    how.oldest = how.newest = version;
    return how;
}

}  // namespace

TEST_CASE(
    "listener tls: a connection serves many requests, and upstreams get https as the scheme") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const TlsProxy proxy(world, certificates({world.keep("own")}),
                         "forwarding: {forwarded: on}\n" + simple(upstream.url()));
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(version);
        RawClient client = proxy.client(only(version));
        CHECK(SSL_version(client.tls()) == version);
        for (int i = 0; i < 3; ++i) CHECK(client.get("/" + std::to_string(i)).body == "ok");
        const Message seen = upstream.last();
        CHECK(seen.field("X-Forwarded-Proto") == "https");
        CHECK(seen.field("X-Forwarded-Port") == "443");  // the Host names none
        CHECK(seen.field("Forwarded").find("proto=https") != std::string::npos);
        CHECK(client.get("/last", "Connection: close\r\n").status() == 200);
        CHECK(client.closed());
        CHECK_FALSE(client.was_truncated());
    }
}

TEST_CASE("listener tls: a certificate is chosen by the name that the client asks for") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const TlsProxy proxy(
        world,
        certificates({world.keep("a", world.issue("a", "DNS:a.test")),
                      world.keep("b", world.issue("b", "DNS:*.b.test,DNS:b.test")),
                      world.keep("c", world.issue("c", "DNS:exact.b.test"), ", names: [c.test]")}),
        simple(upstream.url()));
    const std::vector<std::pair<std::string, std::string>> rows{
        {"a.test", "a"},     {"b.test", "b"},       {"x.b.test", "b"}, {"exact.b.test", "c"},
        {"c.test", "c"},     {"A.Test", "a"},       {"X.B.TEST", "b"}, {"EXACT.b.test", "c"},
        {"x.y.b.test", "a"}, {"unknown.test", "a"}, {"", "a"},         {"xb.test", "a"},
        {"sub.a.test", "a"}, {"*.b.test", "a"},     {"test", "a"},     {"b.test.c", "a"}};
    for (const auto& [name, shown] : rows) {
        CAPTURE(name);
        // Bytes that no certificate can have as a name may be refused just as well.
        if (name == "*.b.test" && !proxy.refusal(asking_for(name)).empty()) continue;
        CHECK(proxy.shown(asking_for(name)) == shown);
    }
}

TEST_CASE("listener tls: a name that no certificate has can be refused") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const TlsProxy proxy(
        world,
        certificates({world.keep("a", world.issue("a", "DNS:a.test"))}) + ", unknown_names: refuse",
        simple(upstream.url()));
    CHECK(proxy.refusal(asking_for("a.test")).empty());
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        Speaking how = only(version);
        how.name = "b.test";
        CHECK(proxy.refusal(how).find("unrecognized name") != std::string::npos);
    }
    CHECK_SOON(failed(proxy, "unknown_name") == 2);
    CHECK(proxy.get(asking_for("a.test")).status() == 200);
}

TEST_CASE("listener tls: of two certificates for a name, clients get the ECDSA one if they can") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const Certificate rsa = issued_by(
        world.authority(), {.common_name = "rsa", .names = "DNS:localhost", .is_rsa = true});
    const TlsProxy proxy(world,
                         certificates({world.keep("rsa", rsa),
                                       world.keep("ec", world.issue("ec", "DNS:localhost"))}),
                         simple(upstream.url()));
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        CAPTURE(version);
        Speaking how = only(version);
        CHECK(proxy.shown(how) == "ec");
        how.signatures = kOnlyRsa;
        CHECK(proxy.shown(how) == "rsa");
    }
    Speaking old = only(TLS1_2_VERSION);
    old.ciphers = "ECDHE-RSA-AES128-GCM-SHA256";
    CHECK(proxy.shown(old) == "rsa");
    CHECK(proxy.get(old).status() == 200);
}

TEST_CASE("listener tls: old versions, and ciphers without forward secrecy, are refused") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const std::string own = certificates({world.keep("own")});
    const TlsProxy proxy(world, own, simple(upstream.url()));
    Speaking old = only(TLS1_1_VERSION);
    old.ciphers = "ALL:@SECLEVEL=0";
    CHECK(proxy.refusal(old).find("protocol version") != std::string::npos);
    for (const std::string cipher :
         {"ECDHE-ECDSA-AES128-SHA", "AES128-GCM-SHA256", "DHE-RSA-AES128-GCM-SHA256"}) {
        CAPTURE(cipher);
        Speaking weak = only(TLS1_2_VERSION);
        weak.ciphers = cipher;
        CHECK(proxy.refusal(weak).find("handshake failure") != std::string::npos);
    }
    const TlsProxy newest(world, own + ", min_version: \"1.3\"", simple(upstream.url()));
    CHECK(newest.refusal(only(TLS1_2_VERSION)).find("protocol version") != std::string::npos);
    CHECK(newest.refusal(only(TLS1_3_VERSION)).empty());
    CHECK(upstream.requests() == 1);
}

TEST_CASE("listener tls: plain HTTP on its port is 400, in the clear, and nothing more") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const TlsProxy proxy(world, certificates({world.keep("own")}), simple(upstream.url()));
    for (const std::string& request :
         {get_request("/"), post_request("/", "body"), std::string("GET / HTTP/1.0\r\n\r\n")}) {
        CAPTURE(request);
        RawClient plain(proxy.port());
        plain.send(request);
        const Message answer = plain.response();
        CHECK(answer.status() == 400);
        CHECK(same_name(answer.field("Connection"), "close"));
        CHECK(plain.closed());
    }
    CHECK_SOON(failed(proxy, "plain_http") == 3);
    RawClient balancer(proxy.port());
    balancer.send(kProxyHeader);
    CHECK(balancer.closed());
    CHECK_SOON(failed(proxy, "proxy_header") == 1);
    CHECK(upstream.requests() == 0);
    CHECK(proxy.get().status() == 200);
}

TEST_CASE("listener tls: a PROXY header comes before the handshake, and nowhere else") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const TlsProxy proxy(world, certificates({world.keep("own")}), simple(upstream.url(), "1/h"),
                         ", proxy_protocol: {from: [127.0.0.1]}");
    Speaking named;
    named.first = kProxyHeader;
    CHECK(proxy.get(named).status() == 200);
    CHECK(upstream.last().field("X-Forwarded-For") == "203.0.113.7");
    CHECK(upstream.last().field("X-Forwarded-Proto") == "https");
    CHECK(upstream.last().field("X-Forwarded-Port") == "443");
    CHECK(proxy.get(named).status() == 429);
    // Two before the handshake: it is the balancer that sends them.
    RawClient doubled(proxy.port());
    doubled.send(kProxyHeader + kProxyHeader);
    CHECK(doubled.closed());
    CHECK_SOON(proxy.tidegate().errors().find("closed a connection from 127.0.0.1 to the "
                                              "listener") != std::string::npos);
    CHECK(proxy.tidegate().errors().find("is followed by a second one") != std::string::npos);
    // None before the handshake, and a second one behind it.
    CHECK_FALSE(proxy.refusal().empty());
    RawClient twice = proxy.client(named);
    twice.send(kProxyHeader + get_request("/"));
    CHECK(twice.closed());
    Speaking other = named;
    other.first = "PROXY TCP4 203.0.113.8 192.0.2.1 51234 443\r\n";
    CHECK(proxy.get(other).status() == 200);
    CHECK(upstream.requests() == 2);
}

TEST_CASE("listener tls: browsers get HSTS, and only over TLS") {
    const Upstream upstream(Upstream::answering([](const Message& request) {
        return ok("ok",
                  request.target() == "/theirs" ? "Strict-Transport-Security: max-age=1\r\n" : "");
    }));
    const TlsWorld world;
    const std::string own = certificates({world.keep("own")});
    const auto told = [](const Message& answer) {
        CHECK(answer.count("Strict-Transport-Security") == 1);
        return answer.field("Strict-Transport-Security");
    };
    const TlsProxy proxy(world, own + ", hsts: 1h", simple(upstream.url(), "2/h"));
    CHECK(told(proxy.get()) == "max-age=3600");
    CHECK(told(proxy.get({}, "/theirs")) == "max-age=3600");
    const Message refused = proxy.get();
    CHECK(refused.status() == 429);
    CHECK(told(refused) == "max-age=3600");
    RawClient plain(proxy.port());
    CHECK_FALSE(plain.get().has("Strict-Transport-Security"));
    const TlsProxy silent(world, own, simple(upstream.url()));
    CHECK_FALSE(silent.get().has("Strict-Transport-Security"));
    CHECK(told(silent.get({}, "/theirs")) == "max-age=1");
}

TEST_CASE("listener tls: a redirecting listener sends clients to it, uncounted and logged") {
    const Upstream upstream(ok());
    const TlsWorld world;
    const std::string tls = std::to_string(free_port());
    const auto clear = free_port();
    const Tidegate tidegate("listen: [{address: \"127.0.0.1:" + tls + "\", tls: {" +
                            certificates({world.keep("own")}) +
                            "}}, {address: \"127.0.0.1:" + std::to_string(clear) +
                            "\", redirect: https}]\n" + simple(upstream.url(), "1/h"));
    RawClient client(clear);
    for (int i = 0; i < 3; ++i) {
        const Message moved = client.get("/a%2Fb?c=d&e");
        CHECK(moved.status() == 301);
        CHECK(moved.field("Location") == "https://example.test:" + tls + "/a%2Fb?c=d&e");
        CHECK_FALSE(moved.has("RateLimit"));
    }
    client.send("HEAD / HTTP/1.1\r\nHost: a.test:8080\r\n\r\n");
    const Message headless = client.response_to_head();
    CHECK(headless.status() == 301);
    CHECK(headless.field("Location") == "https://a.test:" + tls + "/");
    for (const std::string method : {"PUT", "DELETE", "OPTIONS"}) {
        client.send(method + " /x HTTP/1.1\r\nHost: [::1]:80\r\n\r\n");
        const Message moved = client.response();
        CHECK(moved.status() == 308);
        CHECK(moved.field("Location") == "https://[::1]:" + tls + "/x");
    }
    CHECK(RawClient(clear).ask(post_request("/p", "body")).status() == 308);
    CHECK(RawClient(clear).ask("GET / HTTP/1.0\r\n\r\n").status() == 400);
    CHECK(upstream.requests() == 0);
    const auto log = tidegate.access_log(9);
    CHECK(std::count_if(log.begin(), log.end(),
                        [](const auto& line) { return line.at("status") == 301; }) == 4);
    // The one unit of the hour is still there.
    CHECK(world.client(static_cast<std::uint16_t>(std::stoi(tls))).get().status() == 200);
}

TEST_CASE("listener tls: a program that stops ends connections with close_notify") {
    GatedUpstream gated;
    const TlsWorld world;
    TlsProxy proxy(
        world, certificates({world.keep("own")}),
        "timeouts: {client_idle: 1h, tls_handshake: 1h}\n" + simple(gated.upstream().url()));
    RawClient idle = proxy.client();
    RawClient busy = proxy.client();
    busy.send(get_request("/busy"));
    await("the request", [&] { return gated.waiting() == 1; });
    Socket unfinished = Socket::connect(proxy.port());
    unfinished.send("\x16\x03\x01");
    std::this_thread::sleep_for(milliseconds{50});
    const auto begin = Clock::now();
    proxy.tidegate().signal(SIGTERM);
    CHECK(idle.closed());
    CHECK_FALSE(idle.was_truncated());
    CHECK(proxy.tidegate().running());
    gated.open();
    const Message answer = busy.response();
    CHECK(answer.status() == 200);
    CHECK(same_name(answer.field("Connection"), "close"));
    CHECK(busy.closed());
    CHECK_FALSE(busy.was_truncated());
    CHECK(unfinished.receive().empty());
    CHECK(proxy.tidegate().wait() == 0);
    CHECK(Clock::now() - begin < milliseconds{5'000});
}

TEST_CASE("listener tls: a connection that is cut at the deadline of a drain does not look whole") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send("HTTP/1.1 200 OK\r\n\r\nthe first half");
        conversation.wait_for_end();
    });
    const TlsWorld world;
    TlsProxy proxy(world, certificates({world.keep("own")}),
                   "timeouts: {drain: 300ms}\n" + simple(upstream.url()));
    RawClient client = proxy.client();
    client.send("GET / HTTP/1.0\r\n\r\n");
    std::string seen;
    while (seen.find("half") == std::string::npos) seen += client.some();
    proxy.tidegate().signal(SIGTERM);
    CHECK(client.closed());
    CHECK(client.was_truncated());
    CHECK(proxy.tidegate().wait() == 0);
}

}  // namespace tidegate::test::listener_tls_test
