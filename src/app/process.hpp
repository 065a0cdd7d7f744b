// What the workers of one process share. Immutable, or safe from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "redis/client.hpp"
#include "store/limiter.hpp"
#include "store/memory_store.hpp"
#include "telemetry/access_log.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::app {

struct Process {
    Process(std::shared_ptr<const config::Config> configuration, std::size_t worker_count,
            const std::string& version);

    std::shared_ptr<const config::Config> config;
    std::size_t workers;
    std::string name;  // of this process, among those that share a store
    telemetry::Metrics metrics;
    std::unique_ptr<telemetry::AccessLog> access_log;  // null: off
    store::MemoryStore memory_store;
    std::optional<redis::ClientOptions> redis;  // none: in process
    store::Replicas replicas{0};
    std::atomic<std::size_t> connections{0};  // of clients, held to connections.max
    std::atomic<int> workers_without_store{0};

    // A worker's store came or went; the first and the last word of it are logged.
    void store_changed(bool up, std::string_view reason);
};

// How many threads to run: the configured number, else a core each, as affinity and the cgroup's
// quota allow.
std::size_t worker_count(const config::Config& config);

}  // namespace tidegate::app
