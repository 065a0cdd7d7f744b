// What the system says of this process, under the names that Prometheus's client libraries give it,
// and the processor time of each worker's thread. Read when Prometheus asks, never per request.
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "telemetry/metric.hpp"

namespace tidegate::app {

// Of /proc/self/stat; proc(5) has its fields.
struct ProcessStat {
    double cpu_seconds = 0;  // of all threads, in user and system mode
    std::uint64_t threads = 0;
    std::uint64_t virtual_bytes = 0;
    std::uint64_t resident_bytes = 0;
};

// `text` is the whole file. Unset if it is not as expected. Pure.
std::optional<ProcessStat> read_process_stat(std::string_view text, long ticks_per_second,
                                             long page_bytes);

// The processor time of one worker's thread.
class ThreadClock {
  public:
    // Called once, on the thread itself.
    void begin();
    // What the thread has used so far; unset before begin(), and once the thread has ended. Any
    // thread.
    std::optional<std::chrono::nanoseconds> used() const;

  private:
    std::atomic<clockid_t> clock_{CLOCK_REALTIME};  // which stands for none
};

// process_*; what the system does not tell is left out. Takes less than a millisecond, but for
// kernels before 6.2, which list the open files.
void write_process_metrics(telemetry::Exposition& out,
                           std::chrono::system_clock::time_point started);
// What each thread used; `clocks` are of the threads 0, 1, ...
void write_thread_metrics(telemetry::Exposition& out, telemetry::Threads<ThreadClock> clocks);

}  // namespace tidegate::app
