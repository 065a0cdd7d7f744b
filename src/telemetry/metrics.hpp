// Counters of what happens, one shard a thread, merged when scraped.
//
// A shard is written by its own thread only, with plain relaxed loads and stores (no locked
// instruction on the way of a request); any thread may read it. Labels come from configurations,
// one after the other; identifiers never become labels.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/face.hpp"
#include "base/result.hpp"

namespace tidegate::telemetry {

using std::chrono::nanoseconds;

// How a request ended, as tidegate_requests_total tells it.
enum class Outcome : std::uint8_t {
    forwarded,    // the upstream's answer was relayed
    answered,     // who asked whether a request may go on was told that it may
    redirected,   // a listener with `redirect` sent the client to https
    limited,      // a limit refused it
    rejected,     // the request itself was at fault: 4xx other than the limit
    failed,       // the upstream was: 502, 503, 504, or a broken answer
    unavailable,  // the store was, and the policy says deny
    aborted,      // the client left before its answer, or we stopped
};

enum class StoreKind : std::uint8_t { memory, redis, local };

enum class StoreFailure : std::uint8_t {
    timeout,       // no answer within the deadline
    disconnected,  // the connection was lost while waiting
    unavailable,   // not connected, or the breaker is open
    overloaded,    // too many commands in flight
    refused,       // Redis answered with an error
    protocol,      // an answer that makes no sense
    full,          // in process: max_keys reached and on_full is deny
};

enum class StoreState : std::uint8_t { up, down };

// What became of an identifier that was counted in process while Redis was away.
enum class LocalReportResult : std::uint8_t {
    reported,
    expired,    // by then it counted no more
    lost,       // sent and not answered: perhaps counted, not sent again
    refused,    // Redis answered with an error, again and again
    forgotten,  // for want of room
};

// Which bound a connection was over.
enum class ConnectionRefusal : std::uint8_t {
    max,         // connections.max: all of them
    per_ip,      // connections.per_ip: those of its address
    new_per_ip,  // connections.new_per_ip: those that its address opens in a second
};

// Why a connection was closed before anything of the client was read.
enum class ProxyHeaderRefusal : std::uint8_t {
    peer,       // it may send none
    malformed,  // the header is missing or cannot be read, or there is a second one
    timeout,    // timeouts.tls_handshake
    too_many,   // wait for theirs already
};
inline constexpr std::size_t kProxyHeaderRefusals =
    static_cast<std::size_t>(ProxyHeaderRefusal::too_many) + 1;

// How a TLS handshake with a client came to its end.
enum class TlsHandshakeKind : std::uint8_t {
    full,
    resumed,  // it went on with the session of an earlier one
};

// Why there is none.
enum class TlsHandshakeFailure : std::uint8_t {
    plain_http,          // the client speaks HTTP in the clear
    proxy_header,        // the peer sends a PROXY header, and the listener takes none
    not_tls,             // nor does it speak anything else that is known here
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

// How a tunnel came to its end.
enum class TunnelEnd : std::uint8_t {
    client,      // the client closed, or left
    upstream,    // the upstream did
    idle,        // timeouts.tunnel_idle
    limited,     // the client sent more than `tunnel` of the route allows
    bad_frames,  // an end sent what is no frame
    stalled,     // timeouts.client_write
    drained,     // the process stops: the proxy has closed both ends
    cut,         // the process stops: the tunnel was cut off
};
inline constexpr std::size_t kTunnelEnds = static_cast<std::size_t>(TunnelEnd::cut) + 1;

// Why the proxy ended a connection in HTTP/2 that its client had not finished with.
enum class Http2End : std::uint8_t {
    abuse,             // the client spent `http2.abuse`
    protocol_error,    // it broke the rules of HTTP/2
    settings_timeout,  // it did not acknowledge the proxy's SETTINGS
    head_timeout,      // timeouts.request_head: a header block did not end in time
    not_reading,       // timeouts.client_write: it takes nothing
};
inline constexpr std::size_t kHttp2Ends = static_cast<std::size_t>(Http2End::not_reading) + 1;

// Why a cost that a request named was not taken.
enum class CostFault : std::uint8_t {
    untrusted,     // from somebody who is not believed
    unreadable,    // no whole number, or several
    out_of_range,  // not between `min` and `max`
};

// The words of labels and log lines.
std::string_view to_string(Outcome outcome);
std::string_view to_string(StoreKind kind);
std::string_view to_string(StoreFailure failure);
std::string_view to_string(LocalReportResult result);
std::string_view to_string(ConnectionRefusal refusal);
std::string_view to_string(ProxyHeaderRefusal refusal);
std::string_view to_string(TlsHandshakeFailure failure);
std::string_view to_string(TunnelEnd end);
std::string_view to_string(Http2End end);
std::string_view to_string(CostFault fault);

// What the labels are, as one configuration has them.
struct MetricNames {
    // A list of limits. Lists that name the same policy and limit share one figure.
    struct PolicyNames {
        std::string policy;
        std::vector<std::string> limits;
        bool shadow = false;  // its answers are told apart: they refuse nobody
    };
    std::vector<std::string> routes;
    std::vector<PolicyNames> policies;
    std::vector<std::string> upstreams;
};

inline constexpr std::size_t kNoSlot = static_cast<std::size_t>(-1);
inline constexpr std::size_t kNoRoute = kNoSlot;  // label route="-"

// Where the names of one configuration are counted: the slots that shards are told, by the
// positions in its MetricNames. The same name has the same slot in every configuration. Immutable.
class MetricSlots {
  public:
    // kNoRoute stays so.
    std::size_t route(std::size_t position) const {
        return position < routes_.size() ? routes_[position] : kNoRoute;
    }
    std::size_t upstream(std::size_t position) const {
        return position < upstreams_.size() ? upstreams_[position] : kNoSlot;
    }
    std::size_t decision(std::size_t policy, std::size_t limit) const {
        if (decisions_begin_.empty() || policy >= decisions_begin_.size() - 1) return kNoSlot;
        const std::size_t begin = decisions_begin_[policy];
        return limit < decisions_begin_[policy + 1] - begin ? decisions_[begin + limit] : kNoSlot;
    }

  private:
    friend struct NameRegistry;

    std::vector<std::size_t> routes_;
    std::vector<std::size_t> upstreams_;
    std::vector<std::size_t> decisions_begin_;  // by policy, and one past the end
    std::vector<std::size_t> decisions_;        // the limits of all policies in a row
};

// What one thread counts. A slot that is not there is not counted (a route's: as kNoRoute). Takes
// about 1.2 KiB a route.
class MetricsShard {
  public:
    // Room for `names_max` names of each kind, and for `faults`.
    MetricsShard(std::size_t names_max, std::size_t faults);
    ~MetricsShard();
    MetricsShard(const MetricsShard&) = delete;
    MetricsShard& operator=(const MetricsShard&) = delete;

    // tidegate_requests_total{route,code,outcome,face}, tidegate_request_seconds{route}. `code` is
    // "-" when no answer was sent (status 0), and "other" for what is no status, or once a route
    // has seen more than 48 pairs of status and outcome.
    void count_request(std::size_t route_slot, Face face, int status, Outcome outcome,
                       nanoseconds took);
    // tidegate_request_faults_total{fault}
    void count_fault(std::size_t fault);
    // tidegate_decisions_total{policy,limit,outcome="admitted"|"denied"}, in shadow
    // "shadow_admitted"|"shadow_denied"
    void count_decision(std::size_t slot, bool denied);
    // tidegate_cost_ignored_total{reason}: the route's default was taken
    void count_cost_ignored(CostFault reason);
    // tidegate_forwarding_invalid_total: a trusted peer's chain ended where it could not be read
    void count_forwarding_invalid();
    // tidegate_forwarding_ignored_total: a peer that is not trusted sent X-Forwarded-For or
    // Forwarded
    void count_forwarding_ignored();
    // tidegate_questions_without_address_total: a gateway did not say whom it asks for.
    void count_question_without_address();
    // tidegate_decision_seconds{store}
    void count_decision_time(StoreKind store, nanoseconds took);
    // tidegate_deny_cache_hits_total
    void count_deny_cache_hit();
    // tidegate_store_given_back_total: of a request that spanned slots of Redis Cluster
    void count_given_back();
    // tidegate_local_reports_total{result}
    void count_local_report(LocalReportResult result, std::uint64_t times);
    // tidegate_store_failures_total{reason}
    void count_store_failure(StoreFailure reason);
    // tidegate_store_state{state="up"|"down"}: how many workers see it so. A shard
    // begins with `up`.
    void set_store_state(StoreState state);
    // tidegate_upstream_seconds{upstream}: from sending the request to the head of the answer
    void count_upstream(std::size_t slot, nanoseconds took);
    // tidegate_upstream_failures_total{upstream}
    void count_upstream_failure(std::size_t slot);
    // tidegate_upstream_queue_seconds{upstream}: of a request for which no connection was free
    void count_upstream_queue(std::size_t slot, nanoseconds took);
    // tidegate_client_connections (gauge), tidegate_client_connections_total
    void client_connected();
    void client_disconnected();
    // tidegate_client_connections_refused_total{reason}
    void client_refused(ConnectionRefusal reason);
    // tidegate_proxy_headers_refused_total{reason}
    void proxy_header_refused(ProxyHeaderRefusal reason);
    // tidegate_tls_handshakes_total{result}
    void tls_handshake_ended(TlsHandshakeKind handshake);
    // tidegate_tls_handshakes_failed_total{reason}
    void tls_handshake_failed(TlsHandshakeFailure reason);
    // tidegate_http2_connections_ended_total{reason}
    void http2_connection_ended(Http2End reason);
    // tidegate_http2_streams_refused_total: over http2.streams
    void http2_stream_refused();
    // tidegate_client_connections_idle_closed_total: nothing came in timeouts.client_idle
    void client_idled_out();
    // tidegate_client_connections_made_room_total: closed at connections.max for another client
    void client_made_room();
    // tidegate_internal_errors_total: an exception ended a request, and its connection was reset
    void count_internal_error();
    // tidegate_upstream_connections (gauge), tidegate_upstream_connections_total
    void upstream_connected();
    void upstream_disconnected();
    // tidegate_tunnels_open (gauge), tidegate_tunnels_total{end}
    void tunnel_opened();
    void tunnel_ended(TunnelEnd end);
    // tidegate_tunnel_received_bytes_total, tidegate_tunnel_sent_bytes_total: by clients, to them
    void count_tunnel_received(std::uint64_t bytes);
    void count_tunnel_sent(std::uint64_t bytes);
    // tidegate_client_received_bytes_total, tidegate_client_sent_bytes_total
    void count_bytes(std::uint64_t received, std::uint64_t sent);

  private:
    friend class Metrics;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// The whole process's figures. Names may be added while shards are written, and none is ever taken
// away: a counter that vanished and came back would look like a restart to whoever scrapes it.
class Metrics {
  public:
    // Names of routes, upstreams and limits together, unless the first configuration has more.
    static constexpr std::size_t kNamesMax = 10'000;

    // Figures that are asked for when scraped rather than counted by a shard.
    struct Gauges {
        // A place that keys of tokens are fetched from.
        struct KeyPlace {
            std::string url;                          // label; no two alike
            std::size_t keys = 0;                     // of use
            std::optional<std::chrono::seconds> age;  // of what was fetched; unset: nothing yet
        };
        // A server that an upstream has now.
        struct UpstreamServer {
            std::string upstream;
            std::string server;  // its address
            bool up = true;
            std::uint64_t active = 0;    // requests in flight, and those that wait
            std::uint64_t requests = 0;  // for which the server was chosen
            std::uint64_t failures = 0;
            std::uint64_t ejections = 0;
        };
        struct UpstreamQueue {
            std::string upstream;
            std::uint64_t length = 0;
        };
        // A certificate that Tidegate shows.
        struct CertificateExpiry {
            std::string name;  // label; no two alike
            std::chrono::system_clock::time_point until;
        };
        std::uint64_t memory_store_keys = 0;
        std::uint64_t memory_store_evictions = 0;
        std::uint64_t access_log_dropped = 0;
        std::uint64_t config_generation = 1;  // one more for each that was put in force
        std::uint64_t configs_in_use = 1;     // it, and those that requests still hold
        std::uint64_t reloads_ok = 0;
        std::uint64_t reloads_refused = 0;
        std::chrono::system_clock::time_point config_read_at{};  // the one in force
        std::uint64_t jwks_fetches_ok = 0;
        std::uint64_t jwks_fetches_failed = 0;
        std::vector<KeyPlace> jwks{};
        std::vector<UpstreamServer> upstream_servers{};
        std::vector<UpstreamQueue> upstream_queues{};
        std::vector<CertificateExpiry> certificate_expiry{};
    };

    // `names` are those of the first configuration; of `faults` an empty one is not shown.
    Metrics(const MetricNames& names, std::vector<std::string> faults, std::size_t shards,
            std::string version);
    ~Metrics();

    // Where the names of a configuration are counted; those that are new are added to every shard.
    // Not when there would be too many: then nothing is, and the error says so. Any thread.
    Result<MetricSlots, std::string> admit(const MetricNames& names);

    // Each thread takes the one of its number. Requires index < shards.
    MetricsShard& shard(std::size_t index);
    bool store_is_up() const;  // in the eyes of every worker

    // The Prometheus text format. Any thread.
    std::string serialize(const Gauges& gauges) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tidegate::telemetry
