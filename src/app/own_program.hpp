// This program as it was started, to be started anew: by the same path, which leads to another
// version after an upgrade. Main thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.hpp"
#include "net/descriptor.hpp"

namespace tidegate::app {

// Names the descriptor of its channel for a process that takes the place of another.
inline constexpr const char* kHandoverVariable = "TIDEGATE_HANDOVER";

class OwnProgram {
  public:
    // To be called at the start: a file that is replaced later has another path by then.
    static OwnProgram of_this_process();

    // As it was typed or found in PATH, links not followed; with a slash.
    const std::string& path() const { return path_; }

    // Starts it with the same arguments, folder, output and environment; variables that name this
    // process or its descriptors are left out, and it has no descriptor of ours but `channel`,
    // which kHandoverVariable names. Returns its process id, or why it does not start.
    Result<pid_t, std::string> start(const Descriptor& channel) const;

  private:
    std::string path_;
    std::vector<std::string> arguments_;
};

// `variables`, each `NAME=value`, as the process that is started gets them. Pure.
std::vector<std::string> successor_environment(std::vector<std::string> variables, int channel);

}  // namespace tidegate::app
