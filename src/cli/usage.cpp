#include "cli/usage.hpp"

#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/quote.hpp"
#include "config/address.hpp"
#include "config/suggest.hpp"

namespace tidegate::cli {

namespace {

std::vector<std::string> command_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* const command : app.get_subcommands({})) {
        names.push_back(command->get_name());
    }
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
            return fmt::format("{} needs a file: {}", quote(shown),
                               quote(shown + " tidegate.yaml"));
        }
        return fmt::format("{} needs a value: {}", quote(shown),
                           quote(shown + " " + option->get_option_text()));
    }
    return std::string(error);
}

// About the first argument that the command needs and that is not there.
std::optional<std::string> missing_argument(const CLI::App& command) {
    const auto example_of = [](const std::string& name) {
        return name == "IDENTIFIER" ? "user:alice" : name == "SHELL" ? "bash" : "alice";
    };
    for (const CLI::Option* const option : command.get_options()) {
        if (!option->get_positional() || !option->get_required() || option->count() != 0) continue;
        const std::string name = option->get_name(true);
        return fmt::format("{} is required: {}", name,
                           quote(full_name(command) + " " + example_of(name)));
    }
    return std::nullopt;
}

}  // namespace

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
    const auto found =
        app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
    return found.empty() ? nullptr : found.front();
}

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

std::string objection_to_address(const std::string& text) {
    const auto address = config::parse_listen_address(text);
    return address ? std::string() : address.error();
}

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

}  // namespace tidegate::cli
