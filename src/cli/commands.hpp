// The command line of Tidegate. commands.cpp puts the commands together, in the order of `--help`,
// and says what is wrong with a command line; each command is described beside what it does.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

// Runs what the command line asks for. Returns the exit code. May throw std::exception.
int run_command_line(int argc, const char* const* argv);

// What the commands end with, for scripts. Some have further codes, which their `--help` says.
namespace exit_code {

inline constexpr int kDone = 0;
inline constexpr int kRefused = 1;
inline constexpr int kNotReady = 1;
inline constexpr int kWrongUse = 2;
inline constexpr int kNoAnswer = 3;

}  // namespace exit_code

struct Command {
    CLI::App* app;             // its part of the command line
    std::function<int()> run;  // to be called once that has been parsed; returns the exit code
};

// Each adds its command to `app`.
Command check_command(CLI::App& app);
Command denials_command(CLI::App& app);
Command doctor_command(CLI::App& app);
Command echo_command(CLI::App& app);
Command explain_command(CLI::App& app);
Command health_command(CLI::App& app);
Command inspect_command(CLI::App& app);
Command keys_command(CLI::App& app);
Command quickstart_command(CLI::App& app);
Command reference_command(CLI::App& app);
Command reload_command(CLI::App& app);
Command reset_command(CLI::App& app);
Command run_command(CLI::App& app);
Command top_command(CLI::App& app);

// Writes a line to the error output. Returns the code.
int complain(int code, std::string_view what);

// What is wrong with `text` as an address to listen on; "" if nothing is, as CLI11 wants it.
std::string objection_to_address(const std::string& text);

}  // namespace tidegate::cli
