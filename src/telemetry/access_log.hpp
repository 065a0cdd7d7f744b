// One line a request, written by a thread of its own.
//
// Lines go through a bounded ring a thread; when it is full they are dropped and counted, never
// waited for. What cannot be written (a full disk, a reader that has gone) is dropped and counted
// too, and said once in the error log. log_line.hpp has the format.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/shared_enums.hpp"
#include "telemetry/request_record.hpp"

namespace tidegate::telemetry {

class AccessLog {
  public:
    struct Options {
        std::string path = "-";  // "-": standard output; empty: nothing is written
        LogFormat format = LogFormat::json;
        // Share of requests written; those with an error, or not forwarded, always are.
        double sample = 1.0;
        std::size_t ring_bytes = 1 << 20;  // each thread's
        // How long the end of the log waits for whoever reads it.
        std::chrono::milliseconds stop_patience{2'000};
    };

    // Opens the file (append) and starts the writer. Throws std::runtime_error naming the path. May
    // wait: see LogOutput.
    AccessLog(const Options& options, std::size_t threads);
    // Writes what is left, within `stop_patience`.
    ~AccessLog();
    AccessLog(const AccessLog&) = delete;
    AccessLog& operator=(const AccessLog&) = delete;

    // Formats and hands over the line; at the latest 100 ms later it is being written. `thread` is
    // the caller's number, below `threads`, and no other caller's; no lock, no allocation.
    void write(std::size_t thread, const RequestRecord& record);

    // The form and share of lines from now on. Any thread.
    void change_lines(LogFormat format, double sample);
    // Opens the path anew (USR1); if that fails, the old file stays and the error log says so. Any
    // thread.
    void reopen();
    // Lines that were not written. Any thread.
    std::uint64_t dropped() const;

  private:
    struct Impl;
    std::shared_ptr<Impl> impl_;  // the writer's too
};

}  // namespace tidegate::telemetry
