// Counts and logs connections that are closed before they can speak HTTP, for what is wrong with
// their PROXY header or their TLS handshake. Owned by a worker, one thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/ip.hpp"
#include "client/metrics.hpp"
#include "net/deadline.hpp"
#include "telemetry/log_interval.hpp"

namespace tidegate::client {

class UnservedConnections {
  public:
    // `metrics` outlives this.
    explicit UnservedConnections(Metrics& metrics) : metrics_(metrics) {}

    // The connection came from `peer`; nothing: over a Unix socket. `listener` is its address, and
    // `fault` ends a sentence about the header, if it is malformed, or about the client, if
    // `reason` says less. Logs one a minute for each reason.
    void add(ProxyHeaderRefusal reason, const std::optional<IpAddress>& peer,
             const std::string& listener, std::string_view fault, SteadyTime now);
    void add(TlsHandshakeFailure reason, const std::optional<IpAddress>& peer,
             const std::string& listener, std::string_view fault, SteadyTime now);

  private:
    Metrics& metrics_;
    std::array<telemetry::LogInterval, kEnumerators<ProxyHeaderRefusal>.size()> header_intervals_;
    std::array<telemetry::LogInterval, kEnumerators<TlsHandshakeFailure>.size()>
        handshake_intervals_;
};

}  // namespace tidegate::client
