// One server of an upstream as all threads know it: one address, whether the configuration says the
// address or a name that leads to it.
//
// What is not atomic never changes. Each worker counts in cells of its own, so that the requests of
// round robin touch no cache line that workers share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <boost/align/aligned_allocator.hpp>

#include "balance/server_state.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"
#include "telemetry/counters.hpp"

namespace tidegate::upstream {

struct SharedServer {
    // `configured` says where this server comes from; `workers` threads send requests to it.
    SharedServer(const config::UpstreamServer& configured, const StreamProtocol::endpoint& at,
                 std::size_t workers);

    // One worker's counts.
    struct alignas(64) Counts {
        telemetry::Counter requests;  // for which the server was chosen
        telemetry::Counter failures;
        telemetry::Counter ended;  // requests that are in flight no more
    };

    // In flight, as the workers count.
    std::uint64_t active() const;

    const std::string name;       // as configured: `host:port`, or the socket's path
    const std::string address;    // `10.0.0.7:3000`, or the socket's path
    const std::string authority;  // for Host when the client's is not kept
    const std::string tls_host;   // whose certificate it must have; empty: not encrypted
    const bool is_http2;          // requests go in HTTP/2
    const StreamProtocol::endpoint endpoint;
    balance::ServerState state;
    std::vector<Counts, boost::alignment::aligned_allocator<Counts, 64>> counts;  // by worker
    std::atomic<std::uint64_t> ejections{0};
};

}  // namespace tidegate::upstream
