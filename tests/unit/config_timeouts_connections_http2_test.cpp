#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "listener_files.hpp"

namespace tidegate::config_timeouts_connections_http2_test {

namespace {

config::Loaded load(const std::string& connections) {
    return config::load_text("upstream: http://127.0.0.1:1\nconnections: {" + connections + "}\n",
                             "c.yaml");
}

}  // namespace

TEST_CASE("config: an address has no bound on its connections unless one is written") {
    CHECK(load("max: 5").config->connections.per_ip == 0);
    CHECK(load("per_ip: 0").config->connections.per_ip == 0);
    CHECK(load("max: 5, per_ip: 5").config->connections.per_ip == 5);
    CHECK(load("max: 5, per_ip: 5").warnings.empty());
}

TEST_CASE("config: an address may open connections as fast as it likes, or so many in a second") {
    CHECK(load("max: 5").config->connections.new_per_ip == 0);
    CHECK(load("new_per_ip: off").config->connections.new_per_ip == 0);
    CHECK(load("new_per_ip: 20/s").config->connections.new_per_ip == 20);
    CHECK(load("new_per_ip: 1000000/s").config->connections.new_per_ip == 1'000'000);
    for (const std::string wrong : {"0/s", "1000001/s", "60/min", "20", "20/500ms"}) {
        CHECK(load("new_per_ip: " + wrong).config == nullptr);
    }
}

// `http` of a listener, and `http2`: which listeners take HTTP/2, and what it may cost.

using namespace std::chrono_literals;
using test::has;
using test::listener_of;
using test::ListenerFiles;
using test::only;

namespace {

const std::string kTls = "tls: {certificate: site.pem, key: site.key}";
constexpr std::string_view kNone = "";

struct Taken {
    bool http1 = false;
    bool http2 = false;

    bool operator==(const Taken&) const = default;
};
constexpr Taken kHttp1{true, false};
constexpr Taken kHttp2{false, true};
constexpr Taken kBoth{true, true};

// Of a listener with these settings, with and without TLS.
config::Listen plain(std::string_view settings) {
    const auto loaded =
        config::load_text("upstream: http://127.0.0.1:3000\nlisten: {address: 127.0.0.1:8080" +
                              std::string(settings) + "}\n",
                          "test.yaml");
    return listener_of(loaded);
}

config::Listen secure(std::string_view settings) {
    const ListenerFiles files;
    files.add("site");
    const auto loaded =
        files.load_listen("{address: 127.0.0.1:8443, " + kTls + std::string(settings) + "}");
    return listener_of(loaded);
}

Taken taken(const config::Listen& listen) {
    return {listen.takes_http1, listen.takes_http2};
}

config::Loaded load_http2(const std::string& http2) {
    return config::load_text(
        "upstream: http://127.0.0.1:3000\nlisten: {address: 127.0.0.1:8080, http: [h2, http1]}\n"
        "http2: {" +
            http2 + "}\n",
        "test.yaml");
}

}  // namespace

TEST_CASE("http versions: TLS brings HTTP/2, and in the clear it has to be written") {
    CHECK(taken(plain(kNone)) == kHttp1);
    CHECK(taken(plain(", tls: off")) == kHttp1);
    CHECK(taken(secure(kNone)) == kBoth);
    const auto short_form = config::load_text("upstream: http://127.0.0.1:3000\n", "test.yaml");
    CHECK(taken(listener_of(short_form)) == kHttp1);
}

TEST_CASE("http versions: a listener takes what is written, in any order, with or without TLS") {
    for (const auto& load : {plain, secure}) {
        CHECK(taken(load(", http: [h2, http1]")) == kBoth);
        CHECK(taken(load(", http: [http1, h2]")) == kBoth);
        CHECK(taken(load(", http: [http1]")) == kHttp1);
        CHECK(taken(load(", http: http1")) == kHttp1);
        CHECK(taken(load(", http: [h2]")) == kHttp2);
        CHECK(taken(load(", http: h2")) == kHttp2);
    }
}

TEST_CASE("half_close: off unless it is written, and only where clients may speak HTTP/1") {
    for (const auto& load : {plain, secure}) {
        CHECK_FALSE(load(kNone).half_close);
        CHECK_FALSE(load(", http: h2, half_close: off").half_close);
        CHECK(load(", half_close: on").half_close);
        CHECK(load(", http: [h2, http1], half_close: on").half_close);
    }
}

TEST_CASE("http versions: what clients speak over TLS is part of its settings") {
    CHECK(secure(kNone).tls->http == HttpVersions::both);
    CHECK(secure(", http: [http1]").tls->http == HttpVersions::http1);
    CHECK(secure(", http: [h2]").tls->http == HttpVersions::http2);
}

TEST_CASE("http versions: other faces, redirects and PROXY headers do not matter") {
    for (const std::string_view other :
         {", face: check", ", face: forward_auth, dialect: forwarded",
          ", proxy_protocol: {from: 127.0.0.1}"}) {
        CAPTURE(other);
        CHECK(taken(plain(other)) == kHttp1);
        CHECK(taken(secure(other)) == kBoth);
        CHECK(taken(plain(std::string(other) + ", http: [h2]")) == kHttp2);
        CHECK(taken(secure(std::string(other) + ", http: [h2]")) == kHttp2);
    }
    const std::string redirect = ", redirect: {to: https, port: 443}";
    CHECK(taken(plain(redirect)) == kHttp1);
    CHECK(taken(plain(redirect + ", http: [h2, http1]")) == kBoth);
    CHECK(taken(plain(redirect + ", http: h2")) == kHttp2);
    const auto unix_socket = config::load_text(
        "upstream: http://127.0.0.1:3000\nlisten: {address: \"unix:/run/t.sock\", http: h2}\n",
        "test.yaml");
    CHECK(taken(listener_of(unix_socket)) == kHttp2);
}

TEST_CASE("http2: without the section the defaults hold, and each key changes its own") {
    const auto usual = load_http2("streams: 100").config->http2;
    CHECK(usual.streams == 100);
    CHECK(usual.stream_window == 262'144);
    CHECK(usual.connection_window == 1'048'576);
    CHECK(usual.buffered == 67'108'864);
    CHECK(usual.cookie_crumbs == 256);
    CHECK(usual.abuse_burst == 1'000);
    CHECK(usual.abuse_per.quota == 100);
    CHECK(usual.abuse_per.per == 1s);

    const auto loaded = load_http2(
        "streams: 7, stream_window: 1KiB, connection_window: 65535, buffered: 1MiB, "
        "cookie_crumbs: 9, abuse: {burst: 11, per: 13/min}");
    CHECK(loaded.warnings.empty());
    REQUIRE(loaded.config != nullptr);
    const auto& changed = loaded.config->http2;
    CHECK(changed.streams == 7);
    CHECK(changed.stream_window == 1'024);
    CHECK(changed.connection_window == 65'535);
    CHECK(changed.buffered == 1'048'576);
    CHECK(changed.cookie_crumbs == 9);
    CHECK(changed.abuse_burst == 11);
    CHECK(changed.abuse_per.quota == 13);
    CHECK(changed.abuse_per.per == 1min);
}

TEST_CASE("http2: the widest and the narrowest values are taken") {
    for (const std::string right :
         {"streams: 10000", "streams: 1", "stream_window: 1MiB",
          "stream_window: 2147483647, connection_window: 2147483647, buffered: 2147483647",
          "stream_window: 65535, connection_window: 65535, buffered: 65535", "buffered: 64GiB",
          "cookie_crumbs: 1", "abuse: {burst: 1, per: 1/min}",
          "abuse: {burst: 1000000, per: 1000000/s}", "abuse: {}"}) {
        CAPTURE(right);
        const auto loaded = load_http2(right);
        CHECK(loaded.errors.empty());
        CHECK(loaded.warnings.empty());
    }
    for (const std::string wrong :
         {"streams: 10001", "stream_window: 2GiB", "connection_window: 2GiB",
          "buffered: 1MiB, connection_window: 2MiB", "cookie_crumbs: 10001",
          "abuse: {per: 1000001/s}", "abuse: {per: 2/h}", "abuse: {per: 0/s}", "abuse: {per: 100}",
          "abuse: {burst: 1000001}"}) {
        CAPTURE(wrong);
        CHECK(load_http2(wrong).errors.size() == 1);
    }
}

TEST_CASE("http2: bounds that no connection can meet are warned about") {
    const ListenerFiles files;
    files.add("site");
    const std::string listener = "{address: 127.0.0.1:8443, " + kTls;
    CHECK(files.load_listen(listener + "}", "http2: {streams: 50}\n").warnings.empty());
    CHECK(
        has(only(files.load_listen(listener + ", http: http1}", "http2: {streams: 50}\n").warnings),
            "http2: has no effect"));
}

}  // namespace tidegate::config_timeouts_connections_http2_test
