// systemd's watchdog (WatchdogSec=): systemd ends a process that does not say in time that it is
// alive. Tidegate says so from its main loop, and only while the loop of every worker turns. Main
// thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "app/service_notifier.hpp"
#include "app/worker.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"

namespace tidegate::app {

// How often process `pid` has to say that it is alive, from WATCHDOG_USEC; nothing: never, or
// WATCHDOG_PID names another process.
std::optional<std::chrono::microseconds> watchdog_interval(config::Environment environment,
                                                           pid_t pid);

// What a loop says of itself.
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
