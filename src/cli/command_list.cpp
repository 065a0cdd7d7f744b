#include "cli/command_list.hpp"

#include <CLI/CLI.hpp>

namespace tidegate::cli {

namespace {

// The argument of `help`, which may be any command.
constexpr const char* kCommandArgument = "COMMAND";

// CLI11 gives the values of IsMember only in the description of the type: `TEXT:{proxy,check}`.
std::vector<std::string> choices_of(const CLI::Option& option) {
    std::vector<std::string> choices;
    const std::string type = option.get_type_name();
    const std::size_t open = type.find('{');
    const std::size_t close = type.find('}', open);
    if (open == std::string::npos || close == std::string::npos) return choices;
    std::size_t begin = open + 1;
    for (std::size_t at = begin; at <= close; ++at) {
        if (at != close && type[at] != ',') continue;
        choices.push_back(type.substr(begin, at - begin));
        begin = at + 1;
    }
    return choices;
}

std::vector<std::string> inner_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* const inner : app.get_subcommands({})) names.push_back(inner->get_name());
    return names;
}

ListedOption listed(const CLI::Option& option) {
    ListedOption one;
    for (const std::string& name : option.get_snames()) one.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) one.names.push_back("--" + name);
    one.what = option.get_description();
    if (option.get_items_expected_max() > 0) {
        one.value = {option.get_option_text(), choices_of(option)};
    }
    return one;
}

ListedCommand listed(const CLI::App& command, const CLI::App& program, std::string name) {
    ListedCommand one;
    one.name = std::move(name);
    one.what = command.get_description();
    one.footer = command.get_footer();
    one.inner = inner_names(command);
    for (const CLI::Option* const option : command.get_options()) {
        if (!option->get_positional()) {
            one.options.push_back(listed(*option));
            continue;
        }
        ListedArgument argument;
        argument.what = option->get_description();
        argument.value = {option->get_name(true), choices_of(*option)};
        if (argument.value.name == kCommandArgument) argument.value.choices = inner_names(program);
        argument.is_required = option->get_required();
        one.arguments.push_back(std::move(argument));
    }
    return one;
}

void add(const CLI::App& command, const CLI::App& program, const std::string& name,
         std::vector<ListedCommand>& all) {
    all.push_back(listed(command, program, name));
    for (const CLI::App* const inner : command.get_subcommands({})) {
        add(*inner, program, name.empty() ? inner->get_name() : name + " " + inner->get_name(),
            all);
    }
}

}  // namespace

std::vector<ListedCommand> list_commands(const CLI::App& app) {
    std::vector<ListedCommand> all;
    add(app, app, "", all);
    return all;
}

}  // namespace tidegate::cli
