#include "cli/commands.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/doc.hpp"
#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/keys.hpp"
#include "config/value.hpp"

namespace tidegate::cli {

namespace {

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
  tidegate simulate access.log        whom the limits would have refused

`tidegate COMMAND --help` says more about a command.)";

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

std::vector<std::string> command_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* const command : shown_commands(app)) names.push_back(command->get_name());
    return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
    std::vector<std::string> names;
    for (const CLI::Option* const option : command.get_options()) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
        for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
    return names;
}

std::vector<std::string_view> views_of(const std::vector<std::string>& names) {
    return {names.begin(), names.end()};
}

// The command that was being parsed: the innermost that was named.
const CLI::App& innermost(const CLI::App& app) {
    const CLI::App* at = &app;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().back();
    return *at;
}

// `tidegate keys new`.
std::string full_name(const CLI::App& command) {
    const CLI::App* const parent = command.get_parent();
    if (parent == nullptr) return command.get_name();
    return full_name(*parent) + " " + command.get_name();
}

bool looks_like_file(std::string_view text) {
    return text.find('/') != text.npos || text.ends_with(".yaml") || text.ends_with(".yml") ||
           text.ends_with(".json");
}

// About the first of the words that no option and no argument takes.
std::string unexpected_word(const CLI::App& command, const std::string& word) {
    if (!word.starts_with('-') || word == "-") {
        return fmt::format("{} takes no further argument {}", quote(full_name(command)),
                           quote(word));
    }
    const std::string name = word.substr(0, word.find('='));
    const std::vector<std::string> names = option_names(command);
    const std::string_view meant = config::nearest(name, views_of(names));
    return fmt::format("{} has no option {}; {}options are {}", quote(full_name(command)),
                       quote(name),
                       meant.empty() ? std::string() : "did you mean " + quote(meant) + "? Its ",
                       config::one_of(views_of(names)));
}

// About an option that came without its value, which is what `error` says.
std::string missing_value(const CLI::App& command, std::string_view error) {
    for (const CLI::Option* const option : command.get_options()) {
        const std::string name = option->get_name();
        if (name.empty() || !error.starts_with(name + ":")) continue;
        const bool is_short = !option->get_snames().empty();
        const std::string shown = is_short ? "-" + option->get_snames().front() : name;
        if (option->get_option_text() == "FILE") {
            // An option that writes would overwrite it.
            const bool is_config = shown == "-c" || shown == "--candidate";
            return fmt::format("{} needs a file: {}", quote(shown),
                               quote(shown + (is_config ? " tidegate.yaml" : " FILE")));
        }
        return fmt::format("{} needs a value: {}", quote(shown),
                           quote(shown + " " + option->get_option_text()));
    }
    return std::string(error);
}

// About the first argument that the command needs and that is not there.
std::optional<std::string> missing_argument(const CLI::App& command) {
    const auto example_of = [](const std::string& name) {
        return name == "IDENTIFIER" ? "user:alice"
               : name == "SHELL"    ? "bash"
               : name == "TABLE"    ? "metrics"
                                    : "alice";
    };
    for (const CLI::Option* const option : command.get_options()) {
        if (!option->get_positional() || !option->get_required() || option->count() != 0) continue;
        const std::string name = option->get_name(true);
        return fmt::format("{} is required: {}", name,
                           quote(full_name(command) + " " + example_of(name)));
    }
    return std::nullopt;
}

// The command of `app` with that name; null if there is none.
const CLI::App* find_command(const CLI::App& app, const std::string& name) {
    const auto found =
        app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
    return found.empty() ? nullptr : found.front();
}

// What is wrong with `name` as the first word after `tidegate`; nothing if it is a command of
// `app`.
std::optional<std::string> objection_to_command(const CLI::App& app, const std::string& name) {
    const std::vector<std::string> names = command_names(app);
    const std::string list = "The commands are " + config::one_of(views_of(names));
    if (name == "-c" || name.starts_with("--config") || looks_like_file(name)) {
        const std::string file = name.starts_with('-') ? "FILE" : name;
        return fmt::format("name a command first: {} or {}. {}", quote("tidegate run " + file),
                           quote("tidegate check " + file), list);
    }
    if (name.starts_with('-')) return std::nullopt;  // an option of the program itself, or none
    if (find_command(app, name) != nullptr) return std::nullopt;
    const std::string_view meant = config::nearest(name, views_of(names));
    return fmt::format("there is no command {}{} {}", quote(name),
                       meant.empty() ? "." : "; did you mean " + quote(meant) + "?", list);
}

// In one or two sentences, what is wrong with a command line that `app` could not parse.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
    const CLI::App& command = innermost(app);
    const std::string more = fmt::format(". See {}", quote(full_name(command) + " --help"));
    // Not get_name(): with some errors that is the name of the command.
    const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
    const std::vector<std::string> inner = command_names(command);
    const std::vector<std::string> left = app.remaining(true);
    if (kind == CLI::ExitCodes::RequiredError && !inner.empty()) {
        if (!left.empty() && !left.front().starts_with('-')) {
            return fmt::format("{} has no command {}: it has {}", quote(full_name(command)),
                               quote(left.front()), config::one_of(views_of(inner))) +
                   more;
        }
        return fmt::format("{} needs one of its commands: {}", quote(full_name(command)),
                           config::one_of(views_of(inner))) +
               more;
    }
    if (kind == CLI::ExitCodes::RequiredError || kind == CLI::ExitCodes::ExtrasError) {
        if (!left.empty()) return unexpected_word(command, left.front()) + more;
        if (const auto argument = missing_argument(command)) return *argument + more;
    }
    if (kind == CLI::ExitCodes::ArgumentMismatch) {
        return missing_value(command, error.what()) + more;
    }
    return displayable(error.what()) + more;
}

int wrong_use(const std::string& what) {
    return complain(exit_code::kWrongUse, "tidegate: " + what);
}

int show_help(const CLI::App& app, const std::string& about) {
    if (about.empty()) {
        // Not app.help(), which would be that of `help`.
        fmt::print(
            "{}", app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
        return exit_code::kDone;
    }
    if (const auto objection = objection_to_command(app, about)) return wrong_use(*objection);
    const CLI::App* const command = find_command(app, about);
    if (command == nullptr) return wrong_use(fmt::format("there is no command `{}`", about));
    fmt::print("{}", command->help(app.get_name()));
    return exit_code::kDone;
}

int print_completion(const CLI::App& app, const std::string& shell) {
    const std::vector<ListedCommand> commands = list_commands(app);
    fmt::print("{}", shell == "bash"  ? bash_completion(commands)
                     : shell == "zsh" ? zsh_completion(commands)
                                      : fish_completion(commands));
    return exit_code::kDone;
}

Command schema_command(CLI::App& app) {
    CLI::App* const command =
        app.add_subcommand("schema", "Print the JSON Schema of the configuration");
    command->footer(kSchemaFooter);
    return {command, [] {
                fmt::print("{}", config::schema_text());
                return exit_code::kDone;
            }};
}

Command completion_command(CLI::App& app) {
    const auto shell = std::make_shared<std::string>();
    CLI::App* const command = app.add_subcommand("completion", "Print the completions of a shell");
    command->add_option("SHELL", *shell, "The shell: bash, zsh or fish")
        ->option_text(" ")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    command->footer(kCompletionFooter);
    return {command, [&app, shell] { return print_completion(app, *shell); }};
}

Command man_command(CLI::App& app) {
    CLI::App* const command = app.add_subcommand("man", "Print the manual page");
    command->footer(kManFooter);
    return {command, [&app] {
                fmt::print("{}", man_page(list_commands(app), TIDEGATE_VERSION));
                return exit_code::kDone;
            }};
}

Command version_command(CLI::App& app) {
    return {app.add_subcommand("version", "Show the version"), [] {
                fmt::print("tidegate {}\n", TIDEGATE_VERSION);
                return exit_code::kDone;
            }};
}

Command help_command(CLI::App& app) {
    const auto about = std::make_shared<std::string>();  // empty: the program
    CLI::App* const command = app.add_subcommand("help", "Show this help, or that of a command");
    command->add_option("COMMAND", *about, "The command")->option_text(" ");
    return {command, [&app, about] { return show_help(app, *about); }};
}

// In the order in which help lists them.
std::vector<Command> add_commands(CLI::App& app) {
    app.name("tidegate");
    app.description("Tidegate, a rate-limiting reverse proxy.");
    app.set_version_flag("-v,-V,--version", "tidegate " TIDEGATE_VERSION, "Show the version");
    app.set_help_flag("-h,--help", "Show this help");
    app.require_subcommand(0, 1);
    std::vector<Command> commands{quickstart_command(app), run_command(app),
                                  check_command(app),      reload_command(app),
                                  health_command(app),     explain_command(app)};
    for (Command& command : asking_commands(app)) commands.push_back(std::move(command));
    for (const auto add : {doctor_command, simulate_command, size_command, keys_command,
                           echo_command, schema_command, completion_command, man_command,
                           reference_command, version_command, help_command}) {
        commands.push_back(add(app));
    }
    // Last: commands inherit the footer that the program has when they are added.
    app.footer(kExamples);
    return commands;
}

}  // namespace

int print(const Doc& doc, bool as_json) {
    fmt::print("{}", as_json ? doc.json_text() : doc.text());
    return doc.exit_code;
}

int complain(int code, std::string_view what) {
    fmt::print(stderr, "{}\n", what);
    return code;
}

std::string objection_to_address(const std::string& text) {
    const auto address = config::parse_listen_address(text);
    return address ? std::string() : address.error();
}

int run_command_line(int argc, const char* const* argv) {
    CLI::App app;
    const std::vector<Command> commands = add_commands(app);
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
    for (const Command& command : commands) {
        if (!command.app->parsed()) continue;
        const int code = command.run();
        if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
        return complain(std::max(code, exit_code::kRefused), "cannot write to standard output");
    }
    fmt::print(stderr, "{}", app.help());
    return exit_code::kWrongUse;
}

}  // namespace tidegate::cli
