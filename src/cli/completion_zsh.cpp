#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion.hpp"

namespace tidegate::cli {

namespace {

// Within single quotes, and within the brackets and colons of _arguments and _describe.
std::string zsh_text(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\'') {
            out += R"('\'')";
            continue;
        }
        if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
        out += c;
    }
    return out;
}

std::string zsh_value(const ValueKind& value) {
    if (value.is_file()) return "_files";
    return value.choices.empty() ? " " : fmt::format("({})", fmt::join(value.choices, " "));
}

std::string zsh_option(const ListedOption& option) {
    const std::string value =
        option.value.name.empty()
            ? ""
            : fmt::format(":{}:{}", zsh_text(option.value.name), zsh_value(option.value));
    std::string lines;
    for (const std::string& name : option.names) {
        // An option with a value may be written as `--option=VALUE`, too.
        const bool is_long = name.starts_with("--") && !value.empty();
        lines += fmt::format(" \\\n                '({}){}{}[{}]{}'", fmt::join(option.names, " "),
                             name, is_long ? "=" : "", zsh_text(option.what), value);
    }
    return lines;
}

std::string zsh_commands(const std::vector<ListedCommand>& commands, const std::string& above) {
    std::string lines;
    for (const ListedCommand& command : commands) {
        const std::size_t space = command.name.rfind(' ');
        const std::string parent = space == command.name.npos ? "" : command.name.substr(0, space);
        if (command.name.empty() || parent != above) continue;
        const std::string word = command.name.substr(space == command.name.npos ? 0 : space + 1);
        lines += fmt::format("                '{}:{}'\n", word, zsh_text(command.what));
    }
    return lines;
}

std::string zsh_case(const std::vector<ListedCommand>& commands, const ListedCommand& command) {
    std::string text = fmt::format("        '{}')\n", command.name);
    if (!command.inner.empty()) {
        text += "            local -a commands=(\n" + zsh_commands(commands, command.name) +
                "            )\n            _describe command commands\n";
    }
    text += "            _arguments -s";
    for (const ListedOption& option : command.options) text += zsh_option(option);
    for (const ListedArgument& argument : command.arguments) {
        text += fmt::format(" \\\n                ':{}:{}'", zsh_text(argument.what),
                            zsh_value(argument.value));
    }
    return text + "\n            ;;\n";
}

}  // namespace

std::string zsh_completion(const std::vector<ListedCommand>& commands) {
    std::string script =
        R"(#compdef tidegate
# Completes command lines of tidegate in zsh; made by `tidegate completion zsh`.

_tidegate() {
    local command=
    if ((CURRENT > 2)); then
        command=$words[2]
        shift words
        ((CURRENT--))
    fi
)";
    for (const ListedCommand& command : commands) {
        if (command.inner.empty() || command.name.empty()) continue;
        script += fmt::format(
            "    if [[ $command == {} ]] && ((CURRENT > 2)); then\n"
            "        command+=\" $words[2]\"\n"
            "        shift words\n"
            "        ((CURRENT--))\n"
            "    fi\n",
            command.name);
    }
    script += "    case $command in\n";
    for (const ListedCommand& command : commands) script += zsh_case(commands, command);
    // Found in `fpath`, the file itself is the function when it is first called.
    script +=
        R"(    esac
}

if [[ $funcstack[1] == _tidegate ]]; then
    _tidegate "$@"
else
    compdef _tidegate tidegate
fi
)";
    return script;
}

}  // namespace tidegate::cli
