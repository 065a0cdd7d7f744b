#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion.hpp"

namespace tidegate::cli {

namespace {

// bash takes `=` for a word of its own, so that `--face=pro` comes as three words.
constexpr std::string_view kBashHead =
    R"(# Completes command lines of tidegate in bash; made by `tidegate completion bash`.

_tidegate_files() {
    # A name that holds a space is one word.
    compopt -o filenames 2>/dev/null
    local IFS=$'\n'
    COMPREPLY=($(compgen -f -- "$1"))
}

_tidegate() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command= options= words= files=
    COMPREPLY=()
    if [[ $word == = ]]; then
        word=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if ((COMP_CWORD > 1)); then
        command=${COMP_WORDS[1]}
    fi
)";

constexpr std::string_view kBashEnd =
    R"(    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    elif [[ $files ]]; then
        _tidegate_files "$word"
    else
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    fi
}

complete -F _tidegate tidegate
)";

// The patterns of `case` for the option behind a command: `'run -c' | 'run --config'`.
std::string bash_pattern(const ListedCommand& command, const ListedOption& option) {
    std::string pattern;
    for (const std::string& name : option.names) {
        pattern += fmt::format("{}'{} {}'", pattern.empty() ? "" : " | ", command.name, name);
    }
    return pattern;
}

std::string bash_value(const ValueKind& value) {
    if (value.is_file()) return "_tidegate_files \"$word\"; ";
    if (value.choices.empty()) return "";
    return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\")); ",
                       fmt::join(value.choices, " "));
}

std::string bash_words(const ListedCommand& command) {
    std::vector<std::string> options;
    for (const ListedOption& option : command.options) {
        options.insert(options.end(), option.names.begin(), option.names.end());
    }
    std::vector<std::string> words = command.inner;
    bool takes_file = false;
    for (const ListedArgument& argument : command.arguments) {
        words.insert(words.end(), argument.value.choices.begin(), argument.value.choices.end());
        takes_file = takes_file || argument.value.is_file();
    }
    std::string text = fmt::format("options='{}'", fmt::join(options, " "));
    if (!words.empty()) text += fmt::format(" words='{}'", fmt::join(words, " "));
    if (takes_file) text += " files=yes";
    return text;
}

}  // namespace

std::string bash_completion(const std::vector<ListedCommand>& commands) {
    std::string script(kBashHead);
    std::string values;
    std::string words;
    for (const ListedCommand& command : commands) {
        if (!command.inner.empty() && !command.name.empty()) {
            script += fmt::format(
                "    if [[ $command == {} ]] && ((COMP_CWORD > 2)); then\n"
                "        command+=\" ${{COMP_WORDS[2]}}\"\n"
                "    fi\n",
                command.name);
        }
        for (const ListedOption& option : command.options) {
            if (option.value.name.empty()) continue;
            values += fmt::format("        {}) {}return ;;\n", bash_pattern(command, option),
                                  bash_value(option.value));
        }
        words += fmt::format("        '{}') {} ;;\n", command.name, bash_words(command));
    }
    script += "    case \"$command $before\" in\n" + values + "    esac\n";
    script += "    case $command in\n" + words + "    esac\n";
    return script.append(kBashEnd);
}

}  // namespace tidegate::cli
