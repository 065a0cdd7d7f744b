// Programs run by tests: started, watched, stopped by process id.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "integration/socket.hpp"

namespace tidegate::test {

// A folder that goes with its contents.
class TemporaryFolder {
  public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::string write(const std::string& name, std::string_view text) const;

  private:
    std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);

// A running child, its output in files of `folder`. Killed when it goes out of scope.
class Process {
  public:
    Process(const std::vector<std::string>& arguments, const std::filesystem::path& folder);
    ~Process();
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    pid_t pid() const { return pid_; }
    void signal(int number) const;
    // How it ended: the exit code, or 128 + the signal as a shell says it; nothing if it still
    // runs when the time is over.
    std::optional<int> wait(milliseconds patience);
    bool running() { return !wait(milliseconds{0}); }

    std::string output() const { return read_file(folder_ / "stdout"); }
    std::string errors() const { return read_file(folder_ / "stderr"); }

  private:
    pid_t pid_ = -1;
    std::optional<int> ended_;
    std::filesystem::path folder_;
};

struct Finished {
    int code = -1;
    std::string output;
    std::string errors;
};

// The program under test: $TIDEGATE_PROGRAM, else the one of this build.
std::string program();
// The program is instrumented, so slow and large: bounds on time are wider, bounds on memory are
// not checked.
bool sanitized();
// The tolerance of a bound on time.
milliseconds slack();

// Runs `tidegate arguments...` to its end.
Finished run_tidegate(const std::vector<std::string>& arguments);

}  // namespace tidegate::test
