// Holds the objects that the workers of one process share, whatever the configuration. Immutable,
// or safe from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/metrics.hpp"
#include "ask/password_pool.hpp"
#include "client/connection_limit.hpp"
#include "config/config.hpp"
#include "faces/faces.hpp"
#include "redis/client.hpp"
#include "redis/cluster.hpp"
#include "redis/resp.hpp"
#include "store/batch_queue.hpp"
#include "store/deny_cache.hpp"
#include "store/limiter.hpp"
#include "store/memory_store.hpp"
#include "store/replica_heartbeat.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::app {

// How much processor time the control groups of this process allow it: a container's limit, or
// `CPUQuota=` of a systemd unit.
//
// In processors: 1.5 are 150 ms of processor time each 100 ms. The smallest quota of the group and
// of those that it is in, as far as they are mounted, in cgroup v2 and in v1. Nothing: there is
// none. `root` is the folder in which `proc` and the mounts are; tests make one.
std::optional<double> cpu_quota(const std::string& root = "");

// Raises the limit on the files and sockets of this process as far as the system lets it, and
// returns it.
std::size_t raise_descriptor_limit();

// Returns how many of `descriptors` may be connections from clients, so that silent clients leave
// enough for the admin listener, Redis, upstreams and files. It is at least half. Pure.
std::size_t descriptors_for_clients(std::size_t descriptors, std::size_t workers,
                                    const config::Config& config);

// Raises that limit, and returns how many connections from clients it leaves room for. The log says
// so when these are fewer than `connections.max`.
std::size_t client_connections_max(std::size_t workers, const config::Config& config);

// The scripts that a connection to Redis loads before it is used: the script that can do every
// charge, and those that the charges of this configuration run, and what gives their units back;
// whatever else is needed is loaded when it is. Redis collects garbage by walking through every
// script it has, so unused scripts make each decision slower.
std::vector<const redis::Script*> preloaded_scripts(const config::Config& config);

// Returns what the configuration says of the number of proxies.
store::ReplicaSettings replica_settings(const config::Config& config);

// The number of proxies that Redis last counted, kept for the next start: the file `replicas` in
// the folder that systemd gives a service (`StateDirectory=`). It holds a number and a line end.
class ReplicasFile {
  public:
    static constexpr std::size_t kBytesMax = 32;

    // `path` empty: nothing is kept.
    explicit ReplicasFile(std::string path) : path_(std::move(path)) {}
    // In the first folder of STATE_DIRECTORY, which has to be an absolute path.
    static ReplicasFile of(config::Environment environment);

    const std::string& path() const { return path_; }
    // The number; 0: there is none. The log says why a file is of no use. Blocks, for a bounded
    // time.
    int read() const;
    // Replaces the file at once, so that a reader sees the old number or the new one. Returns why
    // it cannot, or an empty string. Blocks: to be called as FileWork.
    std::string write(int number) const;

  private:
    std::string path_;
};

struct SharedState {
    // From the configuration of the start; later ones are given to the workers by the Reloader.
    SharedState(const config::Config& config, std::size_t worker_count, const std::string& version);

    std::size_t workers;
    std::string name;  // of this process, among those that share a store
    MetricsRegistry metrics;
    store::MemoryStore memory_store;
    std::shared_ptr<TlsClient> redis_tls;       // null: not encrypted
    std::shared_ptr<TlsClient> sentinel_tls;    // likewise
    std::optional<redis::ClientOptions> redis;  // none: in process
    // Set if Redis is a cluster. `redis` says how to speak to its nodes.
    std::optional<redis::ClusterOptions> redis_cluster;
    store::ReplicaFigures replicas{};
    int replicas_before = 0;  // as a process before this one saw them; 0: not known
    // Whether Redis refused this process at the start, and has not taken it since: a wrong
    // password, a right that is missing, a certificate that is not believed.
    bool is_refused_by_store() const { return was_refused && replicas.seen == 0 && !was_back; }
    bool was_refused = false;           // set before the workers start
    std::atomic<bool> was_back{false};  // after it was away
    store::FreedIdentifiers freed;
    store::SharedCharges charges;
    client::ConnectionLimit connection_limit;
    client::ConnectionRate connection_rate{};
    faces::Reservations reservations;
    ask::PasswordPool passwords{{}};
    std::atomic<int> workers_without_store{0};

    // A worker's store came or went; the first and the last word of it are logged.
    void store_changed(bool up, std::string_view reason);
};

// Makes the TLS client for connections to Redis; null when they are not encrypted. Throws
// std::runtime_error when the machine has no memory, or OpenSSL takes against what was good when
// the configuration was read.
std::shared_ptr<TlsClient> make_redis_tls(const config::Config& config);
// The same, to its sentinels.
std::shared_ptr<TlsClient> make_sentinel_tls(const config::Config& config);

store::MemoryStore::Options memory_options(const config::Config& config);
// Returns the names of the policies, of which each has a share of the in-process store.
std::vector<std::string_view> policy_names(const config::Config& config);

// How many threads to run: the configured number, else a core each, as affinity and the cgroup's
// quota allow.
std::size_t worker_count(const config::Config& config);

}  // namespace tidegate::app
