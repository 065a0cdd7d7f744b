// What the workers of one process share: SharedState outlives configurations, and each
// configuration has a ConfigSnapshot. Immutable, or safe from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "app/metrics.hpp"
#include "ask/password_pool.hpp"
#include "base/result.hpp"
#include "client/connection_limit.hpp"
#include "config/config.hpp"
#include "faces/faces.hpp"
#include "identity/authenticator.hpp"
#include "net/deadline.hpp"
#include "redis/client.hpp"
#include "redis/cluster.hpp"
#include "redis/resp.hpp"
#include "store/batch_queue.hpp"
#include "store/deny_cache.hpp"
#include "store/limiter.hpp"
#include "store/memory_store.hpp"
#include "store/replica_heartbeat.hpp"
#include "telemetry/access_log.hpp"
#include "telemetry/metric.hpp"
#include "telemetry/trace_export.hpp"
#include "tls/tls_client.hpp"
#include "tls/tls_server.hpp"
#include "upstream/group.hpp"

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

// Holds the objects that the workers share, whatever the configuration.
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

// A configuration and what is made of it once for all workers, of which each makes its generation;
// and the thread on which configurations end.

// Holds the TLS settings and keys of a listener. The main thread makes it once for all workers, and
// each worker makes a TlsServer of its own of it. Immutable, but for the keys, which lock for
// themselves; any thread.
struct ListenerTls {
    config::Address address;     // as the configuration has it
    TlsServerSettings settings;  // that the credentials were made of
    std::shared_ptr<const ServerCredentials> credentials;
    std::shared_ptr<TicketKeys> tickets;  // the same for as long as the process lives

    bool operator==(const ListenerTls&) const = default;
};

// Makes the TLS of each listener of `config` that speaks it, or takes that of `before` if the
// settings are the same. The error says what is wrong with the settings, as a sentence. Throws
// std::runtime_error when the system has no random bytes.
Result<std::vector<ListenerTls>, std::string> make_listener_tls(
    const config::Config& config, const std::vector<ListenerTls>& before, SteadyTime now);

// From now on tickets are made with what `all` say.
void use_ticket_keys(const std::vector<ListenerTls>& all, SteadyTime now);
// Makes new keys when it is time.
void rotate_ticket_keys(const std::vector<ListenerTls>& all, SteadyTime now);

// Null: the listener at `address`, as the configuration has it, speaks in the clear.
const ListenerTls* find_listener_tls(const std::vector<ListenerTls>& all,
                                     const config::Address& address);

// Immutable, but for what locks for itself; any thread.
struct ConfigSnapshot {
    std::uint64_t number = 1;  // 1 at the start, and one more each time one is put in force
    std::shared_ptr<const config::Config> config;
    // The workers note here what they learn of credentials. Each configuration has its own methods,
    // so it has a cache of its own.
    std::shared_ptr<identity::SharedCredentialCache> remembered =
        std::make_shared<identity::SharedCredentialCache>();
    telemetry::MetricSlots slots;
    std::shared_ptr<telemetry::AccessLog> access_log;  // null: off
    std::vector<upstream::GroupPtr> upstreams;         // in the order of the configuration
    std::vector<ListenerTls> tls;                      // of the listeners that speak it
    std::shared_ptr<const TlsClient> redis_tls;        // null: as it was
    std::shared_ptr<const TlsClient> sentinel_tls;     // likewise
    std::shared_ptr<telemetry::TraceQueue> traces;     // null: requests are not traced
};

// Returns the labels of metrics under `config`.
telemetry::MetricNames metric_names(const config::Config& config);

// Destroys configurations on a thread of its own: one with 100,000 keys or 10,000 routes takes
// longer than a loop may stand still, and the last request that uses it may end on any loop.
class Disposer {
  public:
    using ConfigPtr = std::shared_ptr<const config::Config>;

    Disposer();
    // Destroys what it still has. Configurations that end later are destroyed where they end.
    ~Disposer();
    Disposer(const Disposer&) = delete;
    Disposer& operator=(const Disposer&) = delete;

    // The same configuration, which this destroys when its last owner lets go. Null stays null.
    ConfigPtr adopt(ConfigPtr config);

  private:
    // Shared with the configurations, which may outlive this.
    struct Queue {
        std::mutex mutex;
        std::condition_variable_any news;
        std::vector<ConfigPtr> configs;
        bool has_ended = false;

        void run(const std::stop_token& stop);
        void put(ConfigPtr&& config);
    };

    std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
    std::jthread thread_;
};

}  // namespace tidegate::app
