// The command line: what follows `tidegate`, from `quickstart` to `help`.
#pragma once

namespace tidegate::cli {

// Does what the command line says and returns the exit code: 0, 1 when it failed (standard error
// says why), 2 when the command line makes no sense. Throws what a command could not do.
int run_command_line(int argc, const char* const* argv);

}  // namespace tidegate::cli
