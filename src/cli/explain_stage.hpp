// Where a request is walked down the street to be explained: a worker without a network, and one
// client of it. One thread.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "app/config_snapshot.hpp"
#include "cli/explain.hpp"
#include "net/asio.hpp"
#include "proxy/http1_client.hpp"
#include "proxy/street.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::cli {

struct Stage {
    Stage(std::shared_ptr<const config::Config> config, const identity::Peer& peer)
        : metrics(app::metric_names(*config), {}, 1, TIDEGATE_VERSION),
          worker{.executor = io.get_executor(),
                 .generation = proxy::GenerationPtr(new proxy::Generation(std::move(config))),
                 .thread = 0,
                 .metrics = metrics.shard(0),
                 .limiter = limiter,
                 .passwords = passwords,
                 .deadlines = wheel,
                 .buffers = buffers,
                 .request_ids = {},
                 .exchanges = {io.get_executor(), wheel, buffers}},
          client(ConnectionPtr(new Connection(readiness, -1)), buffers, peer, 0),
          exchange(io.get_executor(), wheel, buffers) {
        exchange.generation = worker.generation;
        exchange.began_at = std::chrono::system_clock::now();
    }

    const config::Config& config() const { return exchange.config(); }

    asio::io_context io{1};
    Readiness readiness{io};
    telemetry::Metrics metrics;
    store::MemoryStore memory{store::MemoryStore::Options{}};
    store::Limiter limiter{memory, metrics.shard(0)};
    proxy::PasswordPool passwords{{.threads = 0}};  // what is explained is checked at once
    DeadlineWheel wheel{SteadyTime{}};
    BufferPool buffers;
    proxy::WorkerContext worker;
    proxy::Http1Client client;
    proxy::Exchange exchange;
};

// Who asks: identifies the client and proves its credential, which may end in a fault.
void explain_identity(Stage& stage, const FetchKeys& fetch_keys, Explanation& out);

// Requires a route: whom its policies count, which may end in a fault.
void explain_charges(Stage& stage, Explanation& out);

}  // namespace tidegate::cli
