// What the connections of clients count. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "telemetry/counters.hpp"
#include "telemetry/exposition.hpp"

namespace tidegate::client {

// Which bound a connection was over.
enum class ConnectionRefusal : std::uint8_t {
    max,         // connections.max: all of them
    per_ip,      // connections.per_ip: those of its address
    new_per_ip,  // connections.new_per_ip: those that its address opens in a second
};

// Why a connection was closed before anything of the client was read.
enum class ProxyHeaderRefusal : std::uint8_t {
    peer,       // this peer may not send one
    malformed,  // the header is missing or cannot be read, or there is a second one
    timeout,    // timeouts.tls_handshake
    too_many,   // too many connections wait for theirs
};
inline constexpr std::size_t kProxyHeaderRefusals =
    static_cast<std::size_t>(ProxyHeaderRefusal::too_many) + 1;

// How a TLS handshake with a client came to its end.
enum class TlsHandshakeKind : std::uint8_t {
    full,
    resumed,  // with the session of an earlier handshake
};

// Why a TLS handshake with a client failed.
enum class TlsHandshakeFailure : std::uint8_t {
    plain_http,          // the client speaks HTTP in the clear
    proxy_header,        // the peer sends a PROXY header, and the listener takes none
    not_tls,             // the client speaks no protocol that is known here
    version,             // no version of TLS in common
    cipher,              // no cipher, group or signature in common
    unknown_name,        // no certificate has the name, and `unknown_names` is `refuse`
    client_certificate,  // the client has shown none, or one that is not accepted
    refused,             // the client sent an alert: most often it does not trust our certificate
    closed,              // the client left
    timeout,             // timeouts.tls_handshake
    too_many,            // handshakes are under way already
    other,
};
inline constexpr std::size_t kTlsHandshakeFailures =
    static_cast<std::size_t>(TlsHandshakeFailure::other) + 1;

// Why the proxy ended a connection in HTTP/2 that its client had not finished with.
enum class Http2End : std::uint8_t {
    abuse,             // the client spent `http2.abuse`
    protocol_error,    // it broke the rules of HTTP/2
    settings_timeout,  // it did not acknowledge the proxy's SETTINGS
    head_timeout,      // timeouts.request_head: a header block did not end in time
    not_reading,       // timeouts.client_write: it takes too little
};

// The words of labels and log lines.
std::string_view to_string(ConnectionRefusal refusal);
std::string_view to_string(ProxyHeaderRefusal refusal);
std::string_view to_string(TlsHandshakeKind kind);
std::string_view to_string(TlsHandshakeFailure failure);
std::string_view to_string(Http2End end);

// What one thread counts.
class Metrics {
  public:
    // tidegate_client_connections (gauge), tidegate_client_connections_total,
    // tidegate_thread_client_connections{thread} (gauge)
    void client_connected() { connections_.opened.add(); }
    void client_disconnected() { connections_.closed.add(); }
    // tidegate_client_connections_refused_total{reason}
    void client_refused(ConnectionRefusal reason) { refused_[reason].add(); }
    // tidegate_proxy_headers_refused_total{reason}
    void proxy_header_refused(ProxyHeaderRefusal reason) { proxy_headers_refused_[reason].add(); }
    // tidegate_client_connections_idle_closed_total: nothing came in timeouts.client_idle
    void client_idled_out() { idled_out_.add(); }
    // tidegate_client_connections_made_room_total: closed at connections.max for another client
    void client_made_room() { made_room_.add(); }
    // tidegate_internal_errors_total: an exception ended a request, and its connection was reset
    void count_internal_error() { internal_errors_.add(); }
    // tidegate_tls_handshakes_total{result}
    void tls_handshake_ended(TlsHandshakeKind handshake) { tls_handshakes_[handshake].add(); }
    // tidegate_tls_handshakes_failed_total{reason}
    void tls_handshake_failed(TlsHandshakeFailure reason) { tls_handshakes_failed_[reason].add(); }
    // tidegate_http2_connections_ended_total{reason}
    void http2_connection_ended(Http2End reason) { http2_ended_[reason].add(); }
    // tidegate_http2_streams_refused_total: over http2.streams
    void http2_stream_refused() { http2_streams_refused_.add(); }

    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads);
    // Connections that are open now.
    static std::uint64_t open(telemetry::Threads<Metrics> threads) {
        return telemetry::sum_open(threads, &Metrics::connections_).open;
    }

  private:
    telemetry::OpenCounter connections_;
    telemetry::CounterBy<ConnectionRefusal, ConnectionRefusal::new_per_ip> refused_;
    telemetry::CounterBy<ProxyHeaderRefusal, ProxyHeaderRefusal::too_many> proxy_headers_refused_;
    telemetry::Counter idled_out_;
    telemetry::Counter made_room_;
    telemetry::Counter internal_errors_;
    telemetry::CounterBy<TlsHandshakeKind, TlsHandshakeKind::resumed> tls_handshakes_;
    telemetry::CounterBy<TlsHandshakeFailure, TlsHandshakeFailure::other> tls_handshakes_failed_;
    telemetry::CounterBy<Http2End, Http2End::not_reading> http2_ended_;
    telemetry::Counter http2_streams_refused_;
};

}  // namespace tidegate::client
