// Limits a message to one in a span of time, over all threads that share the object.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

namespace tidegate::telemetry {

// Any thread. Time is an argument.
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

}  // namespace tidegate::telemetry
