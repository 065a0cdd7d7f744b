// envoy_grpc: Envoy asks by gRPC, through its rate limit service (ShouldRateLimit) or its external
// authorization (Check). It answers health checks of the service, too.
//
// Envoy never says how a request ended, so nothing is given back. One thread.
#pragma once

#include <memory>

#include "client/stream.hpp"
#include "config/config.hpp"
#include "faces/rls_charge.hpp"
#include "net/task.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::faces {

// One listener of a worker. Worker and settings outlive its connections.
struct EnvoyGrpc {
    proxy::WorkerContext& worker;
    const config::Listen& listen;
    std::shared_ptr<RlsOverrides> overrides{};  // of the configuration that was asked last
};

// Serves one call: the callback of client::ConnectionContext, with an EnvoyGrpc.
Task<> serve_envoy_grpc(void* face, client::Stream& client);

}  // namespace tidegate::faces
