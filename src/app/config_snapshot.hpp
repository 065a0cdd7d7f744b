// A configuration and what is made of it once for all workers, of which each makes its generation;
// and the thread on which configurations end.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "identity/authenticator.hpp"
#include "net/deadline.hpp"
#include "telemetry/access_log.hpp"
#include "telemetry/metric.hpp"
#include "telemetry/trace_queue.hpp"
#include "tls/ticket_keys.hpp"
#include "tls/tls_client.hpp"
#include "tls/tls_server.hpp"
#include "upstream/group.hpp"

namespace tidegate::app {

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
