#include "client/metrics.hpp"

#include <string>

namespace tidegate::client {

std::string_view to_string(ConnectionRefusal refusal) {
    switch (refusal) {
        case ConnectionRefusal::max:
            return "max";
        case ConnectionRefusal::per_ip:
            return "per_ip";
        case ConnectionRefusal::new_per_ip:
            return "new_per_ip";
    }
    return "";
}

std::string_view to_string(ProxyHeaderRefusal refusal) {
    switch (refusal) {
        case ProxyHeaderRefusal::peer:
            return "peer";
        case ProxyHeaderRefusal::malformed:
            return "malformed";
        case ProxyHeaderRefusal::timeout:
            return "timeout";
        case ProxyHeaderRefusal::too_many:
            return "too_many";
    }
    return "";
}

std::string_view to_string(TlsHandshakeKind kind) {
    switch (kind) {
        case TlsHandshakeKind::full:
            return "full";
        case TlsHandshakeKind::resumed:
            return "resumed";
    }
    return "";
}

std::string_view to_string(TlsHandshakeFailure failure) {
    switch (failure) {
        case TlsHandshakeFailure::plain_http:
            return "plain_http";
        case TlsHandshakeFailure::proxy_header:
            return "proxy_header";
        case TlsHandshakeFailure::not_tls:
            return "not_tls";
        case TlsHandshakeFailure::version:
            return "version";
        case TlsHandshakeFailure::cipher:
            return "cipher";
        case TlsHandshakeFailure::unknown_name:
            return "unknown_name";
        case TlsHandshakeFailure::client_certificate:
            return "client_certificate";
        case TlsHandshakeFailure::refused:
            return "refused";
        case TlsHandshakeFailure::closed:
            return "closed";
        case TlsHandshakeFailure::timeout:
            return "timeout";
        case TlsHandshakeFailure::too_many:
            return "too_many";
        case TlsHandshakeFailure::other:
            return "other";
    }
    return "";
}

std::string_view to_string(Http2End end) {
    switch (end) {
        case Http2End::abuse:
            return "abuse";
        case Http2End::protocol_error:
            return "protocol_error";
        case Http2End::settings_timeout:
            return "settings_timeout";
        case Http2End::head_timeout:
            return "head_timeout";
        case Http2End::not_reading:
            return "not_reading";
    }
    return "";
}

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads) {
    const auto connections = telemetry::sum_open(threads, &Metrics::connections_);
    out.gauge("tidegate_client_connections", "Connections from clients that are open")
        .add({}, connections.open);
    out.counter("tidegate_client_connections_total", "Connections from clients ever opened")
        .add({}, connections.opened);
    auto of_thread = out.gauge("tidegate_thread_client_connections",
                               "Connections from clients that a thread serves");
    for (std::size_t i = 0; i < threads.size(); ++i) {
        const auto own = telemetry::sum_open(threads.subspan(i, 1), &Metrics::connections_);
        of_thread.add({{"thread", std::to_string(i)}}, own.open);
    }
    out.counter("tidegate_client_connections_refused_total",
                "Connections refused at one of the bounds of `connections`")
        .add_each("reason", threads, &Metrics::refused_);
    out.counter("tidegate_proxy_headers_refused_total", "Connections closed for their PROXY header")
        .add_each("reason", threads, &Metrics::proxy_headers_refused_);
    out.counter("tidegate_client_connections_idle_closed_total",
                "Connections closed because they were idle for too long")
        .add({}, telemetry::sum(threads, &Metrics::idled_out_));
    out.counter("tidegate_client_connections_made_room_total",
                "Connections without a request, closed for other clients at connections.max")
        .add({}, telemetry::sum(threads, &Metrics::made_room_));
    out.counter("tidegate_internal_errors_total",
                "Connections that an internal error reset; the error log says which")
        .add({}, telemetry::sum(threads, &Metrics::internal_errors_));
    out.counter("tidegate_tls_handshakes_total", "TLS handshakes with clients")
        .add_each("result", threads, &Metrics::tls_handshakes_);
    out.counter("tidegate_tls_handshakes_failed_total",
                "Connections of clients that ended before TLS was agreed on")
        .add_each("reason", threads, &Metrics::tls_handshakes_failed_);
    out.counter("tidegate_http2_connections_ended_total",
                "Connections in HTTP/2 that Tidegate ended for their clients' "
                "faults, by reason")
        .add_each("reason", threads, &Metrics::http2_ended_);
    out.counter("tidegate_http2_streams_refused_total",
                "Requests in HTTP/2 refused uncounted: their connections had http2.streams already")
        .add({}, telemetry::sum(threads, &Metrics::http2_streams_refused_));
}

}  // namespace tidegate::client
