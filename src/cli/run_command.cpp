#include "cli/run_command.hpp"

#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/run.hpp"
#include "cli/config_report.hpp"
#include "cli/echo.hpp"
#include "cli/exit_code.hpp"
#include "config/address.hpp"
#include "config/config.hpp"
#include "config/file_text.hpp"
#include "config/quickstart.hpp"

namespace tidegate::cli {

namespace {

constexpr int kFailure = 1;

constexpr const char* kRunFooter =
    R"(Without a file, tidegate.yaml of the current folder is used. TERM and INT let
requests in flight finish, then stop; HUP reads the file again.)";

constexpr const char* kQuickstartFooter =
    R"(A demonstration that needs no configuration: a proxy on 127.0.0.1:8080 which
admits ten requests a minute, in front of an echo upstream. It listens on this
machine only.)";

// A command that reaches the proxy from this machine.
std::string curl_line(const config::Address& address) {
    if (address.is_unix()) {
        return fmt::format("curl -i --unix-socket {} http://localhost/", address.unix_path);
    }
    return fmt::format("curl -i http://{}/", config::reachable(address).to_string());
}

// `file` is empty for the quickstart.
int run(config::Loaded loaded, const std::string& file, std::string_view what, bool with_echo) {
    fmt::print(stderr, "tidegate {}: {}\n{}", TIDEGATE_VERSION, what, report(loaded));
    if (!loaded.config) {
        fmt::print(stderr, "not started: {}\n", summary(loaded));
        return kFailure;
    }
    std::optional<EchoServer> echo;
    if (with_echo) {
        echo.emplace(*config::parse_listen_address(kEchoAddress));
        fmt::print(stderr, "  echo upstream on {}\n", echo->address().to_string());
    }
    if (file.empty()) {
        fmt::print(stderr, "  try: {}\n", curl_line(loaded.config->listen.front().address));
    }
    return app::run(std::move(loaded.config), file);
}

}  // namespace

CLI::App* describe_run(CLI::App& app, RunArguments& arguments) {
    CLI::App* const command = app.add_subcommand("run", "Run the proxy");
    add_config_file(*command, arguments.config);
    command->add_flag("--echo", arguments.with_echo,
                      fmt::format("Start an echo upstream on {} as well", kEchoAddress));
    command->footer(kRunFooter);
    return command;
}

CLI::App* describe_quickstart(CLI::App& app) {
    CLI::App* const command =
        app.add_subcommand("quickstart", "Show Tidegate at work, on this machine only");
    command->footer(kQuickstartFooter);
    return command;
}

int run_proxy(const RunArguments& arguments) {
    const auto file = find_config_file(arguments.config, "run");
    if (!file) {
        fmt::print(stderr, "tidegate: {}\n", file.error());
        return exit_code::kWrongUse;
    }
    const bool is_input = file->path == config::kStandardInput;
    return run(config::load_file(file->path), file->path,
               is_input ? config::kShownStandardInput : file->path, arguments.with_echo);
}

int run_quickstart() {
    return run(config::quickstart(), "", "the quickstart, a demonstration for this machine only",
               true);
}

}  // namespace tidegate::cli
