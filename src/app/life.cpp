#include "app/life.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/signal_set.hpp>
#include <fmt/format.h>

#include "admin/top_denials_upstreams.hpp"
#include "app/certificate_list.hpp"
#include "app/file_watch.hpp"
#include "app/handover.hpp"
#include "app/listener.hpp"
#include "app/reloader.hpp"
#include "app/service_notifier.hpp"
#include "app/worker.hpp"
#include "base/file_work.hpp"
#include "base/process.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

namespace {

using telemetry::Level;
using telemetry::log;

// What a TERM does to the listeners, and where that comes from.
std::string describe_shutdown_delay(const config::Timeouts& timeouts) {
    using Origin = config::Timeouts::Origin;
    std::string_view origin;
    if (timeouts.shutdown_delay_origin == Origin::in_kubernetes) {
        origin = ", the default in Kubernetes: KUBERNETES_SERVICE_HOST is set";
    } else if (timeouts.shutdown_delay_origin == Origin::outside_kubernetes) {
        origin = ", the default outside Kubernetes";
    }
    const std::string delay = format_duration(timeouts.shutdown_delay);
    const bool at_once = timeouts.shutdown_delay.count() == 0;
    return fmt::format("on TERM, Tidegate {} (`timeouts.shutdown_delay: {}`{})",
                       at_once ? "stops accepting at once" : "goes on accepting for " + delay,
                       delay, origin);
}

// Logs which certificate is to be renewed first.
void log_expiry(const config::Config& config) {
    const auto now = std::chrono::system_clock::now();
    const auto first = first_to_renew(config, now);
    if (!first) return;
    const bool is_soon = first->validity.ends_soon(now);
    log(is_soon ? Level::warn : Level::info, "certificates: that of {} {}: {}{}",
        displayable(first->name()), is_soon ? "is to be renewed" : "expires first",
        first->time_left_text(now), first->file.empty() ? "" : ", " + displayable(first->file));
}

using telemetry::Level;
using telemetry::log;

constexpr std::chrono::milliseconds kRedisPatience{3'000};

// What `local` divides by while Redis is away, for the log.
std::string share_text(const SharedState& shared, const config::Config& config) {
    if (!config.has_shares()) return {};
    const store::ReplicaCount count(replica_settings(config), shared.replicas_before);
    if (count.is_known() || config.replicas_assumed) {
        return fmt::format("; `on_store_failure: local` divides each quota by {} meanwhile",
                           count.number());
    }
    return "; `on_store_failure: local` gives this process the whole of each quota meanwhile, as "
           "it does not know how many share Redis: write that number, `replicas: {auto: {assume: "
           "2}}`";
}

// A client may have sent a request on an idle connection before it sees it close. The new process
// serves meanwhile, so the former one can afford to wait for that.
constexpr std::chrono::milliseconds kIdlePatience{5'000};

// Removes the variables afterwards: they are for this process alone.
InheritedSockets take_own_sockets() {
    InheritedSockets sockets = take_inherited_sockets(config::process_environment, ::getpid());
    clear_inheritance();
    return sockets;
}

std::unique_ptr<Predecessor> find_predecessor(Executor executor) {
    auto found = Predecessor::find(config::process_environment, executor);
    if (!found) throw std::runtime_error(found.error());
    return std::move(*found);
}

}  // namespace

Life::Life(std::shared_ptr<const config::Config> config, ConfigOrigin origin, OwnProgram program)
    : program_(std::move(program)),
      file_(origin.file),
      inherited_(take_own_sockets()),
      predecessor_(find_predecessor(io_.get_executor())),
      shared_(*config, worker_count(*config), std::string(kVersion)),
      is_watched_(origin.is_watched),
      replicas_file_(ReplicasFile::of(config::process_environment)),
      reloader_(io_.get_executor(), shared_, workers_, std::move(config), std::move(origin)),
      inspect_service_(io_.get_executor(), shared_, workers_, reloader_),
      dashboard_(io_.get_executor(), shared_, workers_, reloader_),
      record_service_(io_.get_executor(), workers_),
      signals_(io_, SIGINT, SIGTERM),
      other_signals_(io_, SIGHUP, SIGUSR1, SIGUSR2),
      delay_(io_),
      tunnels_delay_(io_),
      // A process that takes the place of another is not the service before it has.
      notifier_("") {
    if (!predecessor_) begin_to_notify();
}

bool Life::open(std::string& fault) {
    const config::Config& config = reloader_.config();
    fault = try_redis();
    if (!fault.empty()) return false;
    OfferedListeners none;
    auto groups = open_client_listeners(
        config, inherited_, predecessor_ ? predecessor_->listeners() : none, shared_.workers);
    if (!groups) {
        fault = groups.error();
        return false;
    }
    groups_ = std::move(*groups);
    if (config.admin) fault = open_admin(config);
    return fault.empty();
}

// An outage of Redis outlasts a restart: so neither keeps the service away. A process that is to
// take over leaves the service to the former one, which Redis takes.
std::string Life::try_redis() {
    if (!shared_.redis) return {};
    const config::Config& config = reloader_.config();
    shared_.replicas_before = predecessor_ ? predecessor_->replicas() : 0;
    if (shared_.replicas_before == 0) shared_.replicas_before = replicas_file_.read();
    const auto fault = shared_.redis_cluster
                           ? redis::Cluster::try_once(*shared_.redis_cluster, kRedisPatience)
                           : redis::Client::try_once(*shared_.redis, kRedisPatience);
    if (!fault) return {};
    if (fault->refused && predecessor_) return fault->message;
    shared_.was_refused = fault->refused;
    log(fault->refused ? Level::error : Level::warn, "{}; starting without Redis{}{}",
        fault->message, fault->refused ? ", and not ready (`/readyz`) until it takes Tidegate" : "",
        share_text(shared_, config));
    return {};
}

std::string Life::open_admin(const config::Config& config) {
    config::Listen settings;
    settings.address = config.admin->address;
    settings.socket_file = config.admin->socket_file;
    if (predecessor_) {
        if (auto taken = take_offered(settings, predecessor_->admin(), 1)) {
            if (!*taken) return "admin: " + taken->error();
            admin_group_ = std::move((*taken)->front());
            return {};
        }
    }
    auto opened = open_listeners(settings, 1);
    if (!opened) return "admin: " + opened.error();
    admin_group_ = std::move(*opened);
    return {};
}

void Life::begin_admin() {
    if (!admin_group_) return;
    admin_ = std::make_unique<admin::AdminServer>(
        io_,
        adopt_listener(io_.get_executor(), admin_group_->settings.address,
                       admin_group_->descriptors.front()),
        sources());
    log(Level::info, "admin and dashboard on {}", admin_group_->to_string());
    spawn_vital(io_.get_executor(), dashboard_.run());
}

void Life::begin_accepting() {
    accepts_ = true;
    for (const auto& worker : workers_) worker->begin_accepting();
    for (const ListenerGroup& group : groups_) {
        log(Level::info, "listening on {}, {} thread{}", group.to_string(), shared_.workers,
            shared_.workers == 1 ? "" : "s");
    }
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
    if (!predecessor_) {
        begin_admin();
        if (reloader_.are_names_tried()) begin_accepting();
    }
    log(Level::info, "starts with configuration {}, hash {}", reloader_.snapshot().number,
        reloader_.config().shown.hash);
    log_expiry(reloader_.config());
    log(Level::info, "{}", describe_shutdown_delay(reloader_.config().timeouts));
    notify_of_reloads();
    spawn_vital(io_.get_executor(), become_ready());
    spawn_vital(io_.get_executor(),
                watch_files(io_.get_executor(), reloader_,
                            is_watched_ ? WatchedFiles::all_files : WatchedFiles::certificates));
    if (!predecessor_) begin_watchdog();
    if (shared_.redis) spawn_vital(io_.get_executor(), keep_replicas());
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
        if (group.configured.is_unix() && !group.is_borrowed && !has_handed_over_)
            ::unlink(group.configured.unix_path.c_str());
    }
    log(Level::info, "stopped");
    return 0;
}

// A process that drains or has yet to take over leaves the file to the other one.
Task<> Life::keep_replicas() {
    constexpr std::chrono::seconds kEvery{1};
    Timer pause(io_);
    int kept = shared_.replicas_before;
    while (phase_ != Phase::draining && !replicas_file_.path().empty()) {
        pause.expires_after(kEvery);
        co_await pause.async_wait(as_values);
        const int seen = shared_.replicas.seen;
        if (phase_ != Phase::ready || seen == 0 || seen == kept) continue;
        kept = seen;
        std::string fault;
        // Not as an argument: GCC 12 destroys what a lambda of a `co_await` has captured twice.
        auto write = [file = replicas_file_, seen] { return file.write(seen); };
        try {
            fault = co_await apart(io_.get_executor(), "replicas: Tidegate", std::move(write));
        } catch (const std::exception& error) {
            fault = error.what();
        }
        if (!fault.empty()) {
            log(Level::warn, "cannot keep the number of proxies for the next start in {}: {}",
                displayable(replicas_file_.path()), fault);
        }
    }
}

// Clients that come before the names of upstreams were looked up wait in the queues of the
// listeners: the proxy could only answer 502. Without keys, it refuses every token, so it is not
// ready before the first fetch has ended; a failed fetch makes it ready as well. The same holds for
// the names and the health of upstreams.
Task<> Life::become_ready() {
    co_await reloader_.first_names();
    if (phase_ == Phase::starting && !predecessor_ && !accepts_) begin_accepting();
    co_await reloader_.first_upstreams();
    co_await reloader_.first_keys();
    if (phase_ == Phase::starting && predecessor_) co_await take_over();
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

void Life::begin_to_notify() {
    notifier_ = ServiceNotifier(config::process_environment("NOTIFY_SOCKET").value_or(""));
}

void Life::begin_watchdog() {
    const auto interval = watchdog_interval(config::process_environment, ::getpid());
    if (!interval || !notifier_.is_active()) return;
    // A new main process has what is left of the former one's time.
    notifier_.tell_alive();
    spawn_vital(io_.get_executor(),
                run_watchdog(io_.get_executor(), workers_, notifier_, *interval));
}

void Life::await_stop() {
    signals_.async_wait([this](const error_code& ec, int) {
        if (ec) return;
        if (has_handed_over_ && stops_tolerated_ > 0) {
            --stops_tolerated_;
            log(Level::info, "already draining; the third signal stops at once");
        } else if (phase_ == Phase::draining) {
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
        if (signal == SIGUSR2) spawn_vital(io_.get_executor(), hand_over());
        await_other_signals();
    });
}

void Life::reload() {
    if (phase_ == Phase::draining) {
        log(Level::warn, "HUP ignored: {}",
            has_handed_over_ ? "another process has taken over" : "Tidegate is stopping");
    } else {
        reloader_.reload_on_signal();
    }
}

// Readiness fails first, so that load balancers stop sending; the workers still accept meanwhile.
void Life::begin_drain() {
    phase_ = Phase::draining;
    if (successor_ && !has_handed_over_) successor_->kill();
    reloader_.stop();
    // Clients that wait for the start are answered.
    if (!accepts_ && !predecessor_) begin_accepting();
    // A process that was to take over leaves the queues to the one that serves.
    if (!accepts_) {
        for (const auto& worker : workers_) {
            worker->pause_accepting([] {});
            worker->leave_listeners();
        }
    }
    const auto delay =
        accepts_ ? reloader_.config().timeouts.shutdown_delay : std::chrono::milliseconds{0};
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
    const auto idle_patience = has_handed_over_ ? kIdlePatience : std::chrono::milliseconds{0};
    for (const auto& worker : workers_) worker->drain(idle_patience);
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
        worker->drain(std::chrono::milliseconds{0});
        worker->cut_requests(false);
        worker->cut_tunnels(false);
    }
}

admin::AdminSources Life::sources() {
    admin::AdminSources sources;
    // The address stays, so there is an `admin` in every configuration if there was one at first.
    sources.token = [this] { return std::string_view(reloader_.config().admin->token); };
    sources.reload = [this] { return reloader_.reload(); };
    sources.rollback = [this] { return reloader_.rollback(); };
    sources.config = [this] { return reloader_.in_force(); };
    sources.apart = [this](std::function<admin::AdminAnswer()> make) {
        return apart(io_.get_executor(), "admin: Tidegate", std::move(make));
    };
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
        return dashboard_.activity(std::move(request));
    };
    sources.record = [this](admin::RecordRequest request) {
        return record_service_.answer(std::move(request));
    };
    sources.ready = [this] {
        return admin::ReadinessAnswer{phase_ == Phase::ready && !shared_.is_refused_by_store(),
                                      readiness_text()};
    };
    return sources;
}

// A proxy stays ready while store or upstreams are down: it answers 429 and 503 itself, and all
// proxies see the same servers, so that a load balancer would find none that is better. Not so
// where Redis refuses this process from the start: it may take the others, whose configuration or
// secrets differ, and a roll-out of a mistake must stop.
std::string Life::readiness_text() const {
    const Phase phase = phase_;
    const bool is_refused = phase == Phase::ready && shared_.is_refused_by_store();
    const bool is_up = shared_.metrics.store_is_up() && !is_refused;
    return fmt::format(R"({{"status":"{}","store":{{"kind":"{}","state":"{}"}},"upstreams":{}}})",
                       is_refused                 ? "refused by the store"
                       : phase == Phase::starting ? "starting"
                       : phase == Phase::ready    ? "ready"
                                                  : "draining",
                       shared_.redis ? "redis" : "memory", is_up ? "up" : "down",
                       admin::upstreams_summary(status_of(reloader_.upstreams())));
}

namespace {

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
    asio::signal_set other_signals_{io_, SIGHUP, SIGUSR1, SIGUSR2};
};

}  // namespace

int run(std::shared_ptr<const config::Config> config, ConfigOrigin origin) {
    leave_parent(config::process_environment);
    OwnProgram program = OwnProgram::of_this_process();
    set_log_level(config->log.level);
    int code = 0;
    {
        Life life(std::move(config), std::move(origin), std::move(program));
        LateSignals::ignore();  // after Life listens: none is lost
        code = life.run();
        telemetry::flush_log();
    }
    // A thread may still wait for a file that does not answer. It cannot be ended, and must not run
    // on while the program's statics are taken down.
    if (FileWork::threads() != 0) {
        telemetry::flush_log();
        std::fflush(nullptr);
        std::_Exit(code);
    }
    return code;
}

}  // namespace tidegate::app
