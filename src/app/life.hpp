// The life of the process: starting, ready, draining. Main thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/signal_set.hpp>

#include "admin/server.hpp"
#include "app/admin_services.hpp"
#include "app/handover.hpp"
#include "app/listener.hpp"
#include "app/reloader.hpp"
#include "app/service_notifier.hpp"
#include "app/shared_state.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"
#include "net/descriptor.hpp"

namespace tidegate::app {

class Life {
  public:
    // `program` is how this process was started. Throws what keeps it from starting.
    Life(std::shared_ptr<const config::Config> config, ConfigOrigin origin, OwnProgram program);

    // Until it is stopped, or another process has taken its place. The exit code.
    int run();

  private:
    enum class Phase : std::uint8_t { starting, ready, draining };

    bool open(std::string& fault);
    // Looks whether Redis answers. Returns why this process must not start, or an empty string.
    std::string try_redis();
    // Keeps the number of proxies that Redis counts, for the next start.
    Task<> keep_replicas();
    std::string open_admin(const config::Config& config);
    void begin_admin();
    void begin_accepting();
    Task<> become_ready();
    void await_stop();
    void await_other_signals();
    void notify_of_reloads();
    void begin_watchdog();
    std::string status_text() const;
    void reload();
    // Takes the place of the former process.
    Task<> take_over();
    void begin_to_notify();
    Task<> watch_predecessor();
    // Gives this one's place to a new process, if there is no objection to it now.
    Task<> hand_over();
    std::string objection_to_handover() const;  // empty: there is none
    // Returns why this process goes on; empty: the new one has taken over.
    Task<std::string> try_hand_over();
    Task<std::string> start_successor();
    void offer_listeners();
    Task<std::string> give_place();
    Task<> hand_over_counts();
    void leave();
    Task<> pause_accepting();
    void begin_drain();
    void drain_workers();
    void cut();
    admin::AdminSources sources();
    std::string readiness_text() const;

    asio::io_context io_{1};
    const OwnProgram program_;
    const std::string file_;  // see ConfigOrigin
    InheritedSockets inherited_;
    std::unique_ptr<Predecessor> predecessor_;  // null: there is none, or it has ended
    SharedState shared_;
    std::vector<ListenerGroup> groups_;
    std::optional<ListenerGroup> admin_group_;
    Workers workers_;
    const bool is_watched_;
    const ReplicasFile replicas_file_;
    Reloader reloader_;
    InspectService inspect_service_;
    DashboardService dashboard_;
    RecordService record_service_;
    std::unique_ptr<admin::AdminServer> admin_;
    asio::signal_set signals_;
    asio::signal_set other_signals_;
    Timer delay_;
    Timer tunnels_delay_;
    ServiceNotifier notifier_;
    std::atomic<Phase> phase_{Phase::starting};
    std::atomic<std::size_t> workers_left_{0};
    std::vector<std::thread> joiners_;
    std::unique_ptr<Successor> successor_;  // from its start until the hand-over fails, or the end
    std::future<Descriptor> saved_counts_;  // waits for its thread, which uses `shared_`
    bool accepts_ = false;                  // the workers have begun to
    bool is_handing_over_ = false;          // from USR2 on, and until the hand-over fails
    bool has_handed_over_ = false;
    // After that: systemd tells both processes, and this one again when the new one has ended.
    int stops_tolerated_ = 2;
};

// Runs the proxy until stopped, with `config`, which was read from `origin`. Returns the exit code;
// says why on standard error.
int run(std::shared_ptr<const config::Config> config, ConfigOrigin origin);

}  // namespace tidegate::app
