#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "app/listener.hpp"

namespace tidegate::app::listener_test {

namespace {

config::Listen listen_at(std::string host) {
    config::Listen listen;
    listen.address = {std::move(host), 8443, {}};
    return listen;
}

std::string text_of(const config::Listen& listen) {
    return ListenerGroup{listen, {}, {}}.to_string();
}

}  // namespace

TEST_CASE("listener: the log has the address and its unusual settings") {
    CHECK(text_of(listen_at("127.0.0.1")) == "127.0.0.1:8443");
    config::Listen listen = listen_at(config::kEveryAddress);
    CHECK(text_of(listen) == "[::]:8443 (IPv6 and IPv4)");
    listen.ipv6_only = true;
    listen.proxy_protocol.emplace();
    CHECK(text_of(listen) == "[::]:8443 (PROXY protocol)");
}

TEST_CASE("listener: the log has the versions of HTTP beside TLS, and in the clear with HTTP/2") {
    config::Listen listen = listen_at("127.0.0.1");
    listen.takes_http2 = true;
    CHECK(text_of(listen) == "127.0.0.1:8443 (h2 and http1)");
    listen.takes_http1 = false;
    CHECK(text_of(listen) == "127.0.0.1:8443 (h2)");
    listen.tls.emplace();
    CHECK(text_of(listen) == "127.0.0.1:8443 (TLS, h2)");
    listen.takes_http1 = true;
    CHECK(text_of(listen) == "127.0.0.1:8443 (TLS, h2 and http1)");
    listen.takes_http2 = false;
    CHECK(text_of(listen) == "127.0.0.1:8443 (TLS, http1)");
}

}  // namespace tidegate::app::listener_test
