// The access log: one line a request, written by a thread of its own. telemetry/access_log_line.hpp
// has the format.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/shared_enums.hpp"
#include "telemetry/access_log_fields.hpp"

namespace tidegate::telemetry {

// Where the lines go: a file or a pipe that can be opened anew, or standard output. Belongs to the
// writer thread.
class LogOutput {
  public:
    // `-` and `/dev/stdout` are standard output, `/dev/stderr` is standard error. Throws
    // std::runtime_error naming the path, also of a named pipe that no program reads within
    // kReaderPatience, and of a path that does not answer within kFilePatience. A reader that takes
    // nothing for `patience` counts as an error.
    explicit LogOutput(std::string path,
                       std::chrono::milliseconds patience = std::chrono::seconds{1});
    ~LogOutput();
    LogOutput(const LogOutput&) = delete;
    LogOutput& operator=(const LogOutput&) = delete;

    // Writes whole lines, the two pieces one after the other. Returns how many lines were lost: all
    // that were not written before an error.
    std::uint64_t write(std::array<std::string_view, 2> lines);

    // Opens the path anew. If that fails, the former file stays. A named pipe must have its reader.
    void reopen();

    static constexpr std::chrono::seconds kReaderPatience{2};

  private:
    // Returns what of `data` could not be written; empty when all was.
    std::string_view write_all(std::string_view data);
    bool wait_until_writable() const;
    void report(bool broken, int error);

    std::string path_;
    std::chrono::milliseconds patience_;
    int fd_;
    bool torn_ = false;    // the last line ends in the middle
    bool broken_ = false;  // the last write failed, and the error log says so
};

// Lines go through a bounded ring a thread; when it is full, the log drops and counts them, and no
// request waits. The log also drops and counts what cannot be written (a full disk, a reader that
// has gone), and says so once in the error log.
class AccessLog {
  public:
    struct Options {
        std::string path = "-";  // "-": standard output; empty: nothing is written
        LogFormat format = LogFormat::json;
        // Share of requests written; those with an error, of a denial
        // in shadow, or not forwarded, always are.
        double sample = 1.0;
        std::size_t ring_bytes = 1 << 20;  // each thread's
        // How long the end of the log waits for the program that reads it.
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
