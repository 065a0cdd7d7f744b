// Listeners behind a balancer: `proxy_protocol`, `forwarded_proto` and the time for the header.
#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"

namespace tidegate::config_proxy_protocol_test {

namespace {

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";

config::Loaded loaded(const std::string& text) {
    auto all = config::load_text(text, "t");
    CAPTURE(text);
    for (const auto& error : all.errors) FAIL_CHECK(error.to_string());
    REQUIRE(all.config != nullptr);
    return all;
}

config::Listen listener(const std::string& listen) {
    return loaded("listen: " + listen + "\n" + kUpstream).config->listen.at(0);
}

}  // namespace

TEST_CASE("proxy_protocol: only the networks in `from` may send the header") {
    const auto listen =
        listener("{address: 10.0.0.7:8081, proxy_protocol: {from: [10.0.0.0/8, \"fd00::/8\"]}}");
    REQUIRE(listen.proxy_protocol.has_value());
    for (const std::string peer : {"10.0.0.1", "10.255.255.255", "fd00::1"}) {
        CHECK(listen.proxy_protocol->admits(parse_ip(peer)));
    }
    for (const std::string peer : {"11.0.0.1", "127.0.0.1", "fe80::1"}) {
        CHECK_FALSE(listen.proxy_protocol->admits(parse_ip(peer)));
    }
    CHECK(listener("{address: 10.0.0.7:8081, proxy_protocol: {from: 10.0.0.0/8}}").proxy_protocol);
}

TEST_CASE("proxy_protocol: a listener has none unless it says so") {
    CHECK_FALSE(listener("8080").proxy_protocol);
    CHECK_FALSE(listener("{address: 8080}").proxy_protocol);
    CHECK_FALSE(listener("{address: 8080, proxy_protocol: off}").proxy_protocol);
    CHECK_FALSE(listener("{address: \"unix:/run/t.sock\", proxy_protocol: off}").proxy_protocol);
}

TEST_CASE("proxy_protocol: at a Unix socket every peer that can connect may send it") {
    for (const std::string how : {"on", "{}"}) {
        const auto listen =
            listener("{address: \"unix:/run/t.sock\", proxy_protocol: " + how + "}");
        REQUIRE(listen.proxy_protocol.has_value());
        CHECK(listen.proxy_protocol->admits(std::nullopt));
    }
}

TEST_CASE("proxy_protocol: upstreams get https as the scheme where the balancer ends TLS") {
    CHECK_FALSE(listener("8080").is_https);
    CHECK_FALSE(listener("{address: 8080, forwarded_proto: http}").is_https);
    CHECK(listener("{address: 8080, forwarded_proto: https}").is_https);
    CHECK(listener("{address: 8080, forwarded_proto: https, proxy_protocol: {from: 10.0.0.1}}")
              .is_https);
}

TEST_CASE("proxy_protocol: the header has 5 seconds unless tls_handshake says otherwise") {
    const std::string listen = "listen: {address: 8080, proxy_protocol: {from: 10.0.0.1}}\n";
    CHECK(loaded(kUpstream).config->timeouts.tls_handshake == std::chrono::seconds{5});
    const auto own = loaded(listen + "timeouts: {tls_handshake: 300ms}\n" + kUpstream);
    CHECK(own.config->timeouts.tls_handshake == std::chrono::milliseconds{300});
    CHECK(own.warnings.empty());
}

TEST_CASE("proxy_protocol: gateways and programs that ask may come through a balancer") {
    const std::string listen =
        "listen: {address: \"127.0.0.1:8181\", proxy_protocol: {from: 127.0.0.1}, from: "
        "10.0.0.0/8, ";
    for (const std::string face : {"face: forward_auth, dialect: nginx", "face: check"}) {
        const auto all = loaded(listen + face + "}\nlimits: [9/h]\n");
        CHECK(all.config->listen.at(0).proxy_protocol.has_value());
        CHECK_FALSE(all.config->listen.at(0).admits(parse_ip("127.0.0.1")));
    }
}

}  // namespace tidegate::config_proxy_protocol_test
