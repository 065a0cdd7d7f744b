// The part of the process's life that takes the place of another process, and gives its own to
// another one.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/life.hpp"
#include "app/worker.hpp"
#include "config/files.hpp"
#include "store/memory_store.hpp"
#include "store/process_clock.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

namespace {

using telemetry::Level;
using telemetry::log;

// For the new process to read its configuration, resolve names and fetch keys.
constexpr std::chrono::seconds kReadyPatience{60};
// For it to read what this one has counted, of which it reads so many in a second at the least.
constexpr std::chrono::seconds kAcceptingPatience{5};
constexpr std::size_t kIdentifiersASecond = 20'000;
// A thread that does not respond for so long is not waited for.
constexpr std::chrono::seconds kAcceptPatience{3};
constexpr std::chrono::milliseconds kAcceptPoll{1};

// The workers do nothing while this lives.
class Standstill {
  public:
    explicit Standstill(const Workers& workers) : workers_(workers.size()) {
        for (const auto& worker : workers) {
            worker->hold([state = state_] {
                ++state->standing;
                state->is_over.wait(false);
            });
        }
    }
    ~Standstill() {
        state_->is_over = true;
        state_->is_over.notify_all();
    }
    Standstill(const Standstill&) = delete;
    Standstill& operator=(const Standstill&) = delete;

    bool is_complete() const { return state_->standing == workers_; }

  private:
    struct State {
        std::atomic<std::size_t> standing{0};
        std::atomic<bool> is_over{false};
    };

    std::size_t workers_;
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace

Task<> Life::take_over() {
    const bool may_accept = co_await predecessor_->take_over(
        {.ticket_keys =
             [this](const std::string& address, const MadeTicketKeys& keys) {
                 for (const ListenerTls& one : reloader_.snapshot().tls) {
                     if (one.address.to_string() == address) one.tickets->adopt(keys);
                 }
             },
         .counts =
             [this](std::string_view bytes) {
                 const auto loaded = shared_.memory_store.load(bytes, store::process_now());
                 if (loaded) {
                     log(Level::info, "took over counts of {} identifier{} from process {}",
                         *loaded, *loaded == 1 ? "" : "s", predecessor_->pid());
                 } else {
                     log(Level::warn,
                         "cannot read all that process {} has counted, as another version counts: "
                         "the rest begins anew",
                         predecessor_->pid());
                 }
             }});
    if (phase_ != Phase::starting) co_return;
    if (!may_accept) {
        log(Level::info, "process {} goes on: stopping", predecessor_->pid());
        begin_drain();
        co_return;
    }
    begin_admin();
    begin_accepting();
    for (ListenerGroup& group : groups_) group.is_borrowed = false;
    co_await predecessor_->tell_accepting();
    discard(predecessor_->listeners());
    discard(predecessor_->admin());
    begin_to_notify();
    begin_watchdog();
    spawn_vital(io_.get_executor(), watch_predecessor());
}

Task<> Life::watch_predecessor() {
    co_await predecessor_->until_gone();
    log(Level::info, "process {} has ended", predecessor_->pid());
    predecessor_.reset();
}

std::string Life::objection_to_handover() const {
    if (has_handed_over_) {
        return fmt::format("process {} has taken over", successor_->pid());
    }
    if (phase_ == Phase::draining) return "Tidegate is stopping";
    if (is_handing_over_) return "a new process is taking over already";
    if (predecessor_) {
        return fmt::format("process {}, whose place this one has taken, is still draining",
                           predecessor_->pid());
    }
    if (phase_ == Phase::starting) return "Tidegate is still starting";
    if (::getpid() == 1) {
        return "this is process 1, whose end would end its container: replace the container";
    }
    if (file_.empty()) return "the configuration is built in: restart Tidegate";
    if (file_ == config::kStandardInput) {
        return "the configuration came from standard input, which cannot be read again: restart "
               "Tidegate";
    }
    if (reloader_.is_busy()) return "a reload is under way";
    return {};
}

Task<> Life::hand_over() {
    const std::string objection = objection_to_handover();
    if (!objection.empty()) {
        log(Level::warn, "USR2 ignored: {}", objection);
        co_return;
    }
    is_handing_over_ = true;
    // The new process has read the configuration already, or will not see what is in force here.
    reloader_.refuse("a new process is taking over: reload that one");
    const std::string fault = co_await try_hand_over();
    if (has_handed_over_) co_return;
    is_handing_over_ = false;
    reloader_.refuse({});
    if (phase_ == Phase::ready) {
        log(Level::error, "hand-over failed, this process goes on: {}", fault);
    } else {
        log(Level::info, "hand-over cancelled: Tidegate is stopping");
    }
    successor_.reset();
}

Task<std::string> Life::try_hand_over() {
    log(Level::info, "USR2: starts {}, to take over", program_.path());
    std::string fault = co_await start_successor();
    if (fault.empty()) fault = co_await successor_->until_started(kReadyPatience);
    if (!fault.empty() || phase_ != Phase::ready) co_return fault;
    log(Level::info, "process {} is to take over", successor_->pid());
    offer_listeners();
    fault = co_await successor_->until_ready(kReadyPatience);
    if (!fault.empty() || phase_ != Phase::ready) co_return fault;
    co_return co_await give_place();
}

// A process that is started has all descriptors of this one for a moment, until it has closed them.
// epoll would report a connection that a worker closes meanwhile to an object that is gone: so the
// workers stand still.
Task<std::string> Life::start_successor() {
    const Standstill standstill(workers_);
    const auto until = std::chrono::steady_clock::now() + kAcceptPatience;
    Timer pause(io_);
    while (!standstill.is_complete()) {
        if (std::chrono::steady_clock::now() > until) {
            co_return std::string("a thread does not respond");
        }
        pause.expires_after(kAcceptPoll);
        co_await pause.async_wait(as_values);
    }
    auto started = Successor::start(io_.get_executor(), program_, shared_.replicas.seen);
    if (!started) co_return started.error();
    successor_ = std::move(*started);
    co_return std::string();
}

void Life::offer_listeners() {
    for (const ListenerGroup& group : groups_) {
        // Several groups may share an inherited name: one socket each.
        const std::size_t count = group.configured.is_inherited() ? 1 : group.descriptors.size();
        successor_->offer(HandoverStep::listener, group.configured.to_string(),
                          {group.descriptors.data(), count});
    }
    if (!admin_group_) return;
    successor_->offer(HandoverStep::admin, admin_group_->configured.to_string(),
                      admin_group_->descriptors);
}

// From the pause until the new process accepts, new connections wait in the queues of the sockets,
// which both processes have.
Task<std::string> Life::give_place() {
    co_await pause_accepting();
    for (const ListenerTls& one : reloader_.snapshot().tls) {
        successor_->hand_over_ticket_keys(one.address.to_string(), one.tickets->made());
    }
    co_await hand_over_counts();
    const std::chrono::seconds to_count(shared_.memory_store.keys() / kIdentifiersASecond);
    std::string fault = co_await successor_->until_accepting(kAcceptingPatience + to_count);
    // A TERM that came meanwhile has ended the new process.
    if (fault.empty() && phase_ == Phase::ready) {
        leave();
    } else {
        for (const auto& worker : workers_) worker->begin_accepting();
    }
    co_return fault;
}

// The admin listener answers meanwhile: there may be millions of counts.
Task<> Life::hand_over_counts() {
    // On a thread of its own, or in get() where the system has none.
    saved_counts_ = std::async([this] {
        return Successor::save_counts([this](const auto& put) { shared_.memory_store.save(put); });
    });
    Timer pause(io_);
    while (saved_counts_.wait_for(std::chrono::seconds{0}) == std::future_status::timeout) {
        pause.expires_after(kAcceptPoll);
        co_await pause.async_wait(as_values);
    }
    const Descriptor saved = saved_counts_.get();
    if (saved) {
        successor_->hand_over_counts(saved);
    } else {
        log(Level::warn, "not enough memory to hand over the counts: they begin anew in process {}",
            successor_->pid());
    }
}

void Life::leave() {
    has_handed_over_ = true;
    phase_ = Phase::draining;
    reloader_.stop();
    // Before the new process hears it: systemd takes messages from the main process alone.
    notifier_.tell_main_process(successor_->pid());
    notifier_.fall_silent();
    successor_->tell_leaving();
    if (admin_) admin_->stop();
    for (const auto& worker : workers_) worker->leave_listeners();
    log(Level::info, "process {} has taken over", successor_->pid());
    drain_workers();
}

Task<> Life::pause_accepting() {
    const auto left = std::make_shared<std::atomic<std::size_t>>(workers_.size());
    for (const auto& worker : workers_) worker->pause_accepting([left] { --*left; });
    const auto until = std::chrono::steady_clock::now() + kAcceptPatience;
    Timer pause(io_);
    while (*left > 0 && std::chrono::steady_clock::now() < until) {
        pause.expires_after(kAcceptPoll);
        co_await pause.async_wait(as_values);
    }
}

}  // namespace tidegate::app
