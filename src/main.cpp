#include <csignal>
#include <cstdio>
#include <exception>

#include "cli/commands.hpp"
#include "telemetry/log.hpp"

int main(int argc, char** argv) {
    // A client that leaves in the middle of an answer is an error code, not the end.
    std::signal(SIGPIPE, SIG_IGN);
    int exit_code = 1;
    try {
        exit_code = tidegate::cli::run_command_line(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "tidegate: %s\n", error.what());
    }
    tidegate::telemetry::flush_log();
    return exit_code;
}
