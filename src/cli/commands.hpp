// The command line of Tidegate. commands.cpp puts the commands together, in the order of `--help`,
// and says what is wrong with a command line; each command is described beside what it does.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate {
class Doc;
}  // namespace tidegate

namespace tidegate::telemetry {
struct MetricInfo;
}  // namespace tidegate::telemetry

namespace tidegate::cli {

// Runs what the command line asks for. Returns the exit code. May throw std::exception.
int run_command_line(int argc, const char* const* argv);

// The commands end with these codes, for scripts. Some have further codes, which their `--help`
// says.
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
Command doctor_command(CLI::App& app);
Command echo_command(CLI::App& app);
Command explain_command(CLI::App& app);
Command health_command(CLI::App& app);
Command keys_command(CLI::App& app);
Command quickstart_command(CLI::App& app);
Command reference_command(CLI::App& app);
Command reload_command(CLI::App& app);
Command run_command(CLI::App& app);
Command size_command(CLI::App& app);
Command simulate_command(CLI::App& app);

// `simulate --record`: which proxy is asked, and for how long.
struct RecordingOptions {
    std::string config;
    std::string admin;                     // empty: as the configuration has it
    std::string token_file;                // goes with `admin`
    std::string file;                      // that the requests are written to; `-`: standard output
    std::int64_t per_million = 1'000'000;  // of the identifiers
    std::chrono::microseconds time{0};
};
int record_requests(const RecordingOptions& options);

// Each other command that asks the running proxy (admin/api_paths.hpp).
std::vector<Command> asking_commands(CLI::App& app);

// Writes `doc` to the output, as JSON or as text. Returns its exit code.
int print(const Doc& doc, bool as_json);

// Writes a line to the error output. Returns the code.
int complain(int code, std::string_view what);

// Says what is wrong with `text` as an address to listen on; "" if nothing is, as CLI11 wants it.
std::string objection_to_address(const std::string& text);

// Holds the line that `keys new` prints. A type of its own, as Result<std::string, std::string>
// would be ambiguous.
struct KeyLine {
    std::string text;
};

// The line for the file of keys: it holds the SHA-256 of `key`, not the key. Pure. The error says
// what names of users and tiers are.
Result<KeyLine, std::string> key_line(std::string_view key, std::string_view user,
                                      std::string_view tier);

// How `quickstart --tls` came by its certificate.
enum class QuickstartFiles { made, found };

// Makes config::kQuickstartCertificate and config::kQuickstartKey in `folder`, the key for its
// owner's eyes only. If both are there they stay, and nothing that is there is ever written over.
// Or why not, as a sentence.
Result<QuickstartFiles, std::string> ensure_quickstart_certificate(
    const std::filesystem::path& folder, std::chrono::system_clock::time_point now);

// `reference` prints these tables in Markdown, for docs/monitoring.md, logging.md and
// troubleshooting.md. The writers of metrics, of the access log and of denials read the same rows.
// Pure.
std::string metrics_table(std::span<const telemetry::MetricInfo> metrics);
std::string log_fields_table();
std::string denial_fields_table();
// Metrics for programs: an array of `name`, `type`, `help`, `labels` (`name` and, where there are
// no others, `values`), and `note` in Markdown where there is one. Pure.
std::string metrics_json(std::span<const telemetry::MetricInfo> metrics);

// The commands and options as data, taken from the parser that reads the command line, so that
// completions and the manual page cannot differ from it: cli/completion_and_man.cpp, pure.

// Describes a value of the command line, for completions.
struct ValueKind {
    std::string name;                  // `FILE`, `ADDRESS`; empty: the option takes no value
    std::vector<std::string> choices;  // all that it may be; empty: anything

    bool is_file() const { return name == "FILE" || name == "LOG"; }
};

struct ListedOption {
    std::vector<std::string> names;  // `-c`, `--config`
    std::string what;                // what `--help` says of it
    ValueKind value;
};

struct ListedArgument {
    std::string what;
    ValueKind value;
    bool is_required = false;
};

struct ListedCommand {
    std::string name;  // `run`, `keys new`; empty: the program itself
    std::string what;
    std::string footer;  // the text below the options of `--help`; may be empty
    std::vector<ListedOption> options;
    std::vector<ListedArgument> arguments;
    std::vector<std::string> inner;  // the last word of each command below this one
};

// The commands right below `command`, without those that help does not list.
std::vector<const CLI::App*> shown_commands(const CLI::App& command);

// The program itself first, then its commands in the order of `--help`, each before those below it.
std::vector<ListedCommand> list_commands(const CLI::App& app);

// For bash 4 and later, with or without the package bash-completion.
std::string bash_completion(const std::vector<ListedCommand>& commands);

// To be found as `_tidegate` in a folder of zsh's `fpath`, or to be sourced after `compinit`.
std::string zsh_completion(const std::vector<ListedCommand>& commands);

// For fish 3 and later.
std::string fish_completion(const std::vector<ListedCommand>& commands);

std::string man_page(const std::vector<ListedCommand>& commands, std::string_view version);

// `text` as a paragraph of roff: text between backquotes is bold, and no character is taken for a
// command.
std::string roff_text(std::string_view text);

}  // namespace tidegate::cli
