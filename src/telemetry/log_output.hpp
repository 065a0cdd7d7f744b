// Where the access log's lines go: a file or a pipe that can be opened anew, or standard output.
// Belongs to the writer thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidegate::telemetry {

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
    // that had not been written when an error came.
    std::uint64_t write(std::array<std::string_view, 2> lines);

    // What cannot be opened leaves the former file. A named pipe must have its reader.
    void reopen();

    static constexpr std::chrono::seconds kReaderPatience{2};

  private:
    // What is left of `data` when no more can be written; empty when all was.
    std::string_view write_all(std::string_view data);
    bool wait_until_writable() const;
    void report(bool broken, int error);

    std::string path_;
    std::chrono::milliseconds patience_;
    int fd_;
    bool torn_ = false;    // the last line ends in the middle
    bool broken_ = false;  // the last write failed; said once
};

}  // namespace tidegate::telemetry
