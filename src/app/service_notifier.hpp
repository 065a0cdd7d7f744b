// Tells the service manager about this process. Main thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/worker.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"
#include "net/descriptor.hpp"

namespace tidegate::app {

class ServiceNotifier {
  public:
    // `socket_name` is the value of NOTIFY_SOCKET: an absolute path, or `@` and a name of the
    // abstract namespace. Empty: no service manager wants to know, and nothing is sent. A name that
    // is neither, or a machine without a descriptor to give, is logged.
    explicit ServiceNotifier(std::string socket_name);

    bool is_active() const { return static_cast<bool>(socket_); }

    // Each has the text that `systemctl status` shows: one line.
    void tell_ready(std::string_view status);
    // A reload has begun, which the next tell_ready() ends.
    void tell_reloading(std::string_view status);
    void tell_stopping(std::string_view status);
    void tell_status(std::string_view status);
    // Process `pid` is the service from now on.
    void tell_main_process(pid_t pid);
    // Nothing is sent any more.
    void fall_silent() { socket_ = Descriptor(); }
    // Every event loop turns.
    void tell_alive();

  private:
    // A full queue of the manager drops the datagram. The first failure is logged.
    void send(std::string_view assignments);

    std::string socket_name_;
    Descriptor socket_;
    bool has_failed_ = false;
};

// systemd's watchdog (WatchdogSec=): systemd ends a process that does not say in time that it is
// alive. Tidegate says so from its main loop, and only while the loop of every worker turns. Main
// thread.

// How often process `pid` has to say that it is alive, from WATCHDOG_USEC; nothing: never, or
// WATCHDOG_PID names another process.
std::optional<std::chrono::microseconds> watchdog_interval(config::Environment environment,
                                                           pid_t pid);

struct LoopState {
    std::uint64_t turns = 0;  // grows while the loop turns
    bool has_left = false;    // drained: it turns no more, as it should
};

// Compares what the loops say now with what they said at the last look.
class LoopWatch {
  public:
    // Whether each of `loops` has turned since the last look, or since its start, or has left.
    // `loops` are the same ones in the same order each time.
    bool look(std::span<const LoopState> loops);

  private:
    std::vector<std::uint64_t> turns_;
};

// Looks at `workers` twice in each `interval`, and tells `notifier` if all of them turn. Never
// ends; all but the values outlive it.
Task<> run_watchdog(Executor executor, const std::vector<std::unique_ptr<Worker>>& workers,
                    ServiceNotifier& notifier, std::chrono::microseconds interval);

}  // namespace tidegate::app
