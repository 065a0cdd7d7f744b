#include "app/run.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>
#include <vector>

#include <boost/asio/signal_set.hpp>

#include "admin/server.hpp"
#include "admin/upstreams_answer.hpp"
#include "app/client_listeners.hpp"
#include "app/dashboard_service.hpp"
#include "app/file_watch.hpp"
#include "app/inherited_sockets.hpp"
#include "app/inspect_service.hpp"
#include "app/listener.hpp"
#include "app/log_level.hpp"
#include "app/reloader.hpp"
#include "app/service_notifier.hpp"
#include "app/shared_state.hpp"
#include "app/start_notices.hpp"
#include "app/watchdog.hpp"
#include "app/worker.hpp"
#include "base/quote.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

using telemetry::Level;
using telemetry::log;

constexpr std::chrono::milliseconds kRedisPatience{3'000};

// The reason why the program cannot start, or an empty string. A Redis that refuses us will go on
// refusing; one that is away may come.
std::string check_redis(const SharedState& shared, const config::Config& config) {
    if (!shared.redis) return {};
    const auto fault = shared.redis_cluster
                           ? redis::Cluster::try_once(*shared.redis_cluster, kRedisPatience)
                           : redis::Client::try_once(*shared.redis, kRedisPatience);
    if (!fault) return {};
    if (fault->refused) return fault->message;
    if (lacks_replicas(shared, config)) {
        return fault->message +
               ". `on_store_failure: local` needs the number of proxies that share Redis: write "
               "`replicas`, or choose `allow` or `deny`";
    }
    log(Level::warn, "{}; starting without Redis", fault->message);
    return {};
}

// A signal with a handler does not kill the process. This handler stays to the very end, when Life
// no longer listens, so a second TERM does not make the exit a failure. Never destroyed.
class LateSignals {
  public:
    static void ignore() {
        static LateSignals* const ignored = new LateSignals;
        static_cast<void>(ignored);
    }

  private:
    asio::io_context io_{1};
    asio::signal_set signals_{io_, SIGINT, SIGTERM};
    asio::signal_set other_signals_{io_, SIGHUP, SIGUSR1};
};

// The process's life: starting, ready, draining; on the main thread.
class Life {
  public:
    Life(std::shared_ptr<const config::Config> config, Origin origin, InheritedSockets inherited)
        : inherited_(std::move(inherited)),
          shared_(*config, worker_count(*config), std::string(kVersion)),
          is_watched_(origin.is_watched),
          reloader_(io_.get_executor(), shared_, workers_, std::move(config), std::move(origin)),
          inspect_service_(io_.get_executor(), shared_, workers_, reloader_),
          dashboard_(io_.get_executor(), shared_, workers_, reloader_),
          signals_(io_, SIGINT, SIGTERM),
          other_signals_(io_, SIGHUP, SIGUSR1),
          delay_(io_),
          tunnels_delay_(io_),
          notifier_(config::process_environment("NOTIFY_SOCKET").value_or("")) {}

    int run();

  private:
    enum class Phase : std::uint8_t { starting, ready, draining };

    bool open(std::string& fault);
    Task<> become_ready();
    void await_stop();
    void await_other_signals();
    void notify_of_reloads();
    void begin_watchdog();
    std::string status_text() const;
    void reload();
    void begin_drain();
    void drain_workers();
    void cut();
    admin::AdminSources sources();
    std::string readiness_text(Phase phase) const;

    asio::io_context io_{1};
    InheritedSockets inherited_;
    SharedState shared_;
    std::vector<ListenerGroup> groups_;
    Workers workers_;
    const bool is_watched_;
    Reloader reloader_;
    InspectService inspect_service_;
    DashboardService dashboard_;
    std::unique_ptr<admin::AdminServer> admin_;
    asio::signal_set signals_;
    asio::signal_set other_signals_;
    Timer delay_;
    Timer tunnels_delay_;
    ServiceNotifier notifier_;
    std::atomic<Phase> phase_{Phase::starting};
    std::atomic<std::size_t> workers_left_{0};
    std::vector<std::thread> joiners_;
};

bool Life::open(std::string& fault) {
    const config::Config& config = reloader_.config();
    fault = check_redis(shared_, config);
    if (!fault.empty()) return false;
    auto groups = open_client_listeners(config, inherited_, shared_.workers);
    if (!groups) {
        fault = groups.error();
        return false;
    }
    groups_ = std::move(*groups);
    if (!config.admin) return true;
    config::Listen admin;
    admin.address = config.admin->address;
    auto group = open_listeners(admin, 1);
    if (!group) {
        fault = "admin: " + group.error();
        return false;
    }
    admin_ = std::make_unique<admin::AdminServer>(
        io_,
        adopt_listener(io_.get_executor(), group->settings.address, group->descriptors.front()),
        sources());
    log(Level::info, "admin and dashboard on {}", group->to_string());
    spawn_vital(io_.get_executor(), dashboard_.run());
    return true;
}

int Life::run() {
    std::string fault;
    if (!open(fault)) {
        std::fprintf(stderr, "tidegate: %s\n", displayable(fault).c_str());
        return 1;
    }
    for (std::size_t i = 0; i < shared_.workers; ++i) {
        workers_.push_back(std::make_unique<Worker>(shared_, i, groups_, reloader_.snapshot()));
    }
    workers_left_ = workers_.size();
    for (const auto& worker : workers_) worker->start();
    for (const ListenerGroup& group : groups_) {
        log(Level::info, "listening on {}, {} thread{}", group.to_string(), shared_.workers,
            shared_.workers == 1 ? "" : "s");
    }
    log_expiry(reloader_.config());
    log(Level::info, "{}", describe_shutdown_delay(reloader_.config().timeouts));
    notify_of_reloads();
    spawn_vital(io_.get_executor(), become_ready());
    spawn_vital(io_.get_executor(),
                watch_files(io_.get_executor(), reloader_,
                            is_watched_ ? Watched::all_files : Watched::certificates));
    begin_watchdog();
    await_stop();
    await_other_signals();
    // The main loop ends when the last worker has.
    for (const auto& worker : workers_) {
        joiners_.emplace_back([this, &worker] {
            worker->join();
            if (--workers_left_ == 0) asio::post(io_, [this] { io_.stop(); });
        });
    }
    io_.run();
    for (std::thread& joiner : joiners_) joiner.join();
    if (admin_) admin_->stop();
    for (const ListenerGroup& group : groups_) {
        if (group.configured.is_unix()) ::unlink(group.configured.unix_path.c_str());
    }
    log(Level::info, "stopped");
    return 0;
}

// Without keys, the proxy refuses every token, so it is not ready before the first fetch has ended;
// a failed fetch makes it ready as well. The same holds for the names of upstreams.
Task<> Life::become_ready() {
    co_await reloader_.first_upstreams();
    co_await reloader_.first_keys();
    if (phase_ != Phase::starting) co_return;
    phase_ = Phase::ready;
    notifier_.tell_ready(status_text());
}

std::string Life::status_text() const {
    return fmt::format("configuration {} is in force", reloader_.snapshot().number);
}

// A reload that ends before the proxy is ready says nothing: READY would come too early.
void Life::notify_of_reloads() {
    ReloadObserver observer;
    observer.on_begin = [this] {
        if (phase_ == Phase::ready) notifier_.tell_reloading("reading the configuration again");
    };
    observer.on_end = [this](const admin::ReloadReport& report) {
        if (phase_ != Phase::ready) return;
        notifier_.tell_ready(report.ok ? status_text()
                                       : "reload refused, the log says why; " + status_text());
    };
    reloader_.observe(std::move(observer));
}

void Life::begin_watchdog() {
    const auto interval = watchdog_interval(config::process_environment, ::getpid());
    if (!interval || !notifier_.is_active()) return;
    spawn_vital(io_.get_executor(),
                run_watchdog(io_.get_executor(), workers_, notifier_, *interval));
}

void Life::await_stop() {
    signals_.async_wait([this](const error_code& ec, int) {
        if (ec) return;
        if (phase_ == Phase::draining) {
            log(Level::warn, "stopping at once");
            cut();
        } else {
            begin_drain();
        }
        await_stop();
    });
}

void Life::await_other_signals() {
    other_signals_.async_wait([this](const error_code& ec, int signal) {
        if (ec) return;
        if (signal == SIGUSR1) reloader_.access_logs().reopen();
        if (signal == SIGHUP) reload();
        await_other_signals();
    });
}

void Life::reload() {
    if (phase_ == Phase::draining) {
        log(Level::warn, "stopping; ignoring HUP");
    } else {
        reloader_.reload_on_signal();
    }
}

// Readiness fails first, so that load balancers stop sending; the workers still accept meanwhile.
void Life::begin_drain() {
    phase_ = Phase::draining;
    reloader_.stop();
    const auto delay = reloader_.config().timeouts.shutdown_delay;
    if (delay.count() != 0) {
        log(Level::info, "not ready; stops accepting in {}", format_duration(delay));
    }
    notifier_.tell_stopping("accepts connections for " + format_duration(delay) + " more");
    delay_.expires_after(delay);
    delay_.async_wait([this](const error_code& ec) {
        if (!ec) drain_workers();
    });
}

void Life::drain_workers() {
    log(Level::info, "draining");
    notifier_.tell_status("draining: requests in flight may end");
    for (const auto& worker : workers_) worker->drain();
    const config::Timeouts& timeouts = reloader_.config().timeouts;
    delay_.expires_after(timeouts.drain);
    delay_.async_wait([this](const error_code& ec) {
        if (ec) return;
        for (const auto& worker : workers_) worker->cut_requests(true);
    });
    // By then the workers have begun to close each tunnel; the last one needs time to end.
    constexpr std::chrono::seconds kLastTunnel{3};
    tunnels_delay_.expires_after(timeouts.drain_tunnels + kLastTunnel);
    tunnels_delay_.async_wait([this](const error_code& ec) {
        if (ec) return;
        for (const auto& worker : workers_) worker->cut_tunnels(true);
    });
}

void Life::cut() {
    delay_.cancel();
    tunnels_delay_.cancel();
    for (const auto& worker : workers_) {
        worker->drain();
        worker->cut_requests(false);
        worker->cut_tunnels(false);
    }
}

admin::AdminSources Life::sources() {
    admin::AdminSources sources;
    // The address stays, so there is an `admin` in every configuration if there was one at first.
    sources.token = [this] { return std::string_view(reloader_.config().admin->token); };
    sources.reload = [this] { return reloader_.reload(); };
    sources.counts = [this](admin::CountsRequest request) {
        return inspect_service_.answer(std::move(request));
    };
    sources.metrics = [this] {
        Gauges gauges{.memory_store = &shared_.memory_store};
        if (shared_.redis) gauges.store_timeout = shared_.redis->timeout;
        reloader_.fill_in(gauges);
        return shared_.metrics.serialize(gauges);
    };
    sources.upstreams = [this] { return status_of(reloader_.upstreams()); };
    sources.live = [this](std::string_view target) { return dashboard_.live(target); };
    sources.activity = [this](admin::ActivityRequest request) {
        return dashboard_.activity(request);
    };
    sources.ready = [this] {
        const Phase phase = phase_;
        return admin::Readiness{phase == Phase::ready, readiness_text(phase)};
    };
    return sources;
}

// A proxy stays ready while store or upstreams are down: it answers 429 and 503 itself, and all
// proxies see the same servers, so that a load balancer would find none that is better.
std::string Life::readiness_text(Phase phase) const {
    return fmt::format(R"({{"status":"{}","store":{{"kind":"{}","state":"{}"}},"upstreams":{}}})",
                       phase == Phase::starting ? "starting"
                       : phase == Phase::ready  ? "ready"
                                                : "draining",
                       shared_.redis ? "redis" : "memory",
                       shared_.metrics.store_is_up() ? "up" : "down",
                       admin::upstreams_summary(status_of(reloader_.upstreams())));
}

}  // namespace

int run(std::shared_ptr<const config::Config> config, Origin origin) {
    set_log_level(config->log.level);
    InheritedSockets inherited = take_inherited_sockets(config::process_environment, ::getpid());
    clear_inheritance();
    Life life(std::move(config), std::move(origin), std::move(inherited));
    LateSignals::ignore();  // after Life listens: none is lost
    const int code = life.run();
    telemetry::flush_log();
    return code;
}

}  // namespace tidegate::app
