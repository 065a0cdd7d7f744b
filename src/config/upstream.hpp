// An upstream as it is written: its servers, how Tidegate chooses among them, and what becomes of a
// request while none is free.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/socket_address.hpp"
#include "limit/policy.hpp"
#include "tls/tls_settings.hpp"

namespace tidegate::config {

using std::chrono::milliseconds;

struct UpstreamServer {
    Address address;
    int weight = 1;         // 1..1000
    std::string authority;  // for Host when it is not preserved
    bool is_tls = false;    // `https://`: Upstream::tls says how
    bool is_http2 = false;  // `h2c://`, or `http: h2`

    bool operator==(const UpstreamServer&) const = default;
};

// How Tidegate chooses the server of a request. Weights count for each.
enum class Balance : std::uint8_t {
    round_robin,
    least_connections,
    hash,  // requests with the same value of Upstream::hash_key go to the same server
};

// Both ends are included.
struct StatusRange {
    int first = 200;
    int last = 399;

    bool contains(int status) const { return status >= first && status <= last; }

    bool operator==(const StatusRange&) const = default;
};

struct HealthCheck {
    std::string path;  // what a GET asks for, a query included; else empty
    // Asks the health service of gRPC about this service instead; empty: about the server as a
    // whole. Unset: not by gRPC.
    std::optional<std::string> grpc;
    std::string host;  // for Host, perhaps with a port. Empty: the server's own authority
    milliseconds every{5'000};
    milliseconds timeout{2'000};                  // for all of a check; at most `every`
    int unhealthy_after = 3;                      // failed checks in a row
    int healthy_after = 2;                        // successful ones in a row
    std::vector<StatusRange> status{{200, 399}};  // of an answer that is healthy; not empty

    bool only_connects() const { return path.empty() && !grpc; }
    bool operator==(const HealthCheck&) const = default;
};

// When a server is left out because its requests fail.
struct Ejection {
    int failures = 5;               // in a row
    milliseconds duration{10'000};  // the first time
    int at_most_percent = 50;       // of the servers may be ejected at once

    bool operator==(const Ejection&) const = default;
};

// Requests that wait for one of Upstream::max_connections.
struct Queue {
    std::size_t max = 128;  // 0: no request waits
    milliseconds wait{1'000};

    bool operator==(const Queue&) const = default;
};

struct Upstream {
    std::string name;
    std::vector<UpstreamServer> servers;  // at least one
    Balance balance = Balance::round_robin;
    // Of Balance::hash, else without choices. A request without a value is balanced by round robin.
    limit::Key hash_key;
    std::optional<HealthCheck> health_check;  // unset: none
    std::optional<Ejection> eject;            // unset: off
    // How long the share of a server grows after it came back; 0: off.
    milliseconds slow_start{0};
    Queue queue;
    TlsSettings tls;  // of the servers with `is_tls`
    // Of the process, to all servers together.
    std::size_t max_connections = 512;
    std::size_t idle_connections = 64;
    milliseconds resolve_every{30'000};
    milliseconds connect_timeout{2'000};
    milliseconds response_timeout{30'000};  // from the whole request to the head of the answer
    milliseconds stream_idle{300'000};      // silence inside an answer that has begun
    milliseconds idle_timeout{60'000};
    int retries = 1;
    // A body of known length up to this size is read whole before Tidegate takes a connection to a
    // server; 0: off.
    std::size_t request_buffer = 65'536;

    // Requests to some server go in HTTP/2.
    bool has_http2() const {
        return std::any_of(servers.begin(), servers.end(),
                           [](const UpstreamServer& server) { return server.is_http2; });
    }
    // Requests to some server go in HTTP/1.
    bool has_http1() const {
        return !std::all_of(servers.begin(), servers.end(),
                            [](const UpstreamServer& server) { return server.is_http2; });
    }
    bool operator==(const Upstream&) const = default;
};

}  // namespace tidegate::config
