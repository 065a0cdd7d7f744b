// The error log tells an operator on standard error what goes wrong and what changes. LogInterval
// and RepeatedFailures bound how often it says the same: one line in a span of time, over all
// threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace tidegate::telemetry {

enum class Level : std::uint8_t { debug, info, warn, error };

void set_log_level(Level level);
bool log_enabled(Level level);
// Never blocks the caller for long: lines go to a bounded queue and a writer thread. Any thread.
void log_line(Level level, std::string_view message);
// Writes what is queued; at exit.
void flush_log();

template <class... Args>
void log(Level level, fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

// Limits a message to one in a span of time, over all threads that share the object.
class LogInterval {
  public:
    using Time = std::chrono::steady_clock::time_point;

    explicit LogInterval(std::chrono::nanoseconds span = std::chrono::minutes{1}) : span_(span) {}

    // True the first time, and then once `span` has passed since it last was. If several threads
    // call it at once, it is true for one of them.
    bool is_due(Time now) {
        const std::int64_t at = now.time_since_epoch().count();
        std::int64_t due = due_.load(std::memory_order_relaxed);
        return at >= due &&
               due_.compare_exchange_strong(due, at + span_.count(), std::memory_order_relaxed);
    }

  private:
    std::chrono::nanoseconds span_;
    std::atomic<std::int64_t> due_{std::numeric_limits<std::int64_t>::min()};
};

// Failures that repeat, such as a server that refuses connections: one line a minute for each, over
// all threads, with how often it happened.
//
// Under a lock that is held for a moment; for failures only, never for what goes well in the usual
// way. Holds at most kKindsMax kinds.
class RepeatedFailures {
  public:
    using Time = std::chrono::steady_clock::time_point;

    static constexpr std::size_t kKindsMax = 256;
    static constexpr std::chrono::minutes kEvery{1};

    // Notes one failure of this kind. If a line is due, returns how many there were since the last
    // line, this one included; else 0.
    std::uint64_t note(std::string_view kind, Time now);
    // Notes that it went well again. True if a line has told of the failure since it last went
    // well.
    bool recovered(std::string_view kind);

  private:
    struct Repeats {
        Time due{};                // of the next line
        std::uint64_t untold = 0;  // failures since the last line
        bool was_told = false;     // since it last went well
    };

    void make_room();

    std::mutex mutex_;
    std::map<std::string, Repeats, std::less<>> kinds_;  // guarded by mutex_
};

// The repeated failures of this process.
RepeatedFailures& repeated_failures();

// The end of a log line about `times` failures: ` (30 times since the last such line)`; empty for
// one.
std::string times_text(std::uint64_t times);

}  // namespace tidegate::telemetry
