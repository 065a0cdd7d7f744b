// Lets something be said once in a span of time by the whole process, whichever thread comes first.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

namespace tidegate::telemetry {

// Any thread. Time is an argument.
class NowAndThen {
  public:
    using Time = std::chrono::steady_clock::time_point;

    explicit NowAndThen(std::chrono::nanoseconds span) : span_(span) {}

    // True the first time, and then once `span` has passed since it last was. Of several threads
    // that ask at once, one is told so.
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
