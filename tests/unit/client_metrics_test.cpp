#include <string>

#include <doctest/doctest.h>

#include "client/metrics.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::client::metrics_test {

using test::sample;

TEST_CASE("metrics: connections of clients, and those that were refused or closed") {
    Metrics first;
    Metrics second;
    first.connections.opened.add();
    first.connections.opened.add();
    second.connections.opened.add();
    first.connections.closed.add();
    second.refused[ConnectionRefusal::max].add();
    first.refused[ConnectionRefusal::per_ip].add();
    second.refused[ConnectionRefusal::per_ip].add();
    first.refused[ConnectionRefusal::new_per_ip].add();
    first.idle_closed.add();
    first.made_room.add();
    first.made_room.add();
    second.internal_errors.add();
    const std::string text = test::text_of({&first, &second});
    CHECK(sample(text, "tidegate_client_connections") == "2");
    CHECK(sample(text, "tidegate_client_connections_total") == "3");
    CHECK(sample(text, R"(tidegate_thread_client_connections{thread="0"})") == "1");
    CHECK(sample(text, R"(tidegate_thread_client_connections{thread="1"})") == "1");
    CHECK(sample(text, R"(tidegate_client_connections_refused_total{reason="max"})") == "1");
    CHECK(sample(text, R"(tidegate_client_connections_refused_total{reason="per_ip"})") == "2");
    CHECK(sample(text, R"(tidegate_client_connections_refused_total{reason="new_per_ip"})") == "1");
    CHECK(sample(text, "tidegate_client_connections_idle_closed_total") == "1");
    CHECK(sample(text, "tidegate_client_connections_made_room_total") == "2");
    CHECK(sample(text, "tidegate_internal_errors_total") == "1");
}

TEST_CASE("metrics: PROXY headers and TLS handshakes are counted by why they failed") {
    Metrics first;
    Metrics second;
    first.proxy_headers_refused[ProxyHeaderRefusal::peer].add();
    second.proxy_headers_refused[ProxyHeaderRefusal::too_many].add();
    second.proxy_headers_refused[ProxyHeaderRefusal::too_many].add();
    first.tls_handshakes[TlsHandshakeKind::full].add();
    second.tls_handshakes[TlsHandshakeKind::resumed].add();
    second.tls_handshakes[TlsHandshakeKind::resumed].add();
    first.tls_handshakes_failed[TlsHandshakeFailure::plain_http].add();
    second.tls_handshakes_failed[TlsHandshakeFailure::other].add();
    const std::string text = test::text_of({&first, &second});
    CHECK(sample(text, R"(tidegate_proxy_headers_refused_total{reason="peer"})") == "1");
    CHECK(sample(text, R"(tidegate_proxy_headers_refused_total{reason="malformed"})") == "0");
    CHECK(sample(text, R"(tidegate_proxy_headers_refused_total{reason="timeout"})") == "0");
    CHECK(sample(text, R"(tidegate_proxy_headers_refused_total{reason="too_many"})") == "2");
    CHECK(sample(text, R"(tidegate_tls_handshakes_total{result="full"})") == "1");
    CHECK(sample(text, R"(tidegate_tls_handshakes_total{result="resumed"})") == "2");
    CHECK(sample(text, R"(tidegate_tls_handshakes_failed_total{reason="plain_http"})") == "1");
    CHECK(sample(text, R"(tidegate_tls_handshakes_failed_total{reason="timeout"})") == "0");
    CHECK(sample(text, R"(tidegate_tls_handshakes_failed_total{reason="other"})") == "1");
}

TEST_CASE("metrics: HTTP/2 connections are counted by why they ended, refused streams apart") {
    Metrics first;
    Metrics second;
    first.http2_ended[Http2End::abuse].add();
    second.http2_ended[Http2End::abuse].add();
    second.http2_ended[Http2End::not_reading].add();
    for (int i = 0; i < 3; ++i) second.http2_streams_refused.add();
    const std::string text = test::text_of({&first, &second});
    const auto ended = [&](const std::string& reason) {
        return sample(text, "tidegate_http2_connections_ended_total{reason=\"" + reason + "\"}");
    };
    CHECK(ended("abuse") == "2");
    CHECK(ended("protocol_error") == "0");
    CHECK(ended("settings_timeout") == "0");
    CHECK(ended("head_timeout") == "0");
    CHECK(ended("not_reading") == "1");
    CHECK(sample(text, "tidegate_http2_streams_refused_total") == "3");
}

}  // namespace tidegate::client::metrics_test
