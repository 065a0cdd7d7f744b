#include "client/unserved_connections.hpp"

#include "telemetry/log.hpp"

namespace tidegate::client {

namespace {

using telemetry::Level;

constexpr std::string_view kTooMany =
    "connections that wait for PROXY headers or TLS handshakes are a quarter of connections.max "
    "already: raise it, or bound addresses by connections.new_per_ip";

// The reason, and what to do about it.
std::string_view refusal_words(ProxyHeaderRefusal reason) {
    switch (reason) {
        case ProxyHeaderRefusal::timeout:
            return "its PROXY header did not come within timeouts.tls_handshake";
        case ProxyHeaderRefusal::too_many:
            return kTooMany;
        default:
            return "its PROXY header ";  // and the fault
    }
}

std::string_view refusal_words(TlsHandshakeFailure reason) {
    switch (reason) {
        case TlsHandshakeFailure::plain_http:
            return "the client speaks HTTP in the clear, and the listener speaks TLS: its URL "
                   "needs `https`";
        case TlsHandshakeFailure::proxy_header:
            return "the peer sends a PROXY header, and the listener takes none: if it is your "
                   "balancer, write `proxy_protocol: {from: [...]}` beside the address of the "
                   "listener";
        case TlsHandshakeFailure::timeout:
            return "the client did not finish the TLS handshake within timeouts.tls_handshake";
        case TlsHandshakeFailure::too_many:
            return kTooMany;
        default:
            return "the client ";  // and the fault
    }
}

// Faults of clients are no faults of the configuration; on the internet they are frequent.
Level level_of(TlsHandshakeFailure reason) {
    const bool is_ours =
        reason == TlsHandshakeFailure::too_many || reason == TlsHandshakeFailure::proxy_header;
    return is_ours ? Level::warn : Level::info;
}

std::string peer_name(const std::optional<IpAddress>& peer) {
    return peer ? peer->to_string() : "a Unix socket";
}

void log_closed(Level level, const std::optional<IpAddress>& peer, const std::string& listener,
                std::string_view why, std::string_view fault) {
    telemetry::log(level, "closed a connection from {} to the listener on {}: {}{}",
                   peer_name(peer), listener, why, fault);
}

}  // namespace

void UnservedConnections::add(ProxyHeaderRefusal reason, const std::optional<IpAddress>& peer,
                              const std::string& listener, std::string_view fault, SteadyTime now) {
    metrics_.proxy_headers_refused[reason].add();
    if (!header_intervals_[static_cast<std::size_t>(reason)].is_due(now)) return;
    if (reason == ProxyHeaderRefusal::peer) {
        return telemetry::log(Level::warn,
                              "closed a connection from {}, which is not in `proxy_protocol.from` "
                              "of the listener on {}: add it to `from` if it is your balancer; "
                              "clients need another listener",
                              peer_name(peer), listener);
    }
    log_closed(Level::warn, peer, listener, refusal_words(reason), fault);
}

void UnservedConnections::add(TlsHandshakeFailure reason, const std::optional<IpAddress>& peer,
                              const std::string& listener, std::string_view fault, SteadyTime now) {
    metrics_.tls_handshakes_failed[reason].add();
    if (!handshake_intervals_[static_cast<std::size_t>(reason)].is_due(now)) return;
    log_closed(level_of(reason), peer, listener, refusal_words(reason), fault);
}

}  // namespace tidegate::client
