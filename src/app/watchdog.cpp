#include "app/watchdog.hpp"

#include <algorithm>
#include <string>

#include "base/units.hpp"
#include "net/deadline.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

using std::chrono::microseconds;
using telemetry::Level;
using telemetry::log;

// A loop turns at least once in each tick of its deadlines; between two looks there are some.
constexpr microseconds kLookEveryMin = 4 * DeadlineWheel::kTick;

}  // namespace

std::optional<microseconds> watchdog_interval(config::Environment environment, pid_t pid) {
    const auto number_of = [&](const char* name) -> std::optional<std::int64_t> {
        const auto text = environment(name);
        return text ? parse_decimal(*text) : std::nullopt;
    };
    const auto interval = number_of("WATCHDOG_USEC");
    if (!interval || *interval == 0) return std::nullopt;
    if (environment("WATCHDOG_PID") && number_of("WATCHDOG_PID") != pid) return std::nullopt;
    return microseconds(*interval);
}

bool LoopWatch::look(std::span<const LoopState> loops) {
    turns_.resize(loops.size());
    bool all_turned = true;
    for (std::size_t i = 0; i < loops.size(); ++i) {
        all_turned = all_turned && (loops[i].has_left || loops[i].turns != turns_[i]);
        turns_[i] = loops[i].turns;
    }
    return all_turned;
}

Task<> run_watchdog(Executor executor, const std::vector<std::unique_ptr<Worker>>& workers,
                    ServiceNotifier& notifier, microseconds interval) {
    LoopWatch watch;
    Timer pause(executor);
    std::vector<LoopState> loops;
    bool was_alive = true;
    while (true) {
        pause.expires_after(std::max(interval / 2, kLookEveryMin));
        co_await pause.async_wait(as_values);
        loops.clear();
        for (const auto& worker : workers) loops.push_back({worker->turns(), worker->has_left()});
        const bool is_alive = watch.look(loops);
        if (is_alive) {
            notifier.tell_alive();
        } else if (was_alive) {
            log(Level::error,
                "a thread does not respond: systemd is not told that Tidegate is alive");
        }
        was_alive = is_alive;
    }
}

}  // namespace tidegate::app
