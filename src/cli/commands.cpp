#include "cli/commands.hpp"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/run.hpp"
#include "cli/config_report.hpp"
#include "cli/doctor_command.hpp"
#include "cli/echo.hpp"
#include "cli/explain_command.hpp"
#include "cli/inspect_command.hpp"
#include "config/address.hpp"
#include "config/config.hpp"
#include "config/quickstart.hpp"

namespace tidegate::cli {

namespace {

constexpr const char* kDefaultFile = "tidegate.yaml";
constexpr const char* kEchoAddress = "127.0.0.1:9000";
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

constexpr const char* kExamples = R"(Examples:
  tidegate run                        the quickstart: a proxy on port 8080 with
                                      a low limit, in front of an echo upstream
  tidegate check -c tidegate.yaml     check a configuration
  tidegate run -c tidegate.yaml       run it
  tidegate explain -c tidegate.yaml --path /login --from 203.0.113.7
                                      what the proxy would do with this request
  tidegate doctor -c tidegate.yaml    check Redis, upstreams, files and keys
  tidegate inspect user:alice         what is counted for this user now
  curl -i http://127.0.0.1:8080/      see RateLimit fields, and soon a 429

`tidegate COMMAND --help` says more about a command.)";

constexpr const char* kRunFooter =
    R"(Without a file, tidegate.yaml of the current folder is used; without that one,
the built-in quickstart, with the echo upstream. TERM and INT let requests in
flight finish, then stop.)";

constexpr const char* kCheckFooter =
    R"(Prints each fault and warning as file:line:column, then a summary. The exit code
is 1 when there is a fault, so it can guard a deployment.)";

constexpr const char* kEchoFooter =
    R"(Answers every request with what it received, as JSON. In the query:
  ?status=404    that status
  ?delay=100ms   wait before answering (at most 60s)
  ?bytes=1MiB    a body of that size (at most 1GiB))";

struct Arguments {
    std::string file;  // empty: none given
    bool with_echo = false;
    std::string echo_listen = kEchoAddress;
    ExplainArguments explain;
    InspectArguments inspect;
    InspectArguments reset;
    DoctorArguments doctor;
};

// Made from text that was checked: the default, or what the parser's check let pass.
config::Address echo_address(const std::string& text) {
    return *config::parse_listen_address(text);
}

// A command that reaches the proxy from this machine.
std::string curl_line(const config::Address& address) {
    if (address.is_unix()) {
        return fmt::format("curl -i --unix-socket {} http://localhost/", address.unix_path);
    }
    config::Address reachable = address;
    if (address.host == "0.0.0.0") reachable.host = "127.0.0.1";
    if (address.host == "::") reachable.host = "::1";
    return fmt::format("curl -i http://{}/", reachable.to_string());
}

struct Chosen {
    config::Loaded loaded;
    std::string file;  // empty: the built-in quickstart
    std::string what;  // for the first line of output
};

Chosen choose_configuration(const Arguments& arguments) {
    if (!arguments.file.empty()) {
        return {config::load_file(arguments.file), arguments.file, arguments.file};
    }
    // What is there but cannot be looked at is reported by its reader.
    std::error_code ec;
    if (std::filesystem::exists(kDefaultFile, ec) || ec) {
        return {config::load_file(kDefaultFile), kDefaultFile,
                fmt::format("{} of the current folder", kDefaultFile)};
    }
    return {config::quickstart(), "",
            fmt::format("the built-in quickstart (no -c, and no {} here)", kDefaultFile)};
}

int run_proxy(const Arguments& arguments) {
    Chosen chosen = choose_configuration(arguments);
    fmt::print(stderr, "tidegate {}: {}\n{}", TIDEGATE_VERSION, chosen.what, report(chosen.loaded));
    if (!chosen.loaded.config) {
        fmt::print(stderr, "not started: {}\n", summary(chosen.loaded));
        return kExitFailure;
    }
    std::optional<EchoServer> echo;
    if (chosen.file.empty() || arguments.with_echo) {
        echo.emplace(echo_address(kEchoAddress));
        fmt::print(stderr, "  echo upstream on {}\n", echo->address().to_string());
    }
    if (chosen.file.empty()) {
        fmt::print(stderr, "  try: {}\n", curl_line(chosen.loaded.config->listen.front().address));
    }
    return app::run(std::move(chosen.loaded.config), chosen.file);
}

int check_configuration(const Arguments& arguments) {
    const config::Loaded loaded =
        config::load_file(arguments.file.empty() ? kDefaultFile : arguments.file);
    fmt::print(stderr, "{}", report(loaded));
    fmt::print(loaded.config ? stdout : stderr, "{}\n", summary(loaded));
    return loaded.config ? 0 : kExitFailure;
}

// For CLI11: an empty string is no objection.
std::string objection_to_address(const std::string& text) {
    const auto address = config::parse_listen_address(text);
    return address ? std::string() : address.error();
}

struct Commands {
    CLI::App* run;
    CLI::App* check;
    CLI::App* explain;
    CLI::App* inspect;
    CLI::App* reset;
    CLI::App* doctor;
    CLI::App* echo;
};

Commands describe(CLI::App& app, Arguments& arguments) {
    app.name("tidegate");
    app.description("Tidegate, a rate-limiting reverse proxy.");
    app.footer(kExamples);
    app.set_version_flag("--version", "tidegate " TIDEGATE_VERSION, "Show the version");
    app.set_help_flag("-h,--help", "Show this help");
    app.require_subcommand(0, 1);

    CLI::App* run = app.add_subcommand("run", "Run the proxy");
    run->add_option("-c,--config", arguments.file, "The configuration")->option_text("FILE");
    run->add_flag("--echo", arguments.with_echo,
                  fmt::format("Start an echo upstream on {} as well", kEchoAddress));
    run->footer(kRunFooter);

    CLI::App* check = app.add_subcommand("check", "Check a configuration");
    check
        ->add_option("-c,--config", arguments.file,
                     fmt::format("The configuration (default {})", kDefaultFile))
        ->option_text("FILE");
    check->footer(kCheckFooter);

    CLI::App* explain = describe_explain(app, kDefaultFile, arguments.explain);
    CLI::App* inspect = describe_inspect(app, kDefaultFile, arguments.inspect);
    CLI::App* reset = describe_reset(app, kDefaultFile, arguments.reset);
    CLI::App* doctor = describe_doctor(app, kDefaultFile, arguments.doctor);

    CLI::App* echo = app.add_subcommand("echo", "Run a small upstream for tests");
    echo->add_option("--listen", arguments.echo_listen,
                     fmt::format("Where to listen (default {})", kEchoAddress))
        ->option_text("ADDRESS")
        ->check(objection_to_address);
    echo->footer(kEchoFooter);
    return {run, check, explain, inspect, reset, doctor, echo};
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
    CLI::App app;
    Arguments arguments;
    const Commands commands = describe(app, arguments);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        // Help and the version come this way too.
        return app.exit(error) == 0 ? 0 : kExitUsage;
    }
    if (commands.run->parsed()) return run_proxy(arguments);
    if (commands.check->parsed()) return check_configuration(arguments);
    if (commands.explain->parsed()) return run_explain(arguments.explain);
    if (commands.inspect->parsed()) return run_inspect(arguments.inspect, kDefaultFile);
    if (commands.reset->parsed()) return run_reset(arguments.reset, kDefaultFile);
    if (commands.doctor->parsed()) return run_doctor(arguments.doctor);
    if (commands.echo->parsed()) return run_echo(echo_address(arguments.echo_listen));
    fmt::print(stderr, "{}", app.help());
    return kExitUsage;
}

}  // namespace tidegate::cli
