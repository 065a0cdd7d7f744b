#include "cli/commands.hpp"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/activity_command.hpp"
#include "cli/check_command.hpp"
#include "cli/command_list.hpp"
#include "cli/completion.hpp"
#include "cli/doctor_command.hpp"
#include "cli/echo.hpp"
#include "cli/explain_command.hpp"
#include "cli/inspect_command.hpp"
#include "cli/keys_command.hpp"
#include "cli/man_page.hpp"
#include "cli/reload_command.hpp"
#include "cli/run_command.hpp"
#include "cli/usage.hpp"
#include "config/address.hpp"
#include "config/schema_text.hpp"

namespace tidegate::cli {

namespace {

constexpr int kExitUsage = 2;

constexpr const char* kExamples = R"(Examples:
  tidegate quickstart                 a proxy on port 8080 with a low limit, in
                                      front of an echo upstream
  curl -i http://127.0.0.1:8080/      see RateLimit fields, and soon a 429
  tidegate check tidegate.yaml        check a configuration
  tidegate run tidegate.yaml          run it
  tidegate reload                     have it read its configuration again
  tidegate explain -c tidegate.yaml --path /login --from 203.0.113.7
                                      what the proxy would do with this request
  tidegate doctor -c tidegate.yaml    check Redis, upstreams, files and keys
  tidegate inspect user:alice         what is counted for this user now

`tidegate COMMAND --help` says more about a command.)";

constexpr const char* kEchoFooter =
    R"(Answers every request with what it received, as JSON. In the query:
  ?status=404    that status
  ?delay=100ms   wait before answering (at most 60s)
  ?bytes=1MiB    a body of that size (at most 1GiB))";

constexpr const char* kCompletionFooter =
    R"(Prints a script that completes command lines of Tidegate. For this user:

  tidegate completion bash > ~/.local/share/bash-completion/completions/tidegate
  tidegate completion zsh > FOLDER/_tidegate
  tidegate completion fish > ~/.config/fish/completions/tidegate.fish

FOLDER is one of the folders in `fpath` of zsh.)";

constexpr const char* kManFooter =
    R"(Prints the manual page in roff:

  tidegate man | man -l -)";

constexpr const char* kSchemaFooter =
    R"(Prints the JSON Schema (2020-12) of the configuration, with which editors complete
keys and mark faults. Editors with the YAML language server look for a line in
the configuration:

  tidegate schema > tidegate.schema.json

  # yaml-language-server: $schema=tidegate.schema.json)";

struct Arguments {
    QuickstartArguments quickstart;
    RunArguments run;
    CheckArguments check;
    std::string echo_listen = kEchoAddress;
    ExplainArguments explain;
    InspectArguments inspect;
    InspectArguments reset;
    ActivityArguments top;
    ActivityArguments denials;
    DoctorArguments doctor;
    AdminArguments reload;
    AdminArguments health;
    KeysArguments keys;
    std::string shell;       // of `completion`
    std::string help_about;  // empty: the program
};

// Made from text that was checked: the default, or what the parser's check let pass.
config::Address echo_address(const std::string& text) {
    return *config::parse_listen_address(text);
}

CLI::App* describe_echo(CLI::App& app, std::string& listen) {
    CLI::App* const echo = app.add_subcommand("echo", "Run a small upstream for tests");
    echo->add_option("--listen", listen, fmt::format("Where to listen (default {})", kEchoAddress))
        ->option_text("ADDRESS")
        ->check(objection_to_address);
    echo->footer(kEchoFooter);
    return echo;
}

CLI::App* describe_completion(CLI::App& app, std::string& shell) {
    CLI::App* const command = app.add_subcommand("completion", "Print the completions of a shell");
    command->add_option("SHELL", shell, "The shell: bash, zsh or fish")
        ->option_text(" ")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    command->footer(kCompletionFooter);
    return command;
}

CLI::App* describe_man(CLI::App& app) {
    CLI::App* const command = app.add_subcommand("man", "Print the manual page");
    command->footer(kManFooter);
    return command;
}

CLI::App* describe_schema(CLI::App& app) {
    CLI::App* const command =
        app.add_subcommand("schema", "Print the JSON Schema of the configuration");
    command->footer(kSchemaFooter);
    return command;
}

struct Commands {
    CLI::App* quickstart;
    CLI::App* run;
    CLI::App* check;
    CLI::App* reload;
    CLI::App* health;
    CLI::App* explain;
    CLI::App* inspect;
    CLI::App* reset;
    CLI::App* top;
    CLI::App* denials;
    CLI::App* doctor;
    CLI::App* keys_new;
    CLI::App* echo;
    CLI::App* schema;
    CLI::App* completion;
    CLI::App* man;
    CLI::App* version;
    CLI::App* help;
};

// In the order in which help lists them.
Commands describe(CLI::App& app, Arguments& arguments) {
    app.name("tidegate");
    app.description("Tidegate, a rate-limiting reverse proxy.");
    app.set_version_flag("-v,-V,--version", "tidegate " TIDEGATE_VERSION, "Show the version");
    app.set_help_flag("-h,--help", "Show this help");
    app.require_subcommand(0, 1);

    Commands commands{};
    commands.quickstart = describe_quickstart(app, arguments.quickstart);
    commands.run = describe_run(app, arguments.run);
    commands.check = describe_check(app, arguments.check);
    commands.reload = describe_reload(app, arguments.reload);
    commands.health = describe_health(app, arguments.health);
    commands.explain = describe_explain(app, kDefaultFile, arguments.explain);
    commands.inspect = describe_inspect(app, arguments.inspect);
    commands.reset = describe_reset(app, arguments.reset);
    commands.top = describe_top(app, arguments.top);
    commands.denials = describe_denials(app, arguments.denials);
    commands.doctor = describe_doctor(app, kDefaultFile, arguments.doctor);
    commands.keys_new = describe_keys(app, arguments.keys);
    commands.echo = describe_echo(app, arguments.echo_listen);
    commands.schema = describe_schema(app);
    commands.completion = describe_completion(app, arguments.shell);
    commands.man = describe_man(app);
    commands.version = app.add_subcommand("version", "Show the version");
    commands.help = app.add_subcommand("help", "Show this help, or that of a command");
    commands.help->add_option("COMMAND", arguments.help_about, "The command")->option_text(" ");
    // Last: commands inherit the footer that the program has when they are added.
    app.footer(kExamples);
    return commands;
}

int wrong_use(const std::string& what) {
    fmt::print(stderr, "tidegate: {}\n", what);
    return kExitUsage;
}

int show_help(const CLI::App& app, const std::string& about) {
    if (about.empty()) {
        // Not app.help(), which would be that of `help`.
        fmt::print(
            "{}", app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
        return 0;
    }
    if (const auto objection = objection_to_command(app, about)) return wrong_use(*objection);
    const CLI::App* const command = find_command(app, about);
    if (command == nullptr) return wrong_use(fmt::format("there is no command `{}`", about));
    fmt::print("{}", command->help(app.get_name()));
    return 0;
}

int print_completion(const CLI::App& app, const std::string& shell) {
    const std::vector<ListedCommand> commands = list_commands(app);
    fmt::print("{}", shell == "bash"  ? bash_completion(commands)
                     : shell == "zsh" ? zsh_completion(commands)
                                      : fish_completion(commands));
    return 0;
}

int run_command(const CLI::App& app, const Commands& commands, const Arguments& arguments) {
    if (commands.quickstart->parsed()) return run_quickstart(arguments.quickstart);
    if (commands.run->parsed()) return run_proxy(arguments.run);
    if (commands.check->parsed()) return check_configuration(arguments.check);
    if (commands.reload->parsed()) return run_reload(arguments.reload);
    if (commands.health->parsed()) return run_health(arguments.health);
    if (commands.explain->parsed()) return run_explain(arguments.explain);
    if (commands.inspect->parsed()) return run_inspect(arguments.inspect);
    if (commands.reset->parsed()) return run_reset(arguments.reset);
    if (commands.top->parsed()) return run_top(arguments.top);
    if (commands.denials->parsed()) return run_denials(arguments.denials);
    if (commands.doctor->parsed()) return run_doctor(arguments.doctor);
    if (commands.keys_new->parsed()) return make_key(arguments.keys);
    if (commands.echo->parsed()) return run_echo(echo_address(arguments.echo_listen));
    if (commands.schema->parsed()) {
        fmt::print("{}", config::schema_text());
        return 0;
    }
    if (commands.completion->parsed()) return print_completion(app, arguments.shell);
    if (commands.man->parsed()) {
        fmt::print("{}", man_page(list_commands(app), TIDEGATE_VERSION));
        return 0;
    }
    if (commands.help->parsed()) return show_help(app, arguments.help_about);
    if (commands.version->parsed()) {
        fmt::print("tidegate {}\n", TIDEGATE_VERSION);
        return 0;
    }
    fmt::print(stderr, "{}", app.help());
    return kExitUsage;
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
    CLI::App app;
    Arguments arguments;
    const Commands commands = describe(app, arguments);
    if (argc > 1) {
        if (const auto objection = objection_to_command(app, argv[1])) return wrong_use(*objection);
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& shown) {
        // Help and the version come this way.
        return app.exit(shown);
    } catch (const CLI::ParseError& error) {
        return wrong_use(usage_error(app, error));
    }
    return run_command(app, commands, arguments);
}

}  // namespace tidegate::cli
