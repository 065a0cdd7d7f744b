#include <cassert>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string_view>

#include "cli/commands.hpp"
#include "net/task.hpp"
#include "telemetry/error_log.hpp"
#include "tls/channel.hpp"

namespace {

// In order behind what was logged before.
void tell_end_in_log(std::string_view why) noexcept {
    using namespace tidegate::telemetry;
    try {
        log(Level::error, "{}", why);
        flush_log();
    } catch (const std::exception&) {
        std::fprintf(stderr, "tidegate: %.*s\n", static_cast<int>(why.size()), why.data());
    }
}

}  // namespace

int main(int argc, char** argv) {
    // A client that leaves in the middle of an answer is an error code, not the end.
    std::signal(SIGPIPE, SIG_IGN);
    tidegate::set_end_reporter(tell_end_in_log);
    // First: OpenSSL takes an allocator only before it has allocated anything.
    [[maybe_unused]] const bool is_used = tidegate::use_record_memory();
    assert(is_used);
    int exit_code = 1;
    try {
        exit_code = tidegate::cli::run_command_line(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "tidegate: %s\n", error.what());
    }
    tidegate::telemetry::flush_log();
    return exit_code;
}
