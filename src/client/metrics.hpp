// These metrics count connections of clients. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include <cstdint>

#include "base/described_enum.hpp"
#include "telemetry/metric.hpp"

namespace tidegate::client {

// Which bound a connection was over.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    ConnectionRefusal, std::uint8_t,
    max,         // connections.max: all of them
    per_ip,      // connections.per_ip: those of its address
    new_per_ip)  // connections.new_per_ip: opened by its address in a second

// Why a connection was closed before anything of the client was read.
BOOST_DEFINE_FIXED_ENUM_CLASS(ProxyHeaderRefusal, std::uint8_t,
                              peer,       // this peer may not send one
                              malformed,  // missing or not to be read, or there is a second one
                              timeout,    // timeouts.tls_handshake
                              too_many)   // too many connections wait for theirs

// How a TLS handshake with a client came to its end.
BOOST_DEFINE_FIXED_ENUM_CLASS(TlsHandshakeKind, std::uint8_t,
                              full,     // with a new session
                              resumed)  // with the session of an earlier handshake

// Why a TLS handshake with a client failed.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    TlsHandshakeFailure, std::uint8_t,
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
    other)

// Why the proxy ended a connection in HTTP/2 that its client had not finished with.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    Http2End, std::uint8_t,
    abuse,             // the client spent `http2.abuse`
    protocol_error,    // it broke the rules of HTTP/2
    settings_timeout,  // it did not acknowledge the proxy's SETTINGS
    head_timeout,      // timeouts.request_head: a header block did not end in time
    not_reading)       // timeouts.client_write: it takes too little

// Connections that were opened and closed: all together, and those of each thread.
struct ConnectionMetrics
    : telemetry::OpenMetrics<
          "tidegate_client_connections", "Connections from clients that are open",
          "tidegate_client_connections_total", "Connections from clients ever opened"> {
    static void write(telemetry::Exposition& out, telemetry::Threads<ConnectionMetrics> threads);
};

// Each thread has an object of its own and counts in it.
struct Metrics {
    ConnectionMetrics connections;
    telemetry::Metric<telemetry::By<"reason", ConnectionRefusal>,
                      "tidegate_client_connections_refused_total",
                      "Connections refused at one of the bounds of `connections`">
        refused;
    telemetry::Metric<
        telemetry::By<"reason", ProxyHeaderRefusal>, "tidegate_proxy_headers_refused_total",
        "Connections closed for their PROXY header",
        "See [Behind a balancer](configuration.md#behind-a-balancer-that-does-not-speak-http).">
        proxy_headers_refused;
    // Nothing came in timeouts.client_idle.
    telemetry::Metric<telemetry::Counter, "tidegate_client_connections_idle_closed_total",
                      "Connections closed because they were idle for too long">
        idle_closed;
    telemetry::Metric<telemetry::Counter, "tidegate_client_connections_made_room_total",
                      "Connections without a request, closed for other clients at connections.max">
        made_room;
    // An exception ended a request.
    telemetry::Metric<telemetry::Counter, "tidegate_internal_errors_total",
                      "Connections that an internal error reset; the error log says which">
        internal_errors;
    telemetry::Metric<telemetry::By<"result", TlsHandshakeKind>, "tidegate_tls_handshakes_total",
                      "TLS handshakes with clients">
        tls_handshakes;
    telemetry::Metric<telemetry::By<"reason", TlsHandshakeFailure>,
                      "tidegate_tls_handshakes_failed_total",
                      "Connections of clients that ended before TLS was agreed on">
        tls_handshakes_failed;
    telemetry::Metric<
        telemetry::By<"reason", Http2End>, "tidegate_http2_connections_ended_total",
        "Connections in HTTP/2 that Tidegate ended for their clients' faults, by reason",
        "See [Hostile clients](http2.md#hostile-clients).">
        http2_ended;
    telemetry::Metric<
        telemetry::Counter, "tidegate_http2_streams_refused_total",
        "Requests in HTTP/2 refused uncounted: their connections had http2.streams already",
        "No limit counts them, and the access log does not have them.">
        http2_streams_refused;

    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads);
    // Connections that are open now.
    static std::uint64_t open(telemetry::Threads<Metrics> threads);
};

}  // namespace tidegate::client
