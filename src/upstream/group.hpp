// The servers of one upstream as all threads know them, and what the threads share of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <boost/align/aligned_allocator.hpp>

#include "balance/health.hpp"
#include "balance/max_connections.hpp"
#include "balance/retry_budget.hpp"
#include "base/ip.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"
#include "telemetry/counters.hpp"
#include "tls/tls_client.hpp"
#include "upstream/metrics.hpp"

namespace tidegate::upstream {

// One server of an upstream as all threads know it: one address, whether the configuration says the
// address or a name that leads to it.
//
// Members that are not atomic never change. Each worker counts in cells of its own, so that the
// requests of round robin touch no cache line that workers share.
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

    // How many requests are in flight, as the workers count.
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

// The servers of one upstream and all that the threads of a process share about them: addresses,
// health, the bound on connections and the budget of retries.
//
// Made by the main thread for each upstream of a configuration, and shared by every configuration
// that has the same upstream. The main thread resolves names and checks health; each worker has a
// Pool of connections, which follows `version()`.
class Group {
  public:
    using Servers = std::vector<std::shared_ptr<SharedServer>>;
    using Endpoints = std::vector<StreamProtocol::endpoint>;

    // `former` is the upstream of the same name in the previous configuration, or null: names that
    // both have begin with their former addresses. `tls`: what make_tls() has made of `settings`.
    Group(config::Upstream settings, std::size_t workers, const Group* former,
          std::shared_ptr<const TlsClient> tls);
    // The same, but calls make_tls() itself, and throws what it throws.
    Group(const config::Upstream& settings, std::size_t workers, const Group* former);
    // Returns null if no server speaks TLS. Reads the system's authorities, which may take long.
    // Throws std::runtime_error when `tls` of `settings` cannot be used. Any thread.
    static std::shared_ptr<const TlsClient> make_tls(const config::Upstream& settings);

    const config::Upstream& settings() const { return settings_; }
    std::size_t workers() const { return workers_; }

    // Any thread.

    // Returns the TLS client for encrypted servers; null if no server is. A worker uses a copy.
    const TlsClient* tls() const { return tls_.get(); }

    // Changes whenever servers() does.
    std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
    Servers servers() const;
    balance::Seats& seats() { return seats_; }
    balance::RetryBudget& retries() { return retries_; }

    // Notes that worker `worker` keeps `count` idle connections, which have seats.
    void set_idle(std::size_t worker, std::size_t count) {
        worker_rooms_[worker].idle.store(count, std::memory_order_relaxed);
    }
    bool has_idle_elsewhere(std::size_t worker) const;
    // `make_room` makes worker `worker` close idle connections while requests wait. Any thread
    // calls it.
    void on_ask_for_room(std::size_t worker, std::function<void()> make_room);
    // Notes the addresses that have more than their share of the connections of worker `worker`.
    // Returns those of all workers.
    std::vector<IpAddress> note_crowds(std::size_t worker, std::vector<IpAddress> crowds);
    // Asks the other workers to close their idle connections, because a request of `worker` waits.
    void ask_for_room(std::size_t worker);

    // Notes that a request to `server` failed. If the connection failed, `error` is the errno, or
    // `tls_why` says in a clause why TLS failed. Logs that, and what changes.
    void note_failure(SharedServer& server, balance::ServerFailure failure, int error = 0,
                      const std::string& tls_why = {});
    // Notes that `server` has answered a request. Logs that if requests before it had failed.
    void note_success(SharedServer& server) {
        if (health_.note_success(server.state)) log_recovery(server);
    }
    // Notes that a health check of `server` has ended. `fault` says why it failed, and is empty if
    // it did not. Checks of one server come one after the other.
    void note_check(SharedServer& server, const std::string& fault);

    // The main thread.

    // Server `configured` of the settings, whose address is a name, has these addresses now. A name
    // that leads nowhere keeps what it led to, and counts as failing until it leads somewhere.
    void resolved(std::size_t configured, const Endpoints& endpoints);
    static bool is_name(const config::UpstreamServer& server);
    bool is_resolved(std::size_t configured) const { return !addresses_[configured].empty(); }
    // Whether every name has led somewhere, or its first look-up has found nothing.
    bool are_names_tried() const;
    // Whether every name has led somewhere.
    bool is_resolved() const;
    // Whether every server has been checked once, if they are checked.
    bool is_checked() const;
    UpstreamStatus status() const;
    // Servers, and those of them that are up: the numbers of status() without its texts.
    struct ServerCounts {
        std::uint32_t all = 0;
        std::uint32_t up = 0;
    };
    ServerCounts count_servers() const;

  private:
    struct alignas(64) WorkerRoom {
        std::atomic<std::size_t> idle{0};
        std::function<void()> make_room;  // under mutex_
        std::vector<IpAddress> crowds;    // under mutex_
    };

    void publish();
    std::shared_ptr<SharedServer> find(const balance::ServerState& state) const;
    void log_change(const SharedServer& server, const balance::HealthChange& change,
                    const std::string& why);
    void log_connect_failure(const SharedServer& server, const std::string& why) const;
    void log_ejection(const SharedServer& server, std::chrono::nanoseconds time,
                      const std::string& why) const;
    void log_returned(const std::vector<balance::ServerState*>& states) const;
    void log_recovery(const SharedServer& server) const;
    std::string failure_kind(const SharedServer& server) const;

    const config::Upstream settings_;
    const std::shared_ptr<const TlsClient> tls_;
    const std::size_t workers_;
    balance::Health health_;
    balance::Seats seats_;
    balance::RetryBudget retries_;
    std::vector<Endpoints> addresses_;  // by configured server
    std::vector<bool> names_tried_;     // by configured server: a look-up has ended
    std::vector<bool> names_failing_;   // by configured server: the last look-up found no address
    std::vector<WorkerRoom, boost::alignment::aligned_allocator<WorkerRoom, 64>> worker_rooms_;
    mutable std::mutex mutex_;  // of servers_, make_room and crowds
    Servers servers_;
    std::atomic<std::uint64_t> version_{0};
};

using GroupPtr = std::shared_ptr<Group>;

}  // namespace tidegate::upstream
