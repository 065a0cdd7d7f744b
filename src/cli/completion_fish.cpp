#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion.hpp"

namespace tidegate::cli {

namespace {

std::string fish_quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') out += '\\';
        out += c;
    }
    return out + "'";
}

// When a line of the script applies: behind the words of the command, and not behind those of one
// below it.
std::string fish_condition(const ListedCommand& command) {
    if (command.name.empty()) return "__fish_use_subcommand";
    std::string condition;
    std::size_t begin = 0;
    while (begin <= command.name.size()) {
        const std::size_t end = std::min(command.name.find(' ', begin), command.name.size());
        condition += fmt::format("{}__fish_seen_subcommand_from {}", begin == 0 ? "" : "; and ",
                                 command.name.substr(begin, end - begin));
        begin = end + 1;
    }
    if (!command.inner.empty()) {
        condition +=
            fmt::format("; and not __fish_seen_subcommand_from {}", fmt::join(command.inner, " "));
    }
    return condition;
}

std::string fish_option(const ListedOption& option) {
    std::string text;
    for (const std::string& name : option.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (!option.value.name.empty()) text += " -x";
    if (option.value.is_file()) text += " -a '(__fish_complete_path (commandline -ct))'";
    if (!option.value.choices.empty()) {
        text += fmt::format(" -a '{}'", fmt::join(option.value.choices, " "));
    }
    return text;
}

}  // namespace

std::string fish_completion(const std::vector<ListedCommand>& commands) {
    std::string script =
        "# Completes command lines of tidegate in fish; made by `tidegate completion fish`.\n"
        "\n"
        "complete -c tidegate -f\n";
    for (const ListedCommand& command : commands) {
        const std::string line =
            fmt::format("complete -c tidegate -n {}", fish_quoted(fish_condition(command)));
        for (const std::string& inner : command.inner) {
            const std::string full = command.name.empty() ? inner : command.name + " " + inner;
            for (const ListedCommand& below : commands) {
                if (below.name != full) continue;
                script += fmt::format("{} -a {} -d {}\n", line, inner, fish_quoted(below.what));
            }
        }
        for (const ListedArgument& argument : command.arguments) {
            if (argument.value.is_file()) script += line + " -F\n";
            if (argument.value.choices.empty()) continue;
            script += fmt::format("{} -a '{}'\n", line, fmt::join(argument.value.choices, " "));
        }
        for (const ListedOption& option : command.options) {
            script +=
                fmt::format("{}{} -d {}\n", line, fish_option(option), fish_quoted(option.what));
        }
    }
    return script;
}

}  // namespace tidegate::cli
