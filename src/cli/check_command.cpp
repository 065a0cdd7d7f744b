#include "cli/check_command.hpp"

#include <chrono>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/certificate_list.hpp"
#include "cli/config_report.hpp"
#include "cli/exit_code.hpp"
#include "config/config.hpp"

namespace tidegate::cli {

namespace {

constexpr int kRight = 0;
constexpr int kFaulty = 1;

constexpr const char* kCheckFooter =
    R"(Prints each fault and warning as file:line:column, each certificate with its key,
names and the days left, then a summary. The exit code is 1 when there is a fault, so it can guard a deployment; with --strict also when
there is a warning.

  tidegate check tidegate.yaml
  tidegate check --strict --json tidegate.yaml
  generate-configuration | tidegate check -)";

}  // namespace

CLI::App* describe_check(CLI::App& app, CheckArguments& arguments) {
    CLI::App* const command = app.add_subcommand("check", "Check a configuration");
    add_config_file(*command, arguments.config);
    command->add_flag("--strict", arguments.is_strict, "Take warnings for faults");
    command->add_flag("--json", arguments.as_json, "Print an object for programs");
    command->footer(kCheckFooter);
    return command;
}

int check_configuration(const CheckArguments& arguments) {
    const auto file = find_config_file(arguments.config, "check");
    if (!file) {
        fmt::print(stderr, "tidegate: {}\n", file.error());
        return exit_code::kWrongUse;
    }
    const config::Loaded loaded = load_config(file->path);
    const bool is_right = loaded.config && !(arguments.is_strict && !loaded.warnings.empty());
    const auto now = std::chrono::system_clock::now();
    if (arguments.as_json) {
        fmt::print("{}\n", report_json(loaded, is_right, now));
    } else {
        fmt::print(stderr, "{}", report(loaded));
        if (loaded.config) {
            fmt::print(is_right ? stdout : stderr, "{}",
                       certificate_lines(app::listed_certificates(*loaded.config), now));
        }
        fmt::print(is_right ? stdout : stderr, "{}{}\n", summary(loaded),
                   loaded.config && !is_right ? ": --strict takes warnings for faults" : "");
    }
    return is_right ? kRight : kFaulty;
}

}  // namespace tidegate::cli
