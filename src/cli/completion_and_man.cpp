#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "cli/commands.hpp"

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
    for (const CLI::App* const inner : shown_commands(app)) names.push_back(inner->get_name());
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
    for (const CLI::App* const inner : shown_commands(command)) {
        add(*inner, program, name.empty() ? inner->get_name() : name + " " + inner->get_name(),
            all);
    }
}

}  // namespace

std::vector<const CLI::App*> shown_commands(const CLI::App& command) {
    return command.get_subcommands(
        [](const CLI::App* inner) { return !inner->get_group().empty(); });
}

std::vector<ListedCommand> list_commands(const CLI::App& app) {
    std::vector<ListedCommand> all;
    add(app, app, "", all);
    return all;
}

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
    for (std::string_view rest = command.name; !rest.empty();) {
        condition += fmt::format("{}__fish_seen_subcommand_from {}",
                                 condition.empty() ? "" : "; and ", take_until(rest, ' '));
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

namespace {

constexpr std::string_view kManAbout =
    R"(.SH DESCRIPTION
Tidegate stands in front of an HTTP API and limits how much each client may ask.
It forwards what the limits admit, and answers the rest with 429.
Counts are kept in memory, or in Redis where several proxies share them.
)";

constexpr std::string_view kManEnd =
    R"(.SH SIGNALS
.TP
\fBTERM\fR, \fBINT\fR
The proxy stops accepting connections, lets requests in flight finish, and ends.
A second one ends it at once.
.TP
\fBHUP\fR
The proxy reads its configuration again.
If the new one has a fault, the old one stays in force.
.TP
\fBUSR1\fR
The proxy opens its access log again.
.TP
\fBUSR2\fR
The proxy starts its program again.
The new process takes over listening sockets and counts; the former one lets requests in flight
finish, and ends.
.SH FILES
.TP
\fItidegate.yaml\fR
The configuration, in the current folder, if the command line names none.
.SH EXIT STATUS
0 on success, 1 if the proxy could not start or the configuration has a fault, 2 if the command
line is wrong.
Commands with other codes say so above.
.SH SEE ALSO
The configuration, the algorithms and the operation of Tidegate are described in the documents of
its package, and in its repository.
)";

void append_roff(char c, std::string& out) {
    switch (c) {
        case '\\':
            out += "\\e";
            break;
        case '-':
            out += "\\-";
            break;
        case '\'':
            out += "\\(aq";
            break;
        case '^':
            out += "\\(ha";
            break;
        case '~':
            out += "\\(ti";
            break;
        case '`':
            out += "\\(ga";
            break;
        default:
            out += c;
    }
}

// A line that begins so would be a command.
std::string_view guard_of(std::string_view line) {
    return line.starts_with('.') || line.starts_with('\'') ? "\\&" : "";
}

std::string roff_example(std::string_view line) {
    std::string out(guard_of(line));
    for (const char c : line) append_roff(c, out);
    return out;
}

// The text below the options of `--help`: paragraphs, and lines that are indented as they are.
std::string roff_footer(std::string_view footer) {
    std::string out;
    bool in_example = false;
    bool in_paragraph = false;
    const auto end_example = [&] {
        if (in_example) out += ".EE\n.RE\n";
        in_example = false;
    };
    while (!footer.empty()) {
        const std::string_view line = take_until(footer, '\n');
        if (line.starts_with("  ")) {
            if (!in_example) out += ".PP\n.RS 4\n.EX\n";
            in_example = true;
            in_paragraph = false;
            out += roff_example(line.substr(2)) + "\n";
            continue;
        }
        end_example();
        if (line.empty()) {
            in_paragraph = false;
            continue;
        }
        if (!in_paragraph) out += ".PP\n";
        in_paragraph = true;
        out += roff_text(line) + "\n";
    }
    end_example();
    return out;
}

std::string roff_synopsis(const ListedCommand& command) {
    std::string text = ".B tidegate " + roff_text(command.name) + "\n[\\fIOPTIONS\\fR]";
    for (const ListedArgument& argument : command.arguments) {
        const std::string name = "\\fI" + roff_text(argument.value.name) + "\\fR";
        text += argument.is_required ? " " + name : " [" + name + "]";
    }
    return text + "\n";
}

std::string roff_option(const ListedOption& option) {
    std::string names;
    for (const std::string& name : option.names) {
        names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff_example(name));
    }
    if (!option.value.name.empty()) names += " \\fI" + roff_example(option.value.name) + "\\fR";
    return fmt::format(".TP\n{}\n{}\n", names, roff_text(option.what));
}

std::string roff_command(const ListedCommand& command) {
    std::string text =
        fmt::format(".SS tidegate {}\n{}", roff_text(command.name), roff_synopsis(command));
    text += ".PP\n" + roff_text(command.what) + ".\n";
    for (const ListedOption& option : command.options) {
        if (option.names.back() != "--help") text += roff_option(option);
    }
    return text + roff_footer(command.footer);
}

}  // namespace

std::string roff_text(std::string_view text) {
    std::string out(guard_of(text));
    bool is_bold = false;
    for (const char c : text) {
        if (c != '`') {
            append_roff(c, out);
            continue;
        }
        is_bold = !is_bold;
        out += is_bold ? "\\fB" : "\\fR";
    }
    return is_bold ? out + "\\fR" : out;
}

std::string man_page(const std::vector<ListedCommand>& commands, std::string_view version) {
    std::string page = fmt::format(
        ".\\\" Made by `tidegate man`.\n"
        ".TH TIDEGATE 1 \"\" \"tidegate {}\" \"User Commands\"\n"
        ".SH NAME\ntidegate \\- rate\\-limiting reverse proxy\n.SH SYNOPSIS\n",
        version);
    std::string described;
    for (const ListedCommand& command : commands) {
        if (command.name.empty() || !command.inner.empty()) continue;
        page += roff_synopsis(command) + ".br\n";
        described += roff_command(command);
    }
    page += kManAbout;
    page += ".PP\nEach command has the option \\fB\\-h\\fR, \\fB\\-\\-help\\fR.\n.SH COMMANDS\n";
    page += described;
    return page.append(kManEnd);
}

}  // namespace tidegate::cli
